"""Trees that came over the wire: nothing of them is believed."""

from __future__ import annotations

from typing import Any as Anything

import msgspec
import pytest

from rota.errors import InvalidQuery
from rota.model.query.check import DEEPEST, LONGEST, MOST_REGEXES, MOST_TERMS, check
from rota.model.query.fields import JOB_FIELDS, Searched
from rota.model.query.tree import All, Any, Condition, How, Not, Seek, Term, Text

LIKE, IS, HAS, BELOW = How.LIKE, How.IS, How.HAS, How.BELOW
FINE = Term("state", IS, "failed")

WRONG: list[tuple[Condition, str]] = [
    (Term("stat", IS, "x"), 'there is no field "stat"; did you mean "state"?'),
    (Term("owner", IS, "x"), 'there is no field "owner"'),  # an alias is for people
    (Term("owner; DROP TABLE jobs", IS, "x"), "there is no field"),
    (Term("level", IS, "error"), "it is one of lines"),
    (Term("state", IS, "live"), 'no state is "live"'),
    (Term("state", LIKE, "f*"), '"state" can\'t be compared by "like"'),
    (Term("task", BELOW, "x"), '"task" can\'t be compared by "below"'),
    (Term("id", HAS, "abcd"), '"id" can\'t be compared by "has"'),
    (Term("id", IS, "%"), '"id" is of the type id'),
    (Term("id", IS, "ABCD"), '"id" is of the type id'),
    (Term("task", IS, 7), '"task" is of the type text'),
    (Term("task", IS, True), '"task" is of the type text'),
    (Term("task", HAS, ""), '"task" is of the type text'),
    (Term("task", HAS, None), '"task" is of the type text'),
    (Term("priority", IS, "5"), '"priority" is of the type number'),
    (Term("priority", IS, 5.0), '"priority" is of the type number'),
    (Term("priority", IS, True), '"priority" is of the type number'),
    (Term("priority", IS, 2**63), '"priority" is of the type number'),
    (Term("priority", BELOW, None), '"priority" is of the type number'),
    (Term("created", IS, -1), '"created" is of the type time'),
    (Term("created", IS, 2**62), '"created" is of the type time'),
    (Term("took", IS, -1), '"took" is of the type span'),
    (Term("args", IS, 7), '"args" needs the name of a value'),
    (Term("task", IS, "x", ("y",)), '"task" has no parts'),
    (Term("args", BELOW, True, ("x",)), '"args" is of the type json'),
    (Term("args", IS, 2**63, ("x",)), '"args" is of the type json'),
    (Term("args", IS, float("nan"), ("x",)), '"args" is of the type json'),
    (Term("args", BELOW, float("inf"), ("x",)), '"args" is of the type json'),
    (Term("args", LIKE, 7, ("x",)), '"args" is of the type json'),
    (Term("args", IS, 7, ("x",) * 11), "a path has at most 10 parts"),
    (Term("args", IS, 7, ("x\0",)), "without NUL"),
    (Term("args", IS, 7, ("x" * 1_001,)), "too long"),
    (Term("task", IS, "\0"), "without NUL"),
    (Term("task", IS, "\udfff"), "without NUL"),
    (Term("task", IS, "x" * 1_001), "too long"),
    (Text(Seek.WORD, ""), "a text is missing"),
    (Text(Seek.WORD, "a b"), "a word has letters, digits and _ only"),
    (Text(Seek.PHRASE, "\0"), "without NUL"),
    (Text(Seek.REGEX, "("), "the regular expression is not valid: missing ): ("),
    (Text(Seek.REGEX, r"(a)\1"), "the regular expression is not valid"),
    (All((FINE,) * (MOST_TERMS + 1)), "too many conditions"),
    (Any((Text(Seek.REGEX, "a.b"),) * (MOST_REGEXES + 1)), "too many regular expressions"),
    (All((All(()),) * 10_000), "too many conditions"),
    (All((Term("task", IS, "x" * 1_000),) * (LONGEST // 1_000 + 1)), "its values are too long"),
]  # fmt: skip


@pytest.mark.parametrize(("condition", "problem"), WRONG, ids=lambda one: one if isinstance(one, str) else None)
def test_a_wrong_tree_is_refused(condition: Condition, problem: str) -> None:
    for given in (condition, Not(condition), Any((FINE, condition))):
        with pytest.raises(InvalidQuery) as caught:
            check(given)
        assert problem in str(caught.value)
        assert caught.value.position is None
        assert len(str(caught.value)) < 400


def nested(depth: int) -> Condition:
    found: Condition = FINE
    for _ in range(depth - 1):
        found = Not(found)
    return found


def test_the_depth_is_bounded_without_recursion() -> None:
    assert check(nested(DEEPEST)) == Not(FINE)
    for depth in (DEEPEST + 1, 100_000):
        with pytest.raises(InvalidQuery, match="nested too deeply"):
            check(nested(depth))


def test_line_fields_are_those_of_searches_of_output() -> None:
    assert check(Term("level", BELOW, "error"), Searched.OUTPUT) == Term("level", BELOW, "error")
    with pytest.raises(InvalidQuery, match='no level is "loud"'):
        check(Term("level", BELOW, "loud"), Searched.OUTPUT)


@pytest.mark.parametrize(
    "body",
    [
        {"type": "term", "field": "state", "how": "is", "value": ["failed"]},
        {"type": "term", "field": "state", "how": "=", "value": "failed"},
        {"type": "term", "field": "state", "how": "is", "value": "failed", "sql": "1=1"},
        {"type": "sql", "of": "1=1"},
        {"type": "all", "of": {}},
    ],
)
def test_another_shape_is_no_condition(body: Anything) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(body, Condition)


def test_missing_can_be_asked_of_every_field() -> None:
    for field in JOB_FIELDS:
        check(Term(field.name, IS, None, ("x",) if field.name in ("args", "meta") else ()))
