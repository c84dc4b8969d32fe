"""Completion of queries that are being typed."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.model.query.complete import AskedValues, Completion, complete, with_stored
from rota.model.query.fields import FIELDS, Searched, Type
from rota.model.query.parse import parse
from tests.model.query.test_parse import PIECES


def texts(found: Completion) -> list[str]:
    return [candidate.text for candidate in found.candidates]


def applied(text: str, found: Completion, number: int = 0) -> str:
    return text[: found.start] + found.candidates[number].text + text[found.end :]


@pytest.mark.parametrize(
    ("text", "candidates"),
    [
        ("sta", ["state:", "started>"]),
        ("task:a (sta", ["state:", "started>"]),
        ("-kin", ["kind:"]),
        ("arg", ["args."]),
        ("resu", ["result:"]),
        ("to", ["took>"]),
        ("lev", []),
        ("state:f", ["failed"]),
        ("state:failed,ski", ["skipped"]),
        ("STATUS:w", ["waiting"]),
        ("-state:l", ["live"]),
        ("finished>-1", ["-15m", "-1h", "-1d"]),
        ("finished>to", ["today"]),
        ("task:a", []),
        ('"quoted sta', []),
        ('task:"a sta', []),
        ("nosuch:f", []),
        ("args.x:tr", []),
        ("zzz", []),
    ],
)
def test_candidates(text: str, candidates: list[str]) -> None:
    assert texts(complete(text)) == candidates


def test_everything_is_offered_at_the_beginning() -> None:
    assert len(complete("").candidates) < len(complete("", searched=Searched.OUTPUT).candidates) == len(FIELDS)
    assert all(candidate.meaning for candidate in complete("").candidates)


def test_the_place_of_the_cursor_counts() -> None:
    text = "sta task:mail"
    found = complete(text, 3)
    assert applied(text, found) == "state: task:mail"
    assert complete("level:e", searched=Searched.OUTPUT).candidates[0].text == "error"
    assert complete("abc", 99).end == 3
    assert complete("abc", -5).end == 0


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("task:", AskedValues("task", "")),
        ("task:ma", AskedValues("task", "ma")),
        ("owner:a", AskedValues("user", "a")),
        ('task:x,"my ta', AskedValues("task", "my ta")),
        ("task=my\\ ta", AskedValues("task", "my ta")),
        ('label:"a b"', None),
        ("label:a*", None),
        ("task~ma", None),
        ("key:k", None),
        ("state:f", None),
    ],
)
def test_stored_values_are_asked_for(text: str, asked: AskedValues | None) -> None:
    assert complete(text).asked == asked


def test_stored_values_are_written_as_the_language_needs_them() -> None:
    text = 'state:failed task:"my'
    found = with_stored(complete(text), ["my task", 'my "x"'])
    assert applied(text, found) == 'state:failed task:"my task"'
    assert applied(text, found, 1) == 'state:failed task:"my \\"x\\""'


@pytest.mark.parametrize(
    "field", [field for field in FIELDS.values() if field.type is not Type.JSON], ids=lambda f: f.name
)
def test_what_is_completed_can_be_read(field: object) -> None:
    name = complete(getattr(field, "name"), searched=Searched.OUTPUT).candidates[0].text  # noqa: B009
    for candidate in complete(name, searched=Searched.OUTPUT).candidates:
        parse(name + candidate.text, 0, Searched.OUTPUT)


@given(
    st.one_of(st.lists(st.sampled_from(PIECES), max_size=20).map("".join), st.text(max_size=40)), st.integers(-1, 50)
)
@settings(max_examples=50)
def test_any_text_can_be_completed(text: str, at: int) -> None:
    found = complete(text, at)
    assert 0 <= found.start <= found.end <= len(text)
