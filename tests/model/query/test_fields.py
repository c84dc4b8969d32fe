"""The table of fields, and its page."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from rota.errors import InvalidInput, InvalidQuery
from rota.model.query.check import DEEPEST, LONGEST, MOST_REGEXES, MOST_TERMS
from rota.model.query.fields import (
    FIELDS,
    JOB_FIELDS,
    LINE_FIELDS,
    SORTABLE,
    Depth,
    Field,
    Searched,
    Sort,
    Type,
    check_sort,
    find,
    nearest,
    sort,
)  # fmt: skip
from rota.model.query.parse import parse
from rota.model.query.tree import How
from rota.model.query.values import LONGEST_VALUE

PAGE = (Path(__file__).parents[3] / "docs" / "search.md").read_text("utf-8")


def row(field: Field) -> str:
    name = f"`{field.name}`" + {Depth.NEEDED: ".PATH", Depth.ALLOWED: "[.PATH]"}.get(field.depth, "")
    also = ", ".join(f"`{alias}`" for alias in field.aliases)
    return f"| {name} | {also} | {field.type} | {'yes' if field.sortable else ''} | {field.meaning} |"


def table(*fields: Field) -> str:
    return "\n".join(["| field | also | type | sort | meaning |", "|---|---|---|---|---|", *map(row, fields)])


def words_of(field: Field) -> str:
    groups = f"; as groups {_listed(field.groups)}" if field.groups else ""
    return f"- `{field.name}`: {_listed(field.words)}{groups}"


def _listed(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def test_the_page_has_the_table_of_fields_and_their_words() -> None:
    assert table(*JOB_FIELDS) in PAGE
    assert table(*LINE_FIELDS) in PAGE
    wrapped = PAGE.replace("\n  ", " ")
    assert [field.name for field in FIELDS.values() if field.words and words_of(field) not in wrapped] == []


def test_names_and_aliases_are_unique() -> None:
    names = [name for field in FIELDS.values() for name in (field.name, *field.aliases)]
    assert len(names) == len(set(names))
    assert all(re.fullmatch("[a-z_]+", name) for name in names)


def test_each_field_says_what_it_needs_to() -> None:
    for field in FIELDS.values():
        assert field.meaning
        assert bool(field.words) == (field.type is Type.WORD)
        assert (field.depth is not Depth.NONE) == (field.type is Type.JSON)
        assert all(set(words) <= set(field.words) for words in field.groups.values())
        assert not (field.sortable and (field.many or field.of_line or field.type is Type.JSON))
        assert How.IS in field.hows


def test_fields_are_found_by_name_and_alias_in_their_scope() -> None:
    assert find("Owner", Searched.JOBS) is FIELDS["user"]
    assert find("level", Searched.JOBS) is None
    assert find("level", Searched.OUTPUT) is FIELDS["level"]
    assert nearest("creatd", FIELDS) == "created"


def test_orders_of_lists() -> None:
    assert sort("finished") == Sort("finished")
    assert sort("-ended") == Sort("finished", descending=True)
    for name in SORTABLE:
        check_sort(sort(name))
    for wrong in ("", "-", "--finished", "label", "args.x", "level", 5, None):
        with pytest.raises(InvalidInput):
            sort(wrong)
    with pytest.raises(InvalidInput, match=r"did you mean finished\?"):
        sort("-finishd")
    with pytest.raises(InvalidInput):
        check_sort(Sort("ended"))


def test_every_query_of_the_page_can_be_read() -> None:
    tables = PAGE.partition("## Conditions")[2].partition("## Fields of jobs")[0]
    queries = re.findall(r"^\| `(.+?)` \|", tables, re.MULTILINE)
    assert len(queries) > 40
    for query in queries:
        parse(query.replace("\\|", "|"), 0)
    said = re.findall("^query, character 1: (.*)$", PAGE, re.MULTILINE)
    with pytest.raises(InvalidQuery) as caught:
        parse("stat:x", 0)
    assert said == [caught.value.problem]


def test_the_page_tells_the_limits() -> None:
    assert f"at most {LONGEST:,} characters, {MOST_TERMS} conditions and {DEEPEST} levels" in PAGE
    assert f"At most {MOST_REGEXES} of the" in PAGE
    assert f"a value at most {LONGEST_VALUE:,} characters" in PAGE.replace("\n", " ")
