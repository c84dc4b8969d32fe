"""Statistics: bins, percentiles, windows and steps."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.errors import InvalidInput
from rota.model.statistics import (
    GRAINS,
    PER_OCTAVE,
    JobTally,
    Window,
    buckets,
    default_step,
    latency,
    percentile,
    window,
)
from rota.model.times import DAY, HOUR, MINUTE, SECOND


def histogram(times: list[int]) -> dict[int, int]:
    bins: dict[int, int] = {}
    for one in times:
        place = math.floor(PER_OCTAVE * math.log2(one))
        bins[place] = bins.get(place, 0) + 1
    return bins


@given(st.lists(st.integers(1_000, 10**12), min_size=1), st.sampled_from([0.5, 0.95, 0.99]))
def test_a_percentile_is_at_most_five_percent_off(times: list[int], share: float) -> None:
    exact = sorted(times)[math.ceil(share * len(times)) - 1] / SECOND
    assert percentile(histogram(times), share) == pytest.approx(exact, rel=0.05)


def test_no_jobs_have_no_times() -> None:
    found = latency({}, 0)
    assert (found.count, found.mean, found.p50, found.p99) == (0, None, None, None)


def test_tallies_add_up() -> None:
    one, other = JobTally(ordered=1, waits={3: 2}, wait_total=5), JobTally(ordered=2, failed=1, waits={3: 1, 4: 1})
    one.add(other)
    assert one == JobTally(ordered=3, failed=1, waits={3: 3, 4: 1}, wait_total=5)
    assert other.waits == {3: 1, 4: 1}


@pytest.mark.parametrize("span", [MINUTE, HOUR, 6 * HOUR, DAY, 7 * DAY, 30 * DAY, 365 * DAY, 1_000 * DAY])
def test_the_default_step_fits_its_window(span: int) -> None:
    step = default_step(span)
    assert span / step <= 120
    assert Window(span, step).grain in GRAINS


@pytest.mark.parametrize(
    ("since", "step", "what"),
    [
        ("0s", None, "since"), ("1001d", None, "since"), ("ever", None, "since"), ("1h", "90s", "step"),
        ("1h", "soon", "step"), ("13h", "1m", "step"), ("5d", "15m", "step"), ("61d", "1h", "step"),
        ("60d", "1m", "step"), ("1000d", "1h", "step"),
    ],
)  # fmt: skip
def test_windows_that_cannot_be_answered_are_refused(since: str, step: str | None, what: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        window(since, step)
    assert caught.value.what == what


def test_buckets_are_whole_and_without_gaps() -> None:
    asked = window("1h", "15m")
    now = 100 * DAY + 7 * MINUTE
    since = asked.begins(now)
    found = buckets(since, now, asked.step, {since: JobTally(succeeded=2)})
    assert [one.succeeded for one in found] == [2, 0, 0, 0, 0]
    assert since % (15 * MINUTE) == 0
