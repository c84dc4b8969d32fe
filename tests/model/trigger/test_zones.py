"""Stretches of constant offset, against `zoneinfo` itself."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.errors import InvalidInput
from rota.model.times import LATEST, SECOND
from rota.model.trigger.zones import zone

NAMES = sorted(available_timezones() - {"localtime", "Factory", "posixrules"})
seconds = st.integers(0, LATEST // SECOND)
recent = st.integers(0, 4_000_000_000)


def shown(utc: int, name: str) -> datetime:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=utc)).astimezone(ZoneInfo(name))


@given(st.sampled_from(NAMES), seconds | recent)
def test_offsets_are_those_of_zoneinfo(name: str, utc: int) -> None:
    where = zone(name)
    stretch = where.stretch(utc)
    assert stretch.start <= utc < stretch.end
    for second in (utc, stretch.start, stretch.end - 1):
        assert timedelta(seconds=stretch.offset) == shown(second, name).utcoffset()
    assert where.stretch(stretch.end).start == stretch.end
    assert where.stretch(stretch.start - 1).end == stretch.start
    assert where.reading(utc * SECOND) == utc + stretch.offset


@given(st.sampled_from(NAMES), recent)
def test_gaps_and_folds_are_those_of_zoneinfo(name: str, utc: int) -> None:
    stretch = zone(name).stretch(utc)
    before = zone(name).stretch(stretch.start - 1)
    jump = stretch.offset - before.offset
    assert stretch.first - stretch.missing_from == max(0, jump)
    assert max(0, stretch.seen_until - stretch.first) >= max(0, -jump)
    assert max(0, before.last - before.seen_again_from) >= max(0, -jump)


@given(st.sampled_from(NAMES), st.dates(date(1970, 1, 3), date(2100, 1, 1)))
def test_midnight_is_the_first_instant_of_its_date(name: str, day: date) -> None:
    midnight = zone(name).midnight(day)
    assert zone(name).local(midnight).date() >= day
    assert zone(name).local(midnight - 1).date() < day


@pytest.mark.parametrize(
    "name", ["Mars/Olympus", "", "Europe", "../etc/passwd", "Europe/Berlin\0", "localtime", "europe/berlin ", "\ud800"]
)
def test_unknown_zones(name: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape("time zone: ")):
        zone(name)
