"""Gates, paused queues and jobs that run alone: what starts although it must not, and what is held for no reason."""

from __future__ import annotations

from typing import Any, NamedTuple

from rota.control.admission import FOLLOWERS_WAIT
from rota.lease import BEAT
from rota.model.gates import Effect, Match
from rota.model.job import NewJob
from rota.model.limits import Key, Limit, effective, slack
from rota.model.requirements import Alone
from rota.store.admission import NewGate
from tests.checks.at_once import AtOnce
from tests.sim.plan import CRON
from tests.sim.rules import Book
from tests.sim.runs import Excuses
from tests.sim.witness import Note, Row

# A queue that is paused: what was claimed before may start this much later.
BITES = 1.0
# When all is well, nothing is held for longer than this after the reason for it is gone.
PROMPT = FOLLOWERS_WAIT + BEAT + 0.5


class About(NamedTuple):
    """What of a job gates look at."""

    task: str
    queue: str
    labels: tuple[str, ...] = ()
    keys: tuple[Key, ...] = ()
    alone: Alone | None = None

    def fits(self, match: Match) -> bool:
        return match.fits(task=self.task, queue=self.queue, user="", labels=self.labels)


class Admitting(Book):
    """Knows what was decided, by those who did, and what jobs bring along, by their orders."""

    def __init__(self) -> None:
        super().__init__()
        self.about: dict[str, About] = {}
        self.fires: set[str] = set()
        self.gates: dict[str, NewGate] = {}
        self.paused: dict[str, float] = {}
        self.limits: dict[str, Limit] = {}

    def on_asked(self, note: Note, order: NewJob, **_: Any) -> None:
        self.about[note.job] = About(
            order.task, order.queue, order.requirements.labels, order.requirements.keys, order.requirements.alone
        )

    def on_fire(self, note: Note, **_: Any) -> None:
        """Of what schedules make the queue alone is known: nothing is said about gates that look at tasks."""
        self.about[note.job] = About("", CRON)
        self.fires.add(note.job)

    def on_decree(self, note: Note, verb: str, about: Any, **_: Any) -> None:
        match verb:
            case "close_gate":
                self.gates[about.id] = about
            case "open_gate":
                self.gates.pop(about, None)
            case "pause_queue":
                self.paused.setdefault(about, note.at)
            case "resume_queue":
                self.paused.pop(about, None)
            case "set_limit":
                self.limits[about.key] = about
            case "remove_limit":
                self.limits.pop(about, None)

    def on_jump(self, note: Note, wall: int, **_: Any) -> None:
        self.passes(wall)

    def passes(self, wall: int) -> None:
        """A gate that has opened at its time stays open, whatever the clock does then."""
        self.gates = {name: gate for name, gate in self.gates.items() if gate.until is None or wall < gate.until}

    def closed_for(self, job: str, wall: int) -> list[NewGate]:
        about = self.about.get(job)
        return [
            gate
            for gate in self.gates.values()
            if about is not None and (gate.until is None or wall < gate.until) and about.fits(gate.match)
        ]


class GateBook(Admitting):
    """I7 for gates and queues."""

    def on_row(
        self, note: Note, verb: str, wall: int, before: Row | None, after: Row | None, sent: float, **_: Any
    ) -> None:
        self.passes(wall)
        if before is None or after is None:
            return
        claimed = before["state"] != "running" and after["state"] == "running"
        started = after["state"] == "running" and after["started_at"] and (claimed or not before["started_at"])
        if (claimed or started) and (gates := self.closed_for(note.job, wall)):
            self.found("I7", f"{verb} took it, and gate {gates[0].id} ({gates[0].match.text()}) is closed", note)
        queue = self.about[note.job].queue if note.job in self.about else ""
        since = self.paused.get(queue)
        # A node hears of a pause within that time. What it had sent by then may be long on its way.
        if since is not None and (claimed or (started and sent - since > BITES)):
            self.found("I7", f"{verb} took it, and queue {queue} was paused for {sent - since:.2f} s", note)
        dropped = after["state"] == "dropped" != before["state"] and note.job not in self.fires
        if dropped and not any(gate.effect is Effect.DROP for gate in self.closed_for(note.job, wall)):
            self.found("I7", "it was dropped, and no gate says so", note)


class AloneBook(Excuses):
    """Nothing of its scope runs beside a job that runs alone: by the rows, and in fact while leases hold."""

    def __init__(self) -> None:
        super().__init__()
        self._about: dict[str, About] = {}
        self._claimed: AtOnce[str] = AtOnce()
        self._running: AtOnce[Note] = AtOnce()

    def on_asked(self, note: Note, order: NewJob, **_: Any) -> None:
        self._about[note.job] = About(order.task, order.queue, order.requirements.labels, (), order.requirements.alone)

    def on_fire(self, note: Note, **_: Any) -> None:
        self._about[note.job] = About("", CRON)

    def _excludes(self, one: str, other: str) -> bool:
        return self._bars(one, other) or self._bars(other, one)

    def _bars(self, lone: str, other: str) -> bool:
        one, beside = self._about.get(lone), self._about.get(other)
        return lone != other and bool(one and beside and one.alone and beside.fits(one.alone.match))

    def on_row(self, note: Note, before: Row | None, after: Row | None, **_: Any) -> None:
        old, new = before["state"] if before else None, after["state"] if after else None
        if old == "running" and new != "running":
            self._claimed.end(note.job)
        elif new == "running" and old != "running":
            if beside := self._claimed.beside(note.job, lambda other: self._excludes(note.job, other)):
                self.found("alone", f"it was claimed, and {beside[0]} runs; one of them is to run alone", note)
            self._claimed.begin(note.job, note.job)

    def on_stuck(self, note: Note) -> None:
        self._running.end_all(lambda run: (run.job, run.who) == (note.job, note.who))

    def on_started(self, note: Note, **_: Any) -> None:
        attempt = (note.job, note.fence)
        for run in self._running.beside(attempt, lambda run: self._excludes(note.job, run.job)):
            if not self._excused(run, note.at) and not self._excused(note, note.at):
                self.found("alone", f"it runs on {note.who} beside {run.job} on {run.who}; one is to run alone", note)
        self._running.begin(attempt, note)

    def on_ended(self, note: Note, how: str) -> None:
        self._running.end((note.job, note.fence))


class HeldBook(Admitting):
    """I5: a key that is free is used again. When all is well, no job is held for long when nothing holds it: no gate,
    no full key, nobody who is or wants to be alone."""

    def __init__(self) -> None:
        super().__init__()
        self._well = False
        self._states: dict[str, str] = {}
        self._starts: dict[str, list[int]] = {}
        self._free: dict[str, float] = {}  # held jobs, and since when for no reason
        self._wall = 0

    def on_leaders(self, note: Note, **_: Any) -> None:
        self._well = True

    def on_row(self, note: Note, wall: int, after: Row | None, before: Row | None, **_: Any) -> None:
        new = after["state"] if after else "gone"
        if new == "running" and (before or {}).get("state") != "running" and note.job in self.about:
            for key in self.about[note.job].keys:
                self._starts.setdefault(key.name, []).append(wall)
        self._states[note.job], self._wall = new, wall
        self.passes(wall)
        self._look(note)

    def on_look(self, note: Note, **_: Any) -> None:
        self._look(note)

    def _look(self, note: Note) -> None:
        if not self._well:
            return
        held = {job for job, state in self._states.items() if state == "held"} - self.fires
        self._free = {job: at for job, at in self._free.items() if job in held and not self._reason(job)}
        for job in sorted(held):
            if not self._reason(job):
                since = self._free.setdefault(job, note.at)
                if note.at - since > PROMPT:
                    self.found(
                        "I5", f"it is held for {note.at - since:.2f} s, and nothing holds it", note._replace(job=job)
                    )
                    self._free[job] = float("inf")

    def _reason(self, job: str) -> bool:
        about = self.about[job]
        return bool(
            self.closed_for(job, self._wall)
            or any(self._full(job, effective(key, self.limits.get(key.name))) for key in about.keys)
            or any(self._lone(job, other) for other in self._living() if other != job)
        )

    def _living(self) -> list[str]:
        return [
            job for job, state in self._states.items() if state in ("ready", "held", "running") and job in self.about
        ]

    def _full(self, job: str, key: Key) -> bool:
        """Those that were let go and have not started yet count as holders."""
        wanted = [one for one in self._living() if one != job and any(k.name == key.name for k in self.about[one].keys)]
        holders = [one for one in wanted if self._states[one] in ("running", "ready")]
        if key.concurrency is not None and len(holders) >= key.concurrency:
            return True
        if key.rate is None:
            return False
        back = self._wall - key.rate.window - slack(key.rate.window)
        ready = sum(self._states[one] == "ready" for one in wanted)
        return sum(at > back for at in self._starts.get(key.name, ())) + ready >= key.rate.count

    def _lone(self, job: str, other: str) -> bool:
        """One that is or wants to be alone stands in the way; and one that wants to waits for those that run."""
        one, beside = self.about[job], self.about[other]
        if beside.alone is not None and one.fits(beside.alone.match):
            return True
        return one.alone is not None and self._states[other] == "running" and beside.fits(one.alone.match)
