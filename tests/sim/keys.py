"""Keys: never more holders than the limit, never more starts in a window than the rate."""

from __future__ import annotations

from typing import Any

from rota.model.job import NewJob
from rota.model.limits import Key, Limit, Policy, effective
from rota.model.times import SECOND
from tests.checks.at_once import AtOnce
from tests.checks.breach import CROWDED, Breach
from tests.checks.rates import Starts
from tests.sim.runs import Excuses
from tests.sim.witness import Note, Row

# How far a node may be wrong about the server's clock.
ERROR = 0.02


class KeyBook(Excuses):
    """I5 and I10: by the store's rows at each claim, and by what really ran, inside of a valid lease. A function that
    did not stop although its attempt is over holds nothing any more."""

    def __init__(self) -> None:
        super().__init__()
        self._orders: dict[str, NewJob] = {}
        self._limits: dict[str, Limit] = {}
        self._claimed: AtOnce[Note] = AtOnce()  # jobs that run, by their rows
        self._running: AtOnce[Note] = AtOnce()  # and attempts, in fact
        self._bounds: dict[tuple[str, int], dict[str, Key]] = {}  # as they were at the claim
        self._starts, self._real = Starts(), Starts()
        self._struck: dict[str, float] = {}  # when a life was stopped last
        self._jumped = False

    def on_asked(self, note: Note, order: NewJob, **_: Any) -> None:
        self._orders[note.job] = order

    def on_decree(self, note: Note, verb: str, about: Any, **_: Any) -> None:
        """A start counts for whoever comes after it by the window that counts then, whatever counted before."""
        if verb == "set_limit":
            self._limits[about.key] = about
        elif verb == "remove_limit":
            self._limits.pop(about, None)

    def _keys(self, job: str) -> list[Key]:
        order = self._orders.get(job)
        return [effective(key, self._limits.get(key.name)) for key in order.requirements.keys] if order else []

    def _needs(self, run: Note, name: str) -> bool:
        order = self._orders.get(run.job)
        return order is not None and any(key.name == name for key in order.requirements.keys)

    def _crowd(self, job: str, key: Key) -> list[Note] | None:
        """By the rows."""
        return self._claimed.crowd(job, key.concurrency, lambda other: self._needs(other, key.name))

    def _crowded(self, note: Note, key: Key, beside: list[Note] | None) -> None:
        if beside is not None:
            named = ", ".join(f"{run.job}/{run.fence} on {run.who}" for run in beside)
            self.report(Breach("I5", CROWDED, f"it takes key {key.name} beside {named}"), note)

    # -- by the rows -------------------------------------------------------------------------------------------------
    def on_row(self, note: Note, verb: str, wall: int, before: Row | None, after: Row | None, **_: Any) -> None:
        old, new = before["state"] if before else None, after["state"] if after else None
        if old == "running" and new != "running":
            self._claimed.end(note.job)
        elif new == "running" and old != "running" and after is not None:
            self._claim(note, wall, after)
        elif old == "ready" and new == "skipped":
            self._skipped(note)

    def _claim(self, note: Note, wall: int, after: Row) -> None:
        keys = self._keys(note.job)
        self._bounds[note.job, after["fence"]] = {key.name: key for key in keys}
        for key in keys:
            self._crowded(note, key, self._crowd(note.job, key))
            if key.rate is not None:
                self.report(self._starts.start(key.name, wall, key.rate.count, key.rate.window), note)
        self._claimed.begin(note.job, note)

    def _skipped(self, note: Note) -> None:
        full = [
            key
            for key in self._keys(note.job)
            if key.policy is Policy.SKIP and (key.rate is not None or self._crowd(note.job, key) is not None)
        ]
        if not full:
            self.found("I5", "it was skipped for a key that is free", note)

    # -- what really ran ---------------------------------------------------------------------------------------------
    def on_paused(self, note: Note, whole: bool, **_: Any) -> None:
        super().on_paused(note, whole)
        self._struck[note.who] = float("inf")

    def on_resumed(self, note: Note, **_: Any) -> None:
        super().on_resumed(note)
        self._struck[note.who] = note.at

    def on_jump(self, note: Note, store: bool, **_: Any) -> None:
        super().on_jump(note, store)
        self._jumped |= store

    def on_stuck(self, note: Note) -> None:
        self._running.end_all(lambda run: (run.job, run.who) == (note.job, note.who))

    def on_started(self, note: Note, **_: Any) -> None:
        attempt = (note.job, note.fence)
        for key in self._bounds.get(attempt, {}).values():
            if key.concurrency is not None and not self._excused(note, note.at):
                self._crowded(note, key, self._real_crowd(note, key))
            if key.rate is not None and not self._jumped:
                self._real_start(note, key)
        self._running.begin(attempt, note)

    def _real_crowd(self, note: Note, key: Key) -> list[Note] | None:
        def counts(run: Note) -> bool:
            return self._needs(run, key.name) and not self._excused(run, note.at)

        return self._running.crowd((note.job, note.fence), key.concurrency, counts)

    def _real_start(self, note: Note, key: Key) -> None:
        """One whose node was stopped between its claim and its start could not know that it is late."""
        claim, rate = self._claimed.holders.get(note.job), key.rate
        if claim is None or rate is None or self._struck.get(note.who, -1.0) >= claim.at:
            return
        self.report(self._real.start(key.name, note.at, rate.count, rate.window / SECOND - ERROR), note)

    def on_ended(self, note: Note, how: str) -> None:
        self._running.end((note.job, note.fence))
