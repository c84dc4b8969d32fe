"""Durations and instants: what is written is what is read, and nonsense is refused by one kind of error."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rota.errors import InvalidInput, RotaError
from rota.model.times import (
    DAY,
    HOUR,
    LATEST,
    LONGEST,
    MILLISECOND,
    MINUTE,
    SECOND,
    as_instant,
    aware,
    duration,
    instant,
    iso,
    short,
)

durations = st.integers(0, LONGEST)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
instants = st.integers(0, LATEST)
# Two years away from either end, so that no offset leads out of what `datetime` can hold.
datetimes = st.datetimes(datetime(3, 1, 1), datetime(9890, 1, 1), timezones=st.timezones())
offsets = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
# Texts near enough to durations that many of them are ones, with the traps of Unicode among them.
nearly = st.text(alphabet="0123456789.smhd -+eE_,\u0663\u00b2\u2003\n\0\ud800", max_size=12)

UNITS = {"ms": MILLISECOND, "s": SECOND, "m": MINUTE, "h": HOUR, "d": DAY}


@given(durations)
@example(0)
@example(1)
@example(SECOND - 1)
@example(SECOND)
@example(DAY - 1)
@example(LONGEST - 1)
@example(LONGEST)
def test_a_duration_survives_being_written_and_read(span: int) -> None:
    text = short(span)
    assert duration(text) == span
    assert re.fullmatch(r"[0-9.dhms]+", text), "no exponent, sign or space"


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (0, "0s"),
        (1, "0.001ms"),
        (250 * MILLISECOND, "250ms"),
        (SECOND, "1s"),
        (1_500_000, "1.5s"),
        (59 * SECOND, "59s"),
        (90 * SECOND, "1m30s"),
        (5 * MINUTE, "5m"),
        (HOUR + 30 * MINUTE, "1h30m"),
        (DAY, "1d"),
        (DAY + 1, "1d0.000001s"),
        (400 * DAY + 2 * HOUR, "400d2h"),
    ],
)
def test_durations_are_written_as_a_person_would(span: int, text: str) -> None:
    assert short(span) == text


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("90s", 90 * SECOND),
        ("5m", 5 * MINUTE),
        ("2h", 2 * HOUR),
        ("1d", DAY),
        ("1h30m", 90 * MINUTE),
        ("250ms", 250 * MILLISECOND),
        ("1.5h", 90 * MINUTE),
        ("0.000001s", 1),
        ("0s", 0),
        ("007s", 7 * SECOND),
        ("30m1h", 90 * MINUTE),
        ("  90s\n", 90 * SECOND),
    ],
)
def test_durations_are_read(text: str, span: int) -> None:
    assert duration(text) == span


@given(st.lists(st.tuples(st.integers(0, 99), st.sampled_from(sorted(UNITS))), min_size=1, max_size=6))
def test_the_parts_of_a_duration_add_up(parts: list[tuple[int, str]]) -> None:
    text = "".join(f"{count}{unit}" for count, unit in parts)
    assert duration(text) == sum(count * UNITS[unit] for count, unit in parts)


@given(durations)
def test_a_timedelta_is_taken_exactly(span: int) -> None:
    assert duration(timedelta(microseconds=span)) == span


@given(st.integers(0, LONGEST // SECOND))
def test_a_whole_number_means_seconds(seconds: int) -> None:
    assert duration(seconds) == duration(f"{seconds}s") == seconds * SECOND


@given(st.floats(0, LONGEST / SECOND))
def test_a_float_means_seconds_to_the_nearest_microsecond(seconds: float) -> None:
    found = duration(seconds)
    assert type(found) is int
    # Within half a microsecond, and one more that a float of this size can't tell apart.
    assert abs(Decimal(found) - Decimal(seconds) * SECOND) <= Decimal("1.5")


@pytest.mark.parametrize(
    "given",
    [
        pytest.param("", id="empty"),
        pytest.param("   ", id="blank"),
        "5",
        "s",
        "5x",
        "5M",
        "5 s",
        "1h 30m",
        "-5s",
        "+5s",
        "1e3s",
        "1_000s",
        "1,5s",
        ".5s",
        "5.s",
        "1.2.3s",
        "5s;",
        "five minutes",
        "nan",
        "nans",
        "inf",
        "infs",
        "PT5S",
        "\u0665s",
        "\u00b2s",
        "\uff15s",
        "5\u2003s",
        "5s\0",
        "36601d",
        pytest.param("9" * 400 + "s", id="400 digits"),
        -1,
        -0.000001,
        float("nan"),
        float("inf"),
        float("-inf"),
        1e300,
        pytest.param(10**400, id="10**400"),
        True,
        False,
        None,
        b"5s",
        ["5s"],
        {"seconds": 5},
        5j,
        Decimal(5),
        timedelta(microseconds=-1),
        timedelta.max,
        timedelta.min,
        datetime(2027, 1, 1, tzinfo=UTC),
    ],
)
def test_what_is_no_duration_is_refused(given: object) -> None:
    with pytest.raises(InvalidInput, match=r"^timeout: .* is not valid; expected a duration such as 90s") as caught:
        duration(given, "timeout")
    assert caught.value.what == "timeout"
    assert caught.value.given is given


@given(st.integers(max_value=-1) | st.floats(max_value=0, exclude_max=True, allow_nan=False))
def test_no_duration_is_negative(seconds: float) -> None:
    with pytest.raises(InvalidInput, match="not negative"):
        duration(seconds)


@given(st.integers(LONGEST + 1, 2**63))
@example(LONGEST + 1)
def test_no_duration_is_longer_than_the_longest(span: int) -> None:
    assert duration(timedelta(microseconds=LONGEST)) == LONGEST
    with pytest.raises(InvalidInput, match="at most 100 years"):
        duration(timedelta(microseconds=span))


@given(nearly | st.text())
@example("9" * 5_000 + "d")
def test_any_text_is_a_duration_in_range_or_refused(text: str) -> None:
    try:
        found = duration(text)
    except InvalidInput:
        return
    assert 0 <= found <= LONGEST
    assert set(text.strip()) <= set("0123456789.dhms")


@given(instants)
@example(0)
@example(0)
@example(LATEST)
@example(LATEST)
def test_an_instant_survives_being_written_and_read(moment: int) -> None:
    assert instant(iso(moment)) == moment


@given(instants, instants)
def test_written_instants_sort_like_instants(one: int, other: int) -> None:
    assert (iso(one) < iso(other)) == (one < other)
    assert (iso(one) == iso(other)) == (one == other)


@given(instants)
def test_instants_are_always_written_the_same_way(moment: int) -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00", iso(moment), re.ASCII)


@given(datetimes)
def test_an_aware_datetime_and_its_text_are_the_same_instant(moment: datetime) -> None:
    found = instant(moment)
    assert instant(moment.isoformat()) == found
    assert datetime.fromisoformat(iso(found)) == max(moment.astimezone(UTC), EPOCH)


@given(st.integers(0, LATEST - DAY), offsets)
def test_the_offset_says_when_not_what(moment: int, zone: timezone) -> None:
    there = datetime.fromisoformat(iso(moment)).astimezone(zone)
    assert instant(there) == instant(there.isoformat()) == moment


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1969-12-31T23:59:59.999999Z", 0),  # before 1970 is as good as 1970
        ("0001-01-01T00:00:00+14:00", 0),
        ("2027-01-01T09:00:00+01:00", 1_798_790_400 * SECOND),
        ("2027-01-01T08:00:00Z", 1_798_790_400 * SECOND),
        ("2027-01-01 08:00+00:00", 1_798_790_400 * SECOND),
        (" 2027-01-01T08:00:00.25Z\n", 1_798_790_400 * SECOND + 250 * MILLISECOND),
        ("2024-02-29T12:00:00-12:00", 1_709_251_200 * SECOND),
    ],
)
def test_instants_are_read(text: str, moment: int) -> None:
    assert instant(text) == moment


@pytest.mark.parametrize(
    "given",
    [
        pytest.param("", id="empty"),
        pytest.param("  ", id="blank"),
        "now",
        "tomorrow",
        "NaN",
        "1798790400",
        "09:00:00Z",
        "2027-13-01T09:00:00Z",
        "2027-02-29T09:00:00Z",
        "2027-01-01T25:00:00Z",
        "2027-01-01T09:00:61Z",
        "2027-01-01T09:00:00+25:00",
        "2027-01-01T09:00:00 Europe/Berlin",
        "-2027-01-01T09:00:00Z",
        "12027-01-01T09:00:00Z",
        "\u0662\u0660\u0662\u0667-01-01T09:00:00Z",
        pytest.param("2" * 10_000, id="10,000 digits"),
        0,
        1_798_790_400,
        1.5,
        float("nan"),
        True,
        None,
        b"2027-01-01T09:00:00Z",
        date(2027, 1, 1),
        timedelta(1),
    ],
)
def test_what_is_no_time_is_refused(given: object) -> None:
    with pytest.raises(InvalidInput, match=r"^run at: .* is not valid; expected a time in ISO 8601") as caught:
        instant(given, "run at")
    assert caught.value.what == "run at"
    assert caught.value.given is given


@given(st.datetimes())
def test_a_time_without_offset_is_refused_and_the_message_says_so(moment: datetime) -> None:
    for naive in (moment, moment.isoformat()):
        with pytest.raises(InvalidInput, match="the offset is missing"):
            instant(naive)


def test_a_date_alone_is_refused() -> None:
    with pytest.raises(InvalidInput, match="a time in ISO 8601 with offset"):
        instant("2027-01-01")


@given(st.text(alphabet="0123456789-+:.TZW \u0663\0", max_size=32) | st.text())
def test_any_text_is_an_instant_or_refused(text: str) -> None:
    try:
        found = instant(text)
    except InvalidInput:
        return
    assert type(found) is int


def test_what_is_refused_can_be_caught_as_rota_error_or_as_value_error() -> None:
    assert issubclass(InvalidInput, RotaError)
    assert issubclass(InvalidInput, ValueError)


@pytest.mark.parametrize("read", [duration, instant])
def test_a_long_text_is_cut_in_the_message_and_kept_in_the_error(read: object) -> None:
    assert callable(read)
    with pytest.raises(InvalidInput) as caught:
        read("x" * 10_000)
    assert len(str(caught.value)) < 300
    assert caught.value.given == "x" * 10_000


def test_a_time_beyond_the_calendar_is_refused() -> None:
    with pytest.raises(InvalidInput, match="before the year 9892"):
        instant("9999-12-31T23:59:59-14:00")


@given(instants)
@example(0)
@example(LATEST)
def test_an_instant_and_its_datetime_are_the_same_moment(moment: int) -> None:
    shown = aware(moment)
    assert shown.tzinfo is UTC
    assert as_instant(shown) == instant(shown) == moment
    assert iso(shown) == iso(moment)


@given(st.integers(-(10**30), 10**30))
def test_whatever_a_row_holds_can_be_shown(moment: int) -> None:
    assert datetime.fromisoformat(iso(moment)).tzinfo is not None


@pytest.mark.parametrize("text", ["2027-01-01T09:00:00Z\0garbage", "2027-01-01\ud80009:00:00Z", "2027-01-01x09:00Z"])
def test_only_what_iso_8601_is_made_of_is_read(text: str) -> None:
    with pytest.raises(InvalidInput):
        instant(text)


def test_a_zone_that_knows_no_offset_is_no_offset() -> None:
    class Nowhere(tzinfo):
        def utcoffset(self, when: datetime | None) -> None:
            return None

        def dst(self, when: datetime | None) -> None:
            return None

        def tzname(self, when: datetime | None) -> None:
            return None

    with pytest.raises(InvalidInput, match="the offset is missing"):
        instant(datetime(2027, 1, 1, tzinfo=Nowhere()))


def test_a_number_too_long_to_print_is_refused_with_our_error() -> None:
    with pytest.raises(InvalidInput, match="can't be shown"):
        duration(10**5000)
