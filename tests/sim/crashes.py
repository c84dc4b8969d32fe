"""Crashes are counted apart from failures, followed by what the rule says, and cost nothing that was saved."""

from __future__ import annotations

from typing import Any

from rota.model.outcome import CrashRule
from rota.model.times import SECOND
from tests.checks.crashes import paused, quarantined
from tests.sim.jobs import CRASHED
from tests.sim.rules import Book
from tests.sim.witness import Note, Row

RULE = CrashRule()
# What an attempt is told to end for; then it may crash and it does not count.
STOPPED = ("cancelled", "timed_out", "interrupted")


class CrashBook(Book):
    """I11: a crash counts as one and not as a failure, and only if something died. The first is made up for at once,
    the next after a while, and the last that is allowed sends the job to the dead letters."""

    def __init__(self) -> None:
        super().__init__()
        self._crashed: set[tuple[str, int]] = set()  # by their own word
        self._ended: set[tuple[str, int]] = set()
        self._finished: dict[tuple[str, int], str] = {}

    def on_ended(self, note: Note, how: str) -> None:
        self._ended.add((note.job, note.fence))
        if how == CRASHED:
            self._crashed.add((note.job, note.fence))

    def on_finish(self, note: Note, ending: str, verdict: str, failures: int) -> None:
        attempt = (note.job, note.fence)
        if verdict != "applied":
            return
        self._finished[attempt] = ending
        if ending == CRASHED and attempt not in self._crashed:
            self.found("I11", "a crash was counted, and nothing had died", note)
        elif attempt in self._crashed and ending not in (CRASHED, *STOPPED):
            self.found("I11", f"it crashed, and was written down as {ending}", note)
        if ending == CRASHED and failures:
            self.found("I11", "a crash was counted as a failure", note)

    def on_row(self, note: Note, verb: str, wall: int, before: Row | None, after: Row | None, **_: Any) -> None:
        if before is None or after is None or verb == "replay":
            return
        attempt = (note.job, before["fence"])
        more = after["crashes"] - before["crashes"]
        died = verb == "take_over" or (verb == "finish" and self._finished.get(attempt) == CRASHED)
        if more not in (0, 1) or (more and (before["state"] != "running" or not died)):
            self.found("I11", f"{before['crashes']} crashes became {after['crashes']} by {verb}", note)
        elif verb == "finish" and died and before["state"] == "running" and not more:
            self.found("I11", "a crash was not counted", note)
        elif more:
            self._followed(note, wall, before, after)

    def _followed(self, note: Note, wall: int, before: Row, after: Row) -> None:
        count, state = after["crashes"], after["state"]
        if after["failures"] != before["failures"]:
            self.found("I11", f"crash {count} was counted as a failure too", note)
        if before["cancel"] is not None and state == "cancelled":
            return
        if breach := quarantined(count, state == "failed", RULE.limit):
            self.report(breach, note)
        elif state != "failed" and count > 1:
            wait = (after["run_at"] - wall) / SECOND if state == "scheduled" else 0.0
            self.report(paused(count, wait, RULE.delay / SECOND), note)
        elif count == 1 and state == "scheduled":
            self.found("I11", "after its first crash it has to wait", note)


class TellingBook(Book):
    """I3: what an attempt tells and saves is kept only while it runs by the store's word, and in the order in which it
    was told: what was on its way for long changes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: dict[str, Row] = {}
        self._last: dict[tuple[str, str], tuple[int, int]] = {}

    def on_row(self, note: Note, after: Row | None, **_: Any) -> None:
        if after is not None:
            self._rows[note.job] = after

    def on_kept(self, note: Note, thing: str, number: int) -> None:
        row, this = self._rows[note.job], (note.fence, number)
        if row["state"] != "running" or row["fence"] != note.fence:
            state = f"{row['state']} with fence {row['fence']}"
            self.found("I3", f"a {thing} of fence {note.fence} was kept of a job that is {state}", note)
        if this <= self._last.get((note.job, thing), (0, -1)):
            self.found("I3", f"{thing} {this} was kept after {self._last[note.job, thing]}", note)
        self._last[note.job, thing] = this
