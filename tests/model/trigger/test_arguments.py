"""Times of a fire in the arguments of its job."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.model.times import instant
from rota.model.trigger.arguments import fill, local_iso

NOON = instant("2027-07-01T12:00:00+00:00")


def test_times_are_filled_in() -> None:
    value = {"day": "{fire_time}", "list": [1, None, "at {scheduled_for}!", {"{fire_time}": "{other} {}"}], "n": 1.5}
    assert fill(value, "Europe/Berlin", NOON, NOON + 90_500_000) == {
        "day": "2027-07-01T14:00:00+02:00",
        "list": [1, None, "at 2027-07-01T14:01:30.500000+02:00!", {"{fire_time}": "{other} {}"}],
        "n": 1.5,
    }
    assert value["day"] == "{fire_time}", "a copy"


@pytest.mark.parametrize(
    ("zone", "expected"),
    [("UTC", "2027-07-01T12:00:00+00:00"), ("Asia/Kathmandu", "2027-07-01T17:45:00+05:45")],
)
def test_times_have_the_offset_of_their_zone(zone: str, expected: str) -> None:
    assert local_iso(NOON, zone) == expected
    assert instant(expected) == NOON


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(alphabet="{}abc"),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(json_values)
def test_values_without_times_stay_as_they_are(value: Any) -> None:
    assert fill(value, "UTC", NOON, NOON) == value
