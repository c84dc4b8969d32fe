"""What those who plan were told, against what came of it: every time that a schedule named while it certainly stood was
made or skipped.

A change takes hold at some instant between the wish and its commit. So the time between two changes is certain from the
commit of the first to the wish for the second; less what the clock of the one who wished was wrong by.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rota.model.times import SECOND, Instant
from rota.model.trigger.fires import fires
from tests.checks.fires import Skipped, fired, missed
from tests.sim.fires import Standing, reading
from tests.sim.rules import Violation
from tests.sim.witness import Note, Row

MARGIN = SECOND // 100
# What is due in the last seconds need not be made any more.
LAST = 5 * SECOND


@dataclass
class Stretch:
    """A schedule, as it certainly stood for a while."""

    row: Row
    begin: Instant
    end: Instant | None = None
    at: float = 0.0


class PromiseBook(Standing):
    def __init__(self) -> None:
        super().__init__()
        self._wishes: dict[int, Note] = {}
        self._granted: list[Note] = []
        self._stretches: list[Stretch] = []
        self._open: dict[str, Stretch] = {}
        self._made: dict[str, dict[Instant, str]] = {}  # schedule -> fire -> kind
        self._jobs: set[str] = set()
        self._skips: dict[str, list[Skipped]] = {}

    def on_wish(self, note: Note, number: int, **_: Any) -> None:
        self._wishes[number] = note

    def on_granted(self, note: Note, **_: Any) -> None:
        self._granted.append(note)

    def on_fire(self, note: Note, name: str, fire: Instant, kind: str, wall: int, **_: Any) -> None:
        self.peak = max(self.peak, wall)
        self._made.setdefault(name, {})[fire] = kind
        self._jobs.add(note.job)

    def on_skip(self, note: Note, name: str, first: Instant, last: Instant, count: int | None, **_: Any) -> None:
        self._skips.setdefault(name, []).append(Skipped(first, last, count))

    # -- stretches ---------------------------------------------------------------------------------------------------
    def on_schedule(
        self,
        note: Note,
        name: str,
        after: Row | None,
        wall: int,
        before: Row | None = None,
        wish: int = 0,
        error: float = 0,
        **_: Any,
    ) -> None:
        super().on_schedule(note, name, after, wall)
        if before is not None and after is not None and before["revision"] == after["revision"]:
            return self._moved(name, after)
        asked = self._wishes[wish].data
        doubt = round(max(abs(error), abs(asked["error"])) * SECOND) + MARGIN
        if name in self._open:
            self._close(name, asked["wall"] - doubt, note.at)
        if after is not None:
            # Where the store's clock was set back, a change counts from where the cursor was: see `FireBook`.
            since = after["handled"] if self.jumped else 0
            self._open[name] = Stretch(after, max(self.peak + doubt, since))
            self._moved(name, after)
        return None

    def _moved(self, name: str, after: Row) -> None:
        """It has fired as often as it may: there is nothing more to come."""
        limit, stretch = reading(after["timing"]).limit, self._open.get(name)
        if limit is not None and after["fired"] >= limit and stretch and stretch.end is None:
            stretch.end = after["handled"]

    def _close(self, name: str, end: Instant, at: float) -> None:
        stretch = self._open.pop(name)
        stretch.end, stretch.at = end if stretch.end is None else min(end, stretch.end), at
        self._stretches.append(stretch)

    def on_closed(self, note: Note, wall: int) -> None:
        for name in list(self._open):
            self._close(name, wall - LAST, note.at)

    # -- the end -----------------------------------------------------------------------------------------------------
    def close(self, rows: dict[str, Row], output: dict[tuple[str, int], str]) -> None:
        for stretch in self._stretches:
            self._check_stretch(stretch)
        for note in self._granted:
            self._check_answer(note, rows)

    def _check_stretch(self, stretch: Stretch) -> None:
        name, paused = stretch.row["name"], stretch.row["paused_at"] is not None
        made, skips = self._made.get(name, {}), self._skips.get(name, [])
        assert stretch.end is not None
        due = list(fires(reading(stretch.row["timing"]), stretch.begin, stretch.end))
        breaches = [*missed(name, due, made, skips)]
        for fire in due:
            if paused and made.get(fire) == "rule":
                breaches += fired(name, fire, fire, named=True, paused=True)
        for breach in breaches:
            self._say(breach.text, stretch.at)

    def _check_answer(self, note: Note, rows: dict[str, Row]) -> None:
        wish, answer = self._wishes[note.data["number"]], note.data["answer"]
        deed, name = wish.data["deed"], wish.data["name"]
        ways = self.stood(name, wish.at, note.at)
        stood = [row for row in ways if row is not None]
        right = True
        match answer, deed:
            case "not found", "fire" | "backfill" | "pause" | "resume" | "remove":
                right = None in ways
            case "refused", "save":
                right = not wish.data["replace"] and bool(stood)
            case "ok", "save":
                right = any(row["timing"] == wish.data["timing"] for row in stood)
            case "ok", "pause":
                right = any(row["paused_at"] is not None for row in stood)
            case "ok", "resume":
                right = any(row["paused_at"] is None for row in stood)
            case "ok", "remove":
                right = None in ways
            case "ok", "fire":
                right = (note.data["made"] in self._jobs & rows.keys()) == (note.data["fate"] != "skipped")
            case "ok", "backfill":
                right = any(self._made_up_for(name, row, wish.data["start"], wish.data["end"]) for row in stood)
        if not right:
            self._say(f"wish {note.data['number']}, to {deed} {name}, was answered {answer}: that is not so", note.at)

    def _made_up_for(self, name: str, row: Row, start: Instant, end: Instant) -> bool:
        return all(fire in self._made.get(name, {}) for fire in fires(reading(row["timing"]), start - 1, end))

    def _say(self, text: str, at: float) -> None:
        self.violations.append(Violation("I6", text, "", at))
