"""The invariants, checked note by note. A rule book reads the whole log and knows nothing but the log."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any, NamedTuple

from rota.model.job import NewJob
from rota.model.lifecycle import INITIAL, STEPS, TERMINAL
from rota.model.outcome import CrashRule
from rota.model.retry import Retry, backoff
from rota.model.times import SECOND
from tests.checks import crashes, orders
from tests.checks.attempts import Attempts
from tests.checks.breach import Breach
from tests.sim.witness import Note, Row

LEGAL = {(str(source), str(target)) for (source, _), target in STEPS.items()}
# What the end of a job may do to others, in the same write: children go on or are skipped, a key is handed on.
GO_ON = {
    ("blocked", "blocked"),
    ("blocked", "ready"),
    ("blocked", "scheduled"),
    ("blocked", "skipped"),
    ("held", "ready"),
}
RETRY_AFTER = 1_000_000  # what the simulated jobs ask for when they name their own wait


class Violation(NamedTuple):
    invariant: str
    text: str
    job: str
    at: float


class Book:
    """Reads notes; `violations` are what it found."""

    def __init__(self) -> None:
        self.violations: list[Violation] = []

    def read(self, note: Note) -> None:
        rule = getattr(self, f"on_{note.what}", None)
        if rule:
            rule(note, **note.data)

    def close(self, rows: dict[str, Row], output: dict[tuple[str, int], str]) -> None:
        """The log is over, and this is what the store holds."""

    def found(self, invariant: str, text: str, note: Note) -> None:
        self.violations.append(Violation(invariant, text, note.job, note.at))

    def report(self, breach: Breach | None, note: Note) -> None:
        """Of a rule that the chaos runs are held against too: see `tests/checks`."""
        if breach is not None:
            self.found(breach.invariant, breach.text, note)


class RowBook(Book):
    """Every change of a job's row: is it a step that may be taken, by this hand, now?"""

    def __init__(self) -> None:
        super().__init__()
        self._orders: dict[str, NewJob] = {}
        self._attempts = Attempts()
        self._peak = 0  # the latest the store's clock has ever been
        self._failures: Counter[str] = Counter()  # since the last replay
        self._failed: set[tuple[str, int]] = set()
        self._own_waits: set[tuple[str, int]] = set()  # attempts that named their own wait
        self._fires: set[str] = set()  # jobs that schedules made; see `fires.py`

    def on_fire(self, note: Note, **_: Any) -> None:
        self._fires.add(note.job)

    def on_asked(self, note: Note, order: NewJob, **_: Any) -> None:
        self._orders[note.job] = order

    def on_ended(self, note: Note, how: str) -> None:
        if how == "retry_after":
            self._own_waits.add((note.job, note.fence))

    def on_finish(self, note: Note, ending: str, verdict: str, failures: int) -> None:
        if verdict == "applied":
            self._failures[note.job] += failures
            if failures:
                self._failed.add((note.job, note.fence))
        if ending == "set_aside":
            self.found("I1", "it was set aside by a node that does not know its task; another one does", note)
        if ending != "failed":  # stopped for another reason before it could say so
            self._own_waits.discard((note.job, note.fence))

    def on_row(self, note: Note, wall: int, before: Row | None, after: Row | None, **rest: Any) -> None:
        self._peak = max(self._peak, wall)
        if before is None and after is not None:
            self._born(note, wall, after)
        elif after is None:
            self.found("I1", "the job was deleted", note)
        elif before is not None:
            self._lifecycle(note, before, after, **rest)
            self._start(note, wall, before, after)
            self._end(note, before, after, **rest)
            self._budget(note, wall, before, after, rest["verb"])

    def _born(self, note: Note, wall: int, after: Row) -> None:
        order = self._orders.get(note.job)
        if order is None and note.job not in self._fires:
            return self.found("I1", "nobody ordered this job", note)
        if after["state"] not in INITIAL:
            self.found("lifecycle", f"born {after['state']}", note)
        if order is not None:
            wanted = wall + order.delay if order.at is None else order.at
            self.report(orders.early(after["run_at"], wanted, unit=SECOND), note)
        return None

    def _lifecycle(self, note: Note, before: Row, after: Row, verb: str, **_: Any) -> None:
        source, target = before["state"], after["state"]
        if source in TERMINAL and verb != "replay" and before != after:
            self.found("I2", f"{source} is final, yet {verb} changed the row (now {target})", note)
        elif source != target and (source, target) not in LEGAL:
            self.found("lifecycle", f"{source} became {target} by {verb}", note)
        rise = int(verb == "claim" and (source, target) == ("ready", "running"))
        if after["fence"] != before["fence"] + rise:
            self.found("I3", f"the fence went from {before['fence']} to {after['fence']} by {verb}", note)

    def _start(self, note: Note, wall: int, before: Row, after: Row) -> None:
        claimed = (before["state"], after["state"]) == ("ready", "running")
        started = after["state"] == "running" and after["started_at"] and (claimed or not before["started_at"])
        if claimed:
            self.report(orders.early(self._peak, before["run_at"], unit=SECOND), note)
        if started and before["expires_at"] is not None and before["expires_at"] <= wall:
            self.found("I7", "started after it had expired", note)
        if started and before["cancel"] is not None:
            self.found("I7", "started after it was cancelled", note)

    def _end(self, note: Note, before: Row, after: Row, verb: str, named: list[int] | None, **_: Any) -> None:
        """Only what leaves the running state ends an attempt."""
        if verb == "finish" and named is None:
            if before != after and (before["state"], after["state"]) not in GO_ON:
                self.found("I3", f"{before['state']} became {after['state']} by the completion of another job", note)
        elif verb == "finish" and before["state"] != "running":
            self.found("I3", f"a completion changed a job that was {before['state']}", note)
        elif verb == "finish" and before["fence"] not in (named or []):
            self.found("I3", f"fence {before['fence']} was ended by a completion for fence {named}", note)
        if before["state"] == "running" and after["state"] != "running":
            self.report(self._attempts.end((note.job, before["fence"])), note)

    def _budget(self, note: Note, wall: int, before: Row, after: Row, verb: str) -> None:
        order, failures = self._orders.get(note.job), self._failures[note.job]
        self.report(crashes.bounded(after["crashes"], CrashRule().limit), note)
        if verb == "replay":
            self._failures[note.job] = 0
        elif order is not None and before["state"] == "running" and after["state"] == "scheduled" and failures:
            self._back_off(note, wall, (note.job, before["fence"]), after, order.retry)

    def _back_off(self, note: Note, wall: int, attempt: tuple[str, int], after: Row, retry: Retry) -> None:
        failures = self._failures[note.job]
        if failures > retry.retries:
            self.found("I11", f"it comes back after {failures} failures, with {retry.retries} retries", note)
        wait = RETRY_AFTER if attempt in self._own_waits else backoff(retry.backoff).delay(failures)
        if attempt in self._failed and after["run_at"] < wall + wait:
            self.found("I11", "the next attempt comes before the back-off is over", note)


class OrderBook(Book):
    """What the customer was told, against what the store holds at the end."""

    def __init__(self) -> None:
        super().__init__()
        self._asked_for: dict[str, NewJob] = {}
        self._answers: list[Note] = []
        self._cancelled: list[Note] = []

    def on_asked(self, note: Note, order: NewJob, **_: Any) -> None:
        self._asked_for[note.job] = order

    def on_told(self, note: Note, **_: Any) -> None:
        self._answers.append(note)

    def on_cancel(self, note: Note, answer: str) -> None:
        if answer == "cancelled":
            self._cancelled.append(note)

    def close(self, rows: dict[str, Row], output: dict[tuple[str, int], str]) -> None:
        by_key: dict[str, list[str]] = defaultdict(list)
        for job in rows:
            key = self._asked_for[job].key if job in self._asked_for else None
            if key is not None:
                by_key[key].append(job)
        for made in by_key.values():
            self.report(orders.single(made), _last(made[-1]))
        for note in self._answers:
            self._check_answer(note, rows, by_key)
        for job, row in rows.items():
            self.report(orders.over(job, row["state"], row["state"] in TERMINAL), _last(job))
        for note in self._cancelled:
            row = rows.get(note.job, {})
            if row and row["state"] != "cancelled" and not row["replays"]:
                self.found("I7", f"the customer was told that it is cancelled; it is {row['state']}", note)

    def _check_answer(self, note: Note, rows: dict[str, Row], by_key: dict[str, list[str]]) -> None:
        order, answer = self._asked_for[note.job], note.data["answer"]
        first = by_key.get(order.key, [])[:1] if order.key else []
        itself = [note.job] if note.job in rows else []
        told = {note.data["id"]} if answer == "ok" else set()
        there = first if answer == "ok" and order.key else itself
        for breach in orders.answered(answer, told, there, "a conflict"):
            self.report(breach, note)
        if answer == "ok":
            job = note.data["id"]
            if job in self._asked_for and self._asked_for[job].content() != order.content():
                self.found("I13", "answered with a job of other content", note)
            if note.data["created"] != (job == note.job):
                self.found("I13", "`created` does not say whether it was", note)
        elif answer == "refused" and (not first or self._asked_for[first[0]].content() == order.content()):
            self.found("I13", "refused for a conflict that does not exist", note)


def _last(job: str) -> Note:
    """What is found when the log is over."""
    return Note(float("inf"), "", "", job, 0, {})
