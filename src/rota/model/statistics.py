"""Statistics: windows, counts of jobs, and latencies from histograms.

A *tally* counts the jobs of one owner, queue and task in one bucket of time, and keeps their waits and runs as
histograms. Tallies add up, so buckets of any length and percentiles of any window come from the same rows. A bin of a
histogram is an eighth of an octave wide: a percentile is at most 4.5 % off.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from rota.errors import InvalidInput
from rota.model.lifecycle import LIVE, TERMINAL
from rota.model.times import DAY, HOUR, MINUTE, SECOND, Duration, Instant, aware, short, some_time

# Bins of an octave; `ended_tallies` in sql/shared/statistics.sql counts by the same rule.
PER_OCTAVE = 8
# How long tallies of each length are kept. A longer window has to do with longer buckets.
GRAINS: Mapping[Duration, Duration] = {
    MINUTE: 12 * HOUR, 15 * MINUTE: 4 * DAY, HOUR: 60 * DAY, DAY: 1_100 * DAY,
}  # fmt: skip
LONGEST_WINDOW = 1_000 * DAY
MOST_BUCKETS = 2_000
# A window of at most so many tallies of one task is read by the shorter grain.
FINE = 120
_COUNTS = ("ordered", "started", *sorted(TERMINAL))

Bins = dict[int, int]


class JobTally(msgspec.Struct, array_like=True):
    ordered: int = 0
    started: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    skipped: int = 0
    dropped: int = 0
    waits: Bins = {}
    wait_total: Duration = 0
    runs: Bins = {}
    run_total: Duration = 0

    def add(self, other: JobTally) -> None:
        # Field by field: a loop over their names takes twice as long, and an answer may add up ten thousand tallies.
        self.ordered += other.ordered
        self.started += other.started
        self.succeeded += other.succeeded
        self.failed += other.failed
        self.cancelled += other.cancelled
        self.skipped += other.skipped
        self.dropped += other.dropped
        self.wait_total += other.wait_total
        self.run_total += other.run_total
        for mine, more in ((self.waits, other.waits), (self.runs, other.runs)):
            for place, count in more.items():
                mine[place] = mine.get(place, 0) + count

    def count(self, what: str, bin_: int | None, count: int, total: Duration) -> None:
        """Adds one row of `ended_tallies` or `living_tallies`."""
        if bin_ is None:
            setattr(self, what, getattr(self, what) + count)
            return
        bins = self.waits if what == "wait" else self.runs
        bins[bin_] = bins.get(bin_, 0) + count
        if what == "wait":
            self.wait_total += total
        else:
            self.run_total += total

    @property
    def ended(self) -> int:
        return self.succeeded + self.failed + self.cancelled + self.skipped + self.dropped


# -- what people get -------------------------------------------------------------------------------------------------
class Latency(msgspec.Struct, frozen=True):
    """Times of so many jobs, in seconds; None: there are none."""

    count: int
    mean: float | None = None
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None


class Pace(msgspec.Struct, frozen=True):
    count: int
    per_minute: float
    per_hour: float


class Rates(msgspec.Struct, frozen=True):
    ordered: Pace
    started: Pace  # jobs, by the start of their latest attempt
    ended: Pace
    failed: Pace


class States(msgspec.Struct, frozen=True):
    """Jobs that are in a state now and have not ended, and jobs that ended within the window."""

    blocked: int = 0
    scheduled: int = 0
    held: int = 0
    ready: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    skipped: int = 0
    dropped: int = 0


class QueueStatistics(msgspec.Struct, frozen=True):
    queue: str
    states: States
    rates: Rates
    wait: Latency  # from the due time to the start, of jobs that ended
    run: Latency  # from the start to the end
    oldest_ready: datetime | None = None  # the due time of the job that is ready for longest,
    oldest_age: float | None = None  # and how long ago that was, in seconds


class Statistics(msgspec.Struct, frozen=True):
    at: datetime
    since: datetime  # a full minute, hour or day
    everyone: bool  # jobs of all users, not only of one's own
    states: States
    rates: Rates
    wait: Latency
    run: Latency
    queues: list[QueueStatistics]


class Bucket(msgspec.Struct, frozen=True):
    since: datetime
    ordered: int
    started: int
    succeeded: int
    failed: int
    cancelled: int
    skipped: int
    dropped: int
    wait_mean: float | None  # seconds; of jobs that ended in the bucket
    wait_p95: float | None
    run_mean: float | None
    run_p95: float | None


class History(msgspec.Struct, frozen=True):
    at: datetime
    step: float  # seconds
    everyone: bool
    buckets: list[Bucket]


# -- windows ---------------------------------------------------------------------------------------------------------
class Window(msgspec.Struct, frozen=True):
    """Which jobs, over which time. `step`: the length of the buckets; 0: the whole window is one."""

    span: Duration
    step: Duration = 0
    queue: str | None = None
    task: str | None = None
    own: bool = False  # an operator's own jobs only, too

    def __post_init__(self) -> None:
        if not 0 < self.span <= LONGEST_WINDOW:
            raise InvalidInput("since", short(self.span), f"a duration longer than 0s, at most {short(LONGEST_WINDOW)}")
        if self.step:
            _check_step(self.step, self.span)

    @property
    def grain(self) -> Duration:
        """The longest tallies that the buckets can be made of."""
        if self.step:
            return max(grain for grain in GRAINS if self.step % grain == 0)
        return next((grain for grain in GRAINS if self.span <= FINE * grain), DAY)

    def begins(self, now: Instant) -> Instant:
        unit = self.step or self.grain
        return max(0, now - self.span) // unit * unit


def _check_step(step: Duration, span: Duration) -> None:
    given = short(step)
    if step < 0 or step % MINUTE:
        raise InvalidInput("step", given, "whole minutes, such as 1m, 5m, 1h or 1d")
    if span / step > MOST_BUCKETS:
        raise InvalidInput("step", given, f"a longer one: at most {MOST_BUCKETS:,} buckets fit in an answer")
    finest = min(grain for grain, kept in GRAINS.items() if span <= kept)
    if step % finest:
        raise InvalidInput("step", given, f"whole multiples of {short(finest)} for a window of {short(span)}")


def window(
    since: object, step: object = None, queue: str | None = None, task: str | None = None, own: bool = False
) -> Window:
    """Reads durations as people write them."""
    return Window(some_time(since, "since"), 0 if step is None else some_time(step, "step"), queue, task, own)


def default_step(span: Duration) -> Duration:
    """The one that divides a window into 120 buckets or fewer."""
    steps = (MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 6 * HOUR, DAY, 7 * DAY)
    return next((step for step in steps if span <= 120 * step), 30 * DAY)


# -- answers ---------------------------------------------------------------------------------------------------------
def middle(bin_: int) -> float:
    """The duration in the middle of a bin, in seconds."""
    return float(2 ** ((bin_ + 0.5) / PER_OCTAVE)) / SECOND


def percentile(bins: Bins, share: float) -> float | None:
    """The time that this share of the jobs does not exceed."""
    wanted = share * sum(bins.values())
    seen = 0
    for place in sorted(bins):
        seen += bins[place]
        if seen >= wanted:
            return _rounded(middle(place))
    return None


def latency(bins: Bins, total: Duration) -> Latency:
    count = sum(bins.values())
    return Latency(count, mean(bins, total), *(percentile(bins, share) for share in (0.5, 0.95, 0.99)))


def mean(bins: Bins, total: Duration) -> float | None:
    count = sum(bins.values())
    return _rounded(total / count / SECOND) if count else None


def _rounded(seconds: float) -> float:
    return round(seconds, 6)


def rates(tally: JobTally, span: Duration) -> Rates:
    def rate(count: int) -> Pace:
        return Pace(count, round(count * MINUTE / span, 3), round(count * HOUR / span, 3))

    return Rates(rate(tally.ordered), rate(tally.started), rate(tally.ended), rate(tally.failed))


def states(live: Mapping[str, int], tally: JobTally) -> States:
    ended = {state.value: getattr(tally, state.value) for state in TERMINAL}
    return States(**{state.value: live.get(state.value, 0) for state in LIVE}, **ended)


def statistics(
    now: Instant,
    since: Instant,
    everyone: bool,
    live: Mapping[str, Mapping[str, int]],
    oldest: Mapping[str, Instant],
    tallies: Mapping[str, JobTally],
) -> Statistics:
    """`live`: jobs that have not ended, by queue and state; `oldest`: due times; `tallies`: by queue."""
    span = max(now - since, SECOND)
    names = sorted({*live, *tallies})
    queues = [
        _queue(name, now, span, live.get(name, {}), oldest.get(name), tallies.get(name, JobTally())) for name in names
    ]
    total, alive = JobTally(), dict.fromkeys((state.value for state in LIVE), 0)
    for tally in tallies.values():
        total.add(tally)
    for counts in live.values():
        for state, count in counts.items():
            alive[state] += count
    return Statistics(
        aware(now), aware(since), everyone, states(alive, total), rates(total, span),
        latency(total.waits, total.wait_total), latency(total.runs, total.run_total), queues,
    )  # fmt: skip


def _queue(
    name: str, now: Instant, span: Duration, live: Mapping[str, int], oldest: Instant | None, tally: JobTally
) -> QueueStatistics:
    return QueueStatistics(
        name, states(live, tally), rates(tally, span), latency(tally.waits, tally.wait_total),
        latency(tally.runs, tally.run_total), None if oldest is None else aware(oldest),
        None if oldest is None else max(0, now - oldest) / SECOND,
    )  # fmt: skip


def buckets(since: Instant, now: Instant, step: Duration, tallies: Mapping[Instant, JobTally]) -> list[Bucket]:
    """One bucket after the other, empty ones too."""
    return [_bucket(at, tallies.get(at, JobTally())) for at in range(since, now + 1, step)]


def _bucket(at: Instant, tally: JobTally) -> Bucket:
    return Bucket(
        aware(at), **{name: getattr(tally, name) for name in _COUNTS},
        wait_mean=mean(tally.waits, tally.wait_total), wait_p95=percentile(tally.waits, 0.95),
        run_mean=mean(tally.runs, tally.run_total), run_p95=percentile(tally.runs, 0.95),
    )  # fmt: skip
