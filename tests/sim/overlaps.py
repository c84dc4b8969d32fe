"""Fires of one schedule that must not overlap: what ran beside what, and what was let go before its turn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rota.model.lifecycle import TERMINAL
from rota.model.times import Instant
from rota.model.trigger.policies import Overlap
from tests.checks.at_once import AtOnce
from tests.sim.runs import Excuses
from tests.sim.witness import Note, Row


@dataclass
class Made:
    """A fire, and its job."""

    job: str
    name: str
    fire: Instant
    number: int
    alone: bool  # it was made when the schedule did not allow any overlap
    state: str = "born"
    free: bool = False  # a person has replayed it, or it is deaf: nothing is said about it any more


class OverlapBook(Excuses):
    """Of two fires, what counts is how the schedule stood when the later one was made. Not counted: one that was
    replayed, as a person wanted it to run now; and a function that does not stop although its job has ended."""

    def __init__(self) -> None:
        super().__init__()
        self._policies: dict[str, str] = {}
        self._fires: dict[str, Made] = {}
        self._of: dict[str, list[Made]] = {}
        self._running: AtOnce[Note] = AtOnce()

    def on_schedule(self, note: Note, name: str, after: Row | None, **_: Any) -> None:
        if after is not None:
            self._policies[name] = after["overlap"]

    def on_fire(self, note: Note, name: str, fire: Instant, **_: Any) -> None:
        others = self._of.setdefault(name, [])
        made = Made(note.job, name, fire, len(others), self._policies[name] != Overlap.ALLOW)
        others.append(made)
        self._fires[note.job] = made

    def on_stuck(self, note: Note) -> None:
        if note.job in self._fires:
            self._fires[note.job].free = True

    def on_row(self, note: Note, verb: str, before: Row | None, after: Row | None, **_: Any) -> None:
        one = self._fires.get(note.job)
        if one is None or after is None:
            return
        one.state = after["state"]
        one.free |= verb == "replay"
        if verb == "release" and before is not None:
            self._let_go(note, one)

    def _let_go(self, note: Note, one: Made) -> None:
        for other in self._of[one.name]:
            if other is one or other.state in TERMINAL:
                continue
            if other.state == "blocked":
                if other.fire < one.fire:
                    self.found("overlap", f"{one.name} let {one.fire} go before {other.fire}", note)
            elif self._excluded(one, other):
                self.found("overlap", f"{one.name} let {one.fire} go, and {other.fire} is {other.state}", note)

    def _excluded(self, one: Made, other: Made) -> bool:
        later = one if one.number > other.number else other
        return later.alone and not one.free and not other.free

    # -- what really ran ---------------------------------------------------------------------------------------------
    def on_started(self, note: Note, **_: Any) -> None:
        one = self._fires.get(note.job)
        if one is None:
            return
        attempt = (note.job, note.fence)
        for run in self._running.beside(attempt, lambda run: self._shut_out(one, self._fires[run.job])):
            if not self._excused(run, note.at) and not self._excused(note, note.at):
                other = self._fires[run.job]
                self.found("overlap", f"{one.name} runs for {one.fire} on {note.who}, and for {other.fire}", note)
        self._running.begin(attempt, note)

    def _shut_out(self, one: Made, other: Made) -> bool:
        return other is not one and other.name == one.name and self._excluded(one, other)

    def on_ended(self, note: Note, how: str) -> None:
        self._running.end((note.job, note.fence))
