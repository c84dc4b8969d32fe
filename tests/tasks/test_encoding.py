"""Values of tasks as JSON."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from rota.errors import NotSerialisable, TooLarge
from rota.tasks.encoding import to_json

PLENTY = 1_000


@dataclass
class Point:
    x: int
    y: float | None = None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": [1, 2.5, None, True, "ü"]}, {"a": [1, 2.5, None, True, "ü"]}),
        (Point(1), {"x": 1, "y": None}),
        (datetime(2027, 1, 1, tzinfo=UTC), "2027-01-01T00:00:00Z"),
        ((1, 2), [1, 2]),
        ("null", "null"),
    ],
)
def test_what_json_can_carry(value: Any, expected: Any) -> None:
    assert json.loads(to_json(value, PLENTY, "result")) == expected


@pytest.mark.parametrize("value", [math.nan, math.inf, [-math.inf], {"a": {"b": (1, math.nan)}}, {math.inf}])
def test_numbers_that_would_silently_become_null_are_refused(value: Any) -> None:
    with pytest.raises(NotSerialisable, match="result"):
        to_json(value, PLENTY, "result")


def _ring() -> list[Any]:
    ring: list[Any] = []
    ring.append(ring)
    return ring


@pytest.mark.parametrize("value", [object(), {1: object()}, {"a": lambda: None}, _ring()])
def test_what_json_can_t_carry_is_refused(value: Any) -> None:
    with pytest.raises(NotSerialisable):
        to_json(value, PLENTY, "result")


def test_the_limit_is_in_bytes() -> None:
    assert to_json("ü" * 4, 10, "state") == '"üüüü"'
    with pytest.raises(TooLarge, match="state"):
        to_json("ü" * 5, 10, "state")
