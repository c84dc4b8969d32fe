"""Complaints about values that do not fit: the place, the value and what is right."""

from __future__ import annotations

from datetime import datetime
from enum import Enum
from typing import Any, Literal

import msgspec
import pytest

from rota.api.misfits import misfit


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Part(msgspec.Struct, forbid_unknown_fields=True):
    size: int
    colour: Colour = Colour.RED


class Whole(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    parts: list[Part] = []
    named: dict[str, Part] = {}
    at: datetime | None = None
    mode: Literal["fast", "slow"] = "fast"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"parts": [{"size": "x"}]}, "parts[0].size: 'x' is not valid; expected int"),
        ({"parts": [{}]}, "parts[0].size: this field is missing"),
        ({"parts": [{"size": 1, "colour": "green"}]}, "colour: 'green' is not valid; expected one of red, blue"),
        ({"mode": "steady"}, "mode: 'steady' is not valid; expected one of fast, slow"),
        ({"part": []}, "part: [] is not valid; expected no such field; did you mean parts?"),
        ({"zzz": 7}, "zzz: 7 is not valid; expected no such field; there are parts, named, at, mode"),
        ({"at": "yesterday"}, "at: 'yesterday' is not valid; expected a time in ISO 8601"),
        ({"named": {"a": {"size": None}}}, "size: 'null' is not valid; expected int"),
        ([], "body: [] is not valid; expected object"),
    ],
)
def test_it_names_the_place_the_value_and_what_is_right(given: Any, text: str) -> None:
    with pytest.raises(msgspec.ValidationError) as found:
        msgspec.convert(given, Whole)
    assert text in str(misfit(str(found.value), "body", Whole, given))
