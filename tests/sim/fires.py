"""What schedules do, deed by deed: every fire, every skip and every step of a cursor, judged by how the schedule stood
in the moment before.

A fire is early or late by the store's clock; where that was set back, by the latest that it has ever shown.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import Any

from rota.model.lifecycle import TERMINAL
from rota.model.times import SECOND, Instant
from rota.model.trigger.fires import fires, next_fire
from rota.model.trigger.policies import Missed, Overlap
from rota.model.trigger.schedule import Timing, from_json
from tests.checks import fires as checks
from tests.checks.orders import early
from tests.sim.leases import ERROR
from tests.sim.rules import Book
from tests.sim.witness import Note, Row

# A step is worked out a second ahead at most, and then waits for its instant.
AHEAD = 1.5
COUNTED = 1_000

reading = lru_cache(maxsize=None)(from_json)


def named(schedule: Timing, fire: Instant) -> bool:
    return next_fire(schedule, fire - 1) == fire


class Standing(Book):
    """Knows how every schedule stands, and has stood."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: dict[str, Row] = {}
        self.past: dict[str, list[tuple[float, Row | None]]] = {}  # name -> since when, how
        self.peak = 0  # the latest the store's clock has ever been
        self.jumped = False

    def on_jump(self, note: Note, store: bool, wall: int, **_: Any) -> None:
        self.jumped |= store
        self.peak = max(self.peak, wall)

    def on_row(self, note: Note, wall: int, **_: Any) -> None:
        self.peak = max(self.peak, wall)

    def on_schedule(self, note: Note, name: str, after: Row | None, wall: int, **_: Any) -> None:
        self.peak = max(self.peak, wall)
        self.past.setdefault(name, []).append((note.at, after))
        if after is None:
            del self.rows[name]
        else:
            self.rows[name] = after

    def stood(self, name: str, since: float, until: float) -> list[Row | None]:
        """All the ways in which it stood in that time."""
        past = [(0.0, None), *self.past.get(name, [])]
        ends = [at for at, _ in past[1:]] + [float("inf")]
        return [row for (begun, row), end in zip(past, ends, strict=True) if begun <= until and end >= since]


class FireBook(Standing):
    """I6, one deed at a time."""

    def __init__(self) -> None:
        super().__init__()
        self._made: dict[tuple[str, Instant], Note] = {}
        self._once = checks.Made()
        self._states: dict[str, str] = {}
        self._jobs: dict[str, list[str]] = {}  # of a schedule
        self._counts: Counter[str] = Counter()  # fires by the rule in the life of a schedule
        self._wishes: dict[int, tuple[float, int]] = {}  # when, and what the store's clock said

    def on_wish(self, note: Note, number: int, wall: int, **_: Any) -> None:
        self._wishes[number] = (note.at, wall)

    def on_row(self, note: Note, wall: int, **rest: Any) -> None:
        super().on_row(note, wall)
        if note.job in self._states and rest["after"] is not None:
            self._states[note.job] = rest["after"]["state"]

    def _lives(self, name: str) -> bool:
        return any(self._states[job] not in TERMINAL for job in self._jobs.get(name, []))

    # -- fires -------------------------------------------------------------------------------------------------------
    def on_fire(self, note: Note, name: str, fire: Instant, kind: str, wall: int, **rest: Any) -> None:
        self.peak = max(self.peak, wall)
        self.report(self._once.make(name, fire), note)
        row = self.rows.get(name)
        if row is None:
            return self.found("I6", f"made for {name}, which does not stand", note)
        schedule = reading(row["timing"])
        if kind == "rule":
            self._by_rule(note, row, schedule, fire, wall, rest["sent"])
        elif kind == "backfill":
            self._by_backfill(note, name, fire, rest["wish"])
        elif not self.jumped and abs(fire - wall) > (note.at - self._wishes[rest["wish"]][0] + ERROR) * SECOND:
            self.found("I6", f"fired by hand at {wall}, for {fire}", note)
        if schedule.overlap is not Overlap.ALLOW and not rest["waiting"] and self._lives(name):
            self.found("overlap", f"{name} may not overlap, an earlier fire lives, and this one does not wait", note)
        self._made[name, fire] = note
        self._jobs.setdefault(name, []).append(note.job)
        self._states[note.job] = "born"
        return None

    def _by_rule(self, note: Note, row: Row, schedule: Timing, fire: Instant, wall: int, sent: float) -> None:
        name = row["name"]
        self._counts[name] += 1
        for breach in checks.fired(name, fire, self.peak, named(schedule, fire), row["paused_at"] is not None):
            self.report(breach, note)
        if fire <= row["handled"]:
            self.found("I6", f"{name} fired for {fire}, and its cursor was at {row['handled']}", note)
        if schedule.limit is not None and self._counts[name] > schedule.limit:
            self.found("I6", f"{name} fired {self._counts[name]} times; its limit is {schedule.limit}", note)
        if not self.jumped:
            self._too_late(note, schedule, fire, wall - round((note.at - sent) * SECOND))

    def _too_late(self, note: Note, schedule: Timing, fire: Instant, decided: Instant) -> None:
        """When the step was handed over, its policy would no longer have made this fire. What a step was worked out
        ahead of its instant by does not count."""
        policy = schedule.catch_up
        late, newer = (decided - fire) / SECOND - AHEAD, next_fire(schedule, fire)
        newest = newer is None or newer > decided - AHEAD * SECOND
        if newest and late <= policy.grace / SECOND:
            return
        text = f"{schedule.name} fired {late + AHEAD:.1f} s late: "
        if policy.missed is Missed.NONE:
            self.found("catch-up", text + "nothing is made up for", note)
        elif policy.window is not None and late > policy.window / SECOND:
            self.found("catch-up", text + "beyond its window", note)
        elif policy.missed is Missed.LATEST and not newest:
            self.found("catch-up", text + "and a later one is due", note)

    def _by_backfill(self, note: Note, name: str, fire: Instant, wish: int) -> None:
        since = self._wishes[wish][0]
        ways = [row for row in self.stood(name, since, note.at) if row is not None]
        if not any(named(reading(row["timing"]), fire) for row in ways):
            self.found("I6", f"{name} was made up for at {fire}, which its rule does not name", note)

    # -- skips -------------------------------------------------------------------------------------------------------
    def on_skip(self, note: Note, name: str, first: Instant, last: Instant, reason: str, **rest: Any) -> None:
        self.peak = max(self.peak, rest["wall"])
        row = self.rows.get(name)
        if row is None:
            return self.found("I6", f"a skip of {name}, which does not stand", note)
        schedule = reading(row["timing"])
        if reason == "overlap":
            if schedule.overlap not in (Overlap.SKIP, Overlap.REPLACE) or not self._lives(name):
                self.found("I6", f"{name} skipped {first} because of an overlap: there is none", note)
            return None
        if (reason == "paused") != (row["paused_at"] is not None):
            self.found("I6", f"{name} skipped {first} as {reason}; paused: {row['paused_at']}", note)
        if (reason == "removed") != (rest["verb"] == "remove_schedule" and reason != "paused"):
            self.found("I6", f"{name} skipped {first} as {reason} by {rest['verb']}", note)
        self._check_run(note, row, schedule, first, last, rest["count"])
        # Who removes a schedule goes by a clock of their own, which may not have heard that the store's was set back.
        unheard = reason == "removed" and self.jumped
        if not unheard:
            self.report(early(self.peak, last, ERROR * SECOND if reason == "removed" else 0, SECOND), note)
        if reason not in ("paused", "removed"):
            self._check_reason(note, schedule, last, reason)
        return None

    def _check_run(
        self, note: Note, row: Row, schedule: Timing, first: Instant, last: Instant, count: int | None
    ) -> None:
        run = list(fires(schedule, first - 1, last, limit=COUNTED + 1))
        skip = checks.Skipped(first, last, count)
        if not run or run[0] != first or (len(run) <= COUNTED and run[-1] != last):
            self.found("I6", f"{schedule.name} skipped {first} to {last}: no fires of its rule", note)
        elif len(run) <= COUNTED:
            self.report(checks.counted(schedule.name, skip, run, run), note)
        if first <= row["handled"]:
            self.found("I6", f"{schedule.name} skipped {first}, and its cursor was at {row['handled']}", note)
        made = [] if self.jumped else [fire for fire in run if self._fired(schedule.name, fire)]
        for breach in checks.both(schedule.name, run, made, [skip]):
            self.report(breach, note)

    def _fired(self, name: str, fire: Instant) -> bool:
        """By its rule. Where the clock was set back, one of the same name may have done so before."""
        made = self._made.get((name, fire))
        return made is not None and made.data["kind"] == "rule"

    def _check_reason(self, note: Note, schedule: Timing, last: Instant, reason: str) -> None:
        policy, late, newer = schedule.catch_up, self.peak - last, self._newer(schedule, last)
        missed = newer > 0 or late > policy.grace
        allowed = {
            "missed": policy.missed is Missed.NONE and missed,
            "newer": policy.missed is Missed.LATEST and newer > 0,
            "maximum": policy.missed is Missed.ALL and newer >= policy.most,
            "window": policy.window is not None and late > policy.window and missed,
        }
        if not allowed.get(reason):
            self.found("I6", f"{schedule.name} skipped {last} as {reason}, {late / SECOND:.1f} s late", note)

    def _newer(self, schedule: Timing, fire: Instant) -> int:
        return sum(1 for _ in fires(schedule, fire, self.peak, limit=COUNTED))

    # -- cursors -----------------------------------------------------------------------------------------------------
    def on_schedule(
        self, note: Note, name: str, after: Row | None, wall: int, before: Row | None = None, **rest: Any
    ) -> None:
        super().on_schedule(note, name, after, wall)
        if after is None:
            return
        if before is None:
            self._counts[name] = 0
        elif after["handled"] < before["handled"]:
            self.found("I6", f"the cursor of {name} moved back, from {before['handled']} to {after['handled']}", note)
        elif after["fired"] != before["fired"]:
            self._count(note, name, before, after)
        # Where the server's clock was set back, those who plan may go by the old time until they hear of it.
        if after["handled"] > self.peak + ERROR * SECOND and not (self.jumped and rest["wish"]):
            ahead = (after["handled"] - self.peak) / SECOND
            self.found("clock", f"the cursor of {name} is {ahead:.3f} s ahead of the store's clock", note)
        if after["broken"] is not None:
            self.found("broken", f"{name} was set aside: {after['broken']}", note)

    def _count(self, note: Note, name: str, before: Row, after: Row) -> None:
        done = [f for (of, f) in self._made if of == name and before["handled"] < f <= after["handled"]]
        limit = reading(after["timing"]).limit
        if after["fired"] - before["fired"] > len(done) or (limit is not None and after["fired"] > limit):
            self.found("I6", f"{name}: fired went from {before['fired']} to {after['fired']}, with {len(done)}", note)
