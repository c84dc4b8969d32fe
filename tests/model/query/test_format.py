"""A condition survives being written as text, and being sent as JSON."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings

from rota.model.query.check import check
from rota.model.query.fields import Searched
from rota.model.query.format import text_of, written
from rota.model.query.normal import normal
from rota.model.query.parse import parse
from rota.model.query.tree import Condition, How, Term
from tests.model.query.conditions import conditions

ENCODE = msgspec.json.encode


@given(conditions(Searched.OUTPUT))
@settings(max_examples=100)
def test_a_written_condition_reads_back_as_its_normal_form(condition: Condition) -> None:
    text = text_of(condition)
    # As JSON: to Python, 1 and True are equal.
    assert ENCODE(parse(text, 0, Searched.OUTPUT)) == ENCODE(normal(condition)), text


@given(conditions(Searched.OUTPUT))
@settings(max_examples=30)
def test_a_sent_condition_passes_the_check_and_is_the_same(condition: Condition) -> None:
    arrived = msgspec.json.decode(ENCODE(condition), type=Condition)
    assert ENCODE(check(arrived, Searched.OUTPUT)) == ENCODE(normal(condition))


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("", ""),
        ("  *  ", ""),
        ("state:live", "state:blocked,scheduled,held,ready,running"),
        ("a AND b OR NOT (c d)", "a b OR -(c d)"),
        ("((a OR b)) c", "(a OR b) c"),
        ("task!=a,b", "-task:a,b"),
        ("NOT key:*", "-key:*"),
        ("took>90s", "took>1m30s"),
        ("due:1970-01-02", "due>=1970-01-02T00:00:00Z due<1970-01-03T00:00:00Z"),
        ("args.x:7", "args.x=7 OR args.x=\"7\""),
        ('task:"a b",c', 'task:"a b",c'),
    ],
)  # fmt: skip
def test_how_it_is_written(query: str, text: str) -> None:
    assert text_of(parse(query, 0)) == text


@pytest.mark.parametrize("value", ["a", "a b", "*", "", "..", "a,b", "a)b", '"', "\\", "-x", "é", "3..5", "~a", "=a"])
def test_a_written_value_is_that_value(value: str) -> None:
    assert parse(f"task:{written(value)}", 0) == Term("task", How.IS, value)
