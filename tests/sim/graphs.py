"""Jobs that wait for others: nothing goes on before its parents have ended as needed, and nothing is skipped without
need."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rota.model.graph import Edge
from rota.model.job import NewJob
from rota.model.lifecycle import TERMINAL
from tests.checks.graphs import Parents
from tests.sim.rules import Book
from tests.sim.witness import Note, Row

# When all is well, a child goes on this long after its last parent has ended.
PROMPT = 1.5


@dataclass
class Wait:
    """One time that a child waits: from its birth or its reopening on."""

    since: float
    ended: dict[str, set[str]] = field(default_factory=dict)  # parents, and how they have ended since, or had before
    complete_at: float = 0.0
    over: bool = False


class GraphBook(Book):
    """I8. What an edge needs is known from the order; how a parent has ended, from its row. A parent that is replayed
    while a child waits may end in two ways: then either may count."""

    def __init__(self) -> None:
        super().__init__()
        self._orders: dict[str, NewJob] = {}
        self._made: dict[str, str] = {}  # idempotency key: job
        self._aliases: dict[str, list[str]] = {}
        self._states: dict[str, str] = {}
        self._causes: dict[str, set[str]] = {}  # of skipped jobs: how they may have ended for their children
        self._children: dict[str, list[str]] = {}
        self._waits: dict[str, Wait] = {}
        self._well = False

    def on_asked(self, note: Note, order: NewJob, **_: Any) -> None:
        self._orders[note.job] = order
        if order.key:
            self._aliases.setdefault(order.key, []).append(note.job)
        for edge in order.after:
            self._children.setdefault(edge.parent, []).append(note.job)

    def on_leaders(self, note: Note, **_: Any) -> None:
        self._well = True

    def _names(self, job: str) -> list[str]:
        """The ids under which it was ordered: with a key perhaps several times."""
        order = self._orders.get(job)
        return self._aliases[order.key] if order is not None and order.key else [job]

    def _parent(self, edge: Edge) -> str:
        order = self._orders.get(edge.parent)
        return self._made.get(order.key, edge.parent) if order is not None and order.key else edge.parent

    def on_row(self, note: Note, verb: str, before: Row | None, after: Row | None, **_: Any) -> None:
        if after is None:
            return
        job, old, new = note.job, before["state"] if before else None, after["state"]
        order = self._orders.get(job)
        self._states[job] = new
        if old != new:
            self._causes[job] = {"skipped"}
        if before is None and order is not None and order.key:
            self._made.setdefault(order.key, job)
        if order is not None and order.after:
            self._child(note, order, old, new)
        if old != new:
            self._tell_children(note, job, old, new)

    # -- as a child --------------------------------------------------------------------------------------------------
    def _child(self, note: Note, order: NewJob, old: str | None, new: str) -> None:
        if old is None and new != "blocked":
            return self.found("I8", f"born {new}, though it waits for others", note)
        if old != "blocked" and new == "blocked":
            wait = self._waits[note.job] = Wait(note.at)
            for edge in order.after:
                self._judge(wait, edge, note.at)
        wait = self._waits[note.job]
        if old == "blocked" and new in ("ready", "scheduled", "held"):
            if breach := self._parents(order, wait).goes_on():
                self.report(breach, note)
            elif self._well and note.at - wait.complete_at > PROMPT:
                self.found("I8", f"it went on {note.at - wait.complete_at:.2f} s after its last parent ended", note)
            wait.over = True
        if old == "blocked" and new == "skipped":
            parents = self._parents(order, wait)
            self.report(parents.is_skipped(), note)
            self._causes[note.job] = parents.causes()
        if new == "running" and old != "running" and not wait.over and old != "scheduled":
            self.found("I8", "it was claimed before it was let go", note)
        return None

    def _parents(self, order: NewJob, wait: Wait) -> Parents[str]:
        return Parents([(self._parent(edge), str(edge.need)) for edge in order.after], wait.ended)

    def _judge(self, wait: Wait, edge: Edge, at: float) -> None:
        parent = self._parent(edge)
        state = self._states.get(parent)
        if state in TERMINAL:
            wait.ended.setdefault(parent, set()).update(self._causes[parent] if state == "skipped" else {str(state)})
            wait.complete_at = at

    # -- as a parent -------------------------------------------------------------------------------------------------
    def _tell_children(self, note: Note, job: str, old: str | None, new: str) -> None:
        for child in (child for name in self._names(job) for child in self._children.get(name, ())):
            if self._states.get(child) != "blocked":
                continue
            wait = self._waits[child]
            if new in TERMINAL:
                for edge in self._orders[child].after:
                    if self._parent(edge) == job:
                        self._judge(wait, edge, note.at)
            elif old in TERMINAL and wait.since == note.at:  # both were reopened together
                wait.ended.pop(job, None)
