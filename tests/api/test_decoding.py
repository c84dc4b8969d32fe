"""Depth of JSON, optional bodies, and the names in complaints."""

from __future__ import annotations

import enum
import json
from datetime import date
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.api.decoding import DEEPEST, BodyReader, QueryReader, too_deep
from rota.errors import InvalidInput

JSON = b"application/json"


class Inner(msgspec.Struct, forbid_unknown_fields=True):
    limit: int


class Outer(msgspec.Struct, forbid_unknown_fields=True):
    retry: Inner | None = None
    tags: dict[str, int] = {}


class Query(msgspec.Struct, forbid_unknown_fields=True):
    after: str | None = None
    limit: int | None = None
    all: bool = False


def nested(depth: int, value: str = "1", opening: str = "[", closing: str = "]") -> bytes:
    return (opening * depth + value + closing * depth).encode()


def test_depth_is_bounded() -> None:
    for opening, closing in (("[", "]"), ('{"a":', "}"), ('[{},"]",[[]],', "]")):
        assert not too_deep(nested(DEEPEST - 2, "1", opening, closing))
        assert too_deep(nested(DEEPEST + 1, "1", opening, closing))


def test_brackets_in_texts_are_not_counted() -> None:
    text = json.dumps({"a": "[" * 500, 'b\\"': '"[{' * 100, "c\\": '\\\\"' * 100, "[": [[[]]]})
    assert not too_deep(text.encode())


@settings(max_examples=30)
@given(
    st.recursive(
        st.text(alphabet='a"\\[]{}\n', max_size=5),
        lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=3), part, max_size=3),
        max_leaves=8,
    )
)
def test_depth_is_that_of_the_value(value: Any) -> None:
    def depth(one: Any) -> int:
        parts = one.values() if isinstance(one, dict) else one if isinstance(one, list) else None
        return 0 if parts is None else 1 + max(map(depth, parts), default=0)

    padding = DEEPEST - depth(value)
    if padding >= 0:
        assert not too_deep(nested(padding, json.dumps(value)))
        assert too_deep(nested(padding + 1, json.dumps(value)))


def test_a_deep_body_is_quick_to_refuse_and_never_fails_the_decoder() -> None:
    for body in (nested(1_000_000), b"[" * 1_000_000, b"[{}," * 500_000, b"[]" * 500_000, b"\\" * 1000 + b"[" * 100):
        with pytest.raises(InvalidInput, match="body"):
            BodyReader(Any).read(body, JSON)


@pytest.mark.parametrize(
    ("body", "what", "expected"),
    [
        (b'{"retry": {"limit": "x"}}', "retry.limit", "int"),
        (b'{"retry": {"limits": 1}}', "retry.limits", "no such field"),
        (b'{"retry": {}}', "retry.limit", "missing"),
        (b'{"tags": {"a": 1.5}}', "tags[...]", "int"),
        (b"7", "body", "object"),
    ],
)
def test_complaints_name_the_field_with_its_place(body: bytes, what: str, expected: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        BodyReader(Outer).read(body, JSON)
    assert raised.value.what == what
    assert expected in raised.value.expected


def test_a_body_may_be_left_out_where_the_type_says_so() -> None:
    assert BodyReader(Outer | None).read(b"", None) is None
    assert BodyReader(Outer | None).read(b"{}", JSON) == Outer()
    with pytest.raises(InvalidInput):
        BodyReader(Outer).read(b"", JSON)


def test_query_parameters_are_texts_of_their_types() -> None:
    read = QueryReader(Query).read
    assert read(b"limit=5&all=true&after=null") == Query("null", 5, True)
    assert read(b"after=") == Query("")
    for wrong, what in (
        (b"limit=5.5", "limit"),
        (b"all=maybe", "all"),
        (b"limit=", "limit"),
        (b"&".join([b"a=1"] * 101), "query"),
    ):
        with pytest.raises(InvalidInput) as raised:
            read(wrong)
        assert raised.value.what == what
    with pytest.raises(InvalidInput, match="takes: none"):
        QueryReader(None).read(b"a=1")


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Things(msgspec.Struct, forbid_unknown_fields=True):
    colours: list[Colour] | None = None
    day: date | None = None
    rest: Outer | None = None


@pytest.mark.parametrize(
    ("body", "what", "given", "expected"),
    [
        (b'{"colours": ["red", "pink"]}', "colours[1]", "pink", "one of red, blue"),
        (b'{"day": "2027-13-01"}', "day", "2027-13-01", "a date such as 2027-01-31"),
        (b'{"rest": {"retry": {"limit": "many"}}}', "rest.retry.limit", "many", "int"),
        (b'{"rest": {"retri": 5}}', "rest.retri", 5, "no such field; did you mean retry?"),
        (b'{"day": 5, ', "day", "int", "date | null"),  # no JSON behind it
    ],
)
def test_complaints_tell_the_value_and_what_is_right(body: bytes, what: str, given: object, expected: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        BodyReader(Things).read(body, JSON)
    assert (raised.value.what, raised.value.given, raised.value.expected) == (what, given, expected)


def test_a_query_parameter_with_choices_names_them() -> None:
    with pytest.raises(InvalidInput, match=r"^colours\[0\]: 'pink' is not valid; expected one of red, blue$"):
        QueryReader(Things).read(b"colours=pink")


def test_a_missing_field_is_called_missing() -> None:
    with pytest.raises(InvalidInput, match=r"^retry\.limit: this field is missing$"):
        BodyReader(Outer).read(b'{"retry": {}}', JSON)
