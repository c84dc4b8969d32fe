"""Keys: never more holders than the limit, never more starts in a window than the rate."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rota.model.job import NewJob
from rota.model.limits import Key, Limit, Policy, effective
from rota.model.times import SECOND
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
        self._claimed: dict[str, Note] = {}  # jobs that run, by their rows
        self._running: dict[tuple[str, int], Note] = {}  # and in fact
        self._bounds: dict[tuple[str, int], dict[str, Key]] = {}  # as they were at the claim
        self._starts: dict[str, list[int]] = {}
        self._real: dict[str, list[float]] = {}
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

    def _needs(self, job: str, name: str) -> bool:
        order = self._orders.get(job)
        return order is not None and any(key.name == name for key in order.requirements.keys)

    def _holders(self, name: str, jobs: Iterable[str]) -> list[str]:
        return [job for job in jobs if self._needs(job, name)]

    # -- by the rows -------------------------------------------------------------------------------------------------
    def on_row(self, note: Note, verb: str, wall: int, before: Row | None, after: Row | None, **_: Any) -> None:
        old, new = before["state"] if before else None, after["state"] if after else None
        if old == "running" and new != "running":
            self._claimed.pop(note.job, None)
        elif new == "running" and old != "running" and after is not None:
            self._claim(note, wall, after)
        elif old == "ready" and new == "skipped":
            self._skipped(note)

    def _claim(self, note: Note, wall: int, after: Row) -> None:
        keys = self._keys(note.job)
        self._bounds[note.job, after["fence"]] = {key.name: key for key in keys}
        for key in keys:
            holders = self._holders(key.name, self._claimed)
            if key.concurrency is not None and len(holders) >= key.concurrency:
                self.found("I5", f"it takes key {key.name}, which {', '.join(holders)} hold", note)
            if key.rate is not None:
                starts = self._starts.setdefault(key.name, [])
                near = [at for at in starts if wall - key.rate.window < at <= wall]
                if len(near) >= key.rate.count:
                    self.found("I10", f"{len(near)} starts by key {key.name} in the window before it", note)
                starts.append(wall)
        self._claimed[note.job] = note

    def _skipped(self, note: Note) -> None:
        full = [
            key
            for key in self._keys(note.job)
            if key.policy is Policy.SKIP
            and (key.rate is not None or len(self._holders(key.name, self._claimed)) >= (key.concurrency or 1 << 60))
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
        self._running = {ref: run for ref, run in self._running.items() if (ref[0], run.who) != (note.job, note.who)}

    def on_started(self, note: Note, **_: Any) -> None:
        attempt = (note.job, note.fence)
        for key in self._bounds.get(attempt, {}).values():
            if key.concurrency is not None and not self._excused(note, note.at):
                others = [run for (job, _f), run in self._running.items() if self._needs(job, key.name)]
                beside = [run for run in others if not self._excused(run, note.at)]
                if len(beside) >= key.concurrency:
                    named = ", ".join(f"{run.job}/{run.fence} on {run.who}" for run in beside)
                    self.found("I5", f"it runs with key {key.name} beside {named}", note)
            if key.rate is not None and not self._jumped:
                self._real_start(note, key)
        self._running[attempt] = note

    def _real_start(self, note: Note, key: Key) -> None:
        """One whose node was stopped between its claim and its start could not know that it is late."""
        claim, rate = self._claimed.get(note.job), key.rate
        if claim is None or rate is None or self._struck.get(note.who, -1.0) >= claim.at:
            return
        starts = self._real.setdefault(key.name, [])
        near = [at for at in starts if note.at - rate.window / SECOND + ERROR < at]
        if len(near) >= rate.count:
            self.found("I10", f"{len(near)} real starts by key {key.name} in the window before it", note)
        starts.append(note.at)

    def on_ended(self, note: Note, how: str) -> None:
        self._running.pop((note.job, note.fence), None)
