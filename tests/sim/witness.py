"""What is known about a run without asking rota: one log, written by those who were there.

The customers note what they were told, the jobs note when they run and what they do, and triggers in the database note
every change of a job's row, of a schedule's, and every fire and skip, in the transaction that made it.
"""

from __future__ import annotations

import contextvars
import hashlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from rota.model.job import Verdict
from rota.model.times import SECOND
from rota.store.sqlite.database import Database
from tests.sim.loop import SimClock

COLUMNS = (
    "state", "fence", "tries", "failures", "crashes", "interruptions", "replays", "run_at", "expires_at", "started_at",
    "node", "cancel",
)  # fmt: skip
# Of the tables of schedules: what of a row is noted.
TABLES = {
    "schedules": ("name", "revision", "timing", "overlap", "handled", "next_at", "fired", "paused_at", "broken"),
    "fires": ("name", "fire", "job_id", "kind", "at", "waiting"),
    "skips": ("name", "first", "last", "count", "reason", "at"),
}
# What people decide about who may run: noted when it is committed.
DECREES = {
    "close_gate", "open_gate", "set_limit", "remove_limit", "pause_queue", "resume_queue", "set_feedback", "set_step",
}  # fmt: skip
Row = dict[str, Any]
# Which wish of a customer a call is made for; and when a step of schedules was handed to the store.
WISH: contextvars.ContextVar[int] = contextvars.ContextVar("wish", default=0)
SENT: contextvars.ContextVar[float | None] = contextvars.ContextVar("sent", default=None)
# What services ask again and again.
LOOKS = {
    "promote", "coming_schedules", "release", "settle", "admit", "claim", "promote_jobs", "due_times", "scheduled_jobs",
}  # fmt: skip
# What attempts tell: the tables, and what a row of them is.
TELLINGS = {"progress": "progress", "checkpoints": "state"}
_TRIGGER = "CREATE TEMP TRIGGER witness_{event} AFTER {event} ON main.jobs BEGIN SELECT witness({values}); END"


class Note(NamedTuple):
    """One thing that happened: when (seconds since the beginning), where, what, and to which attempt."""

    at: float
    who: str
    what: str
    job: str
    fence: int
    data: dict[str, Any]

    def __str__(self) -> str:
        rest = " ".join(f"{name}={_shown(value)}" for name, value in self.data.items())
        attempt = f"{self.job[-12:]}/{self.fence} " if self.job else ""
        return f"{self.at:11.6f} {self.who:<12} {self.what:<10} {attempt}{rest}"


class Cause(NamedTuple):
    """Why a call was made."""

    wish: int
    sent: float


def cause(now: float) -> Cause:
    sent = SENT.get()
    return Cause(WISH.get(), now if sent is None else sent)


class Witness:
    def __init__(self, clock: SimClock) -> None:
        self._clock = clock
        self.notes: list[Note] = []
        self._moves: list[tuple[str, Row | None, Row | None]] = []
        self._deeds: dict[str, list[tuple[Row | None, Row | None]]] = {table: [] for table in TABLES}
        self._told: list[tuple[str, str, int, int]] = []
        self.moved = 0  # how many changes of jobs there were
        self._leases: dict[str, float] = {}
        self._homes: dict[str, str] = {}
        self.gone: Callable[[str], bool] = lambda life: False
        self.error: Callable[[], float] = lambda: 0.0  # of the clock of those who plan, in seconds

    def note(self, who: str, what: str, job: str = "", fence: int = 0, **data: Any) -> None:
        self.notes.append(Note(self._clock.monotonic(), who, what, job, fence, data))

    def digest(self) -> str:
        return hashlib.sha256("\n".join(map(repr, self.notes)).encode()).hexdigest()

    # -- the database ------------------------------------------------------------------------------------------------
    def watch(self, db: Database) -> None:
        db.connection.create_scalar_function("witness", self._changed, len(COLUMNS) * 2 + 2)
        old = ", ".join(f"old.{name}" for name in ("id", *COLUMNS))
        new = ", ".join(f"new.{name}" for name in ("id", *COLUMNS))
        nothing = ", ".join(["NULL"] * (len(COLUMNS) + 1))
        for event, values in (("INSERT", (nothing, new)), ("UPDATE", (old, new)), ("DELETE", (old, nothing))):
            db.connection.execute(_TRIGGER.format(event=event, values=", ".join(values))).fetchall()
        self._watch(db, "schedules", "INSERT", "UPDATE", "DELETE")
        self._watch(db, "fires", "INSERT", "UPDATE", "DELETE")
        self._watch(db, "skips", "INSERT")
        db.connection.create_scalar_function("witness_told", lambda *told: self._told.append(told), 4)
        for table, thing in TELLINGS.items():
            job = "(SELECT id FROM main.jobs WHERE seq = new.job)"
            db.connection.execute(
                f"CREATE TEMP TRIGGER witness_{table} AFTER INSERT ON main.{table} "
                f"BEGIN SELECT witness_told('{thing}', {job}, new.fence, new.number); END"
            ).fetchall()

    def _watch(self, db: Database, table: str, *events: str) -> None:
        columns = TABLES[table]

        def happened(*values: Any) -> None:
            half = len(columns)
            sides = (dict(zip(columns, side, strict=True)) for side in (values[:half], values[half:]))
            before, after = (row if row["name"] is not None else None for row in sides)
            self._deeds[table].append((before, after))

        db.connection.create_scalar_function(f"witness_{table}", happened, len(columns) * 2)
        for event in events:
            sides = ("NULL" if event == "INSERT" else "old.{}", "NULL" if event == "DELETE" else "new.{}")
            values = ", ".join(side.format(name) for side in sides for name in columns)
            db.connection.execute(
                f"CREATE TEMP TRIGGER witness_{table}_{event} AFTER {event} ON main.{table} "
                f"BEGIN SELECT witness_{table}({values}); END"
            ).fetchall()

    def _changed(self, *values: Any) -> None:
        half = len(COLUMNS) + 1
        before, after = (_row(side) for side in (values[:half], values[half:]))
        self._moves.append((values[0] or values[half], before, after))

    # -- calls of the store ------------------------------------------------------------------------------------------
    def rolled_back(self) -> None:
        self._moves.clear()
        self._told.clear()
        for deeds in self._deeds.values():
            deeds.clear()

    def applied(self, who: str, verb: str, args: Sequence[Any], answer: Any, why: Cause) -> None:
        """A call was carried out and committed, whether or not its caller will hear of it."""
        named: dict[str, list[int]] = {}
        if verb == "finish":
            named = self._finished(who, args[1], answer)
        elif verb == "register" or (verb == "renew" and answer.known):
            self._renewed(who, verb, args[1])
        moves, self._moves = self._moves, []
        self.moved += len(moves)
        told, self._told = self._told, []
        for thing, job, fence, number in told:
            self.note(who, "kept", job, fence, thing=thing, number=number)
        wall = self._clock.now()
        self._nodes_and_times(who, verb, args, answer, wall)
        self._schedules(who, verb, why, wall)
        if verb in DECREES:
            self.note(who, "decree", verb=verb, wall=wall, about=args[1], rest=tuple(args[2:]))
        for job, before, after in moves:
            fence = (before or after or {})["fence"]
            rest: dict[str, Any] = {"named": named.get(job), "before": before, "after": after, "sent": why.sent}
            self.note(who, "row", job, fence, verb=verb, wall=wall, **rest)

    def _schedules(self, who: str, verb: str, why: Cause, wall: int) -> None:
        """Fires and skips before the change of the schedule: they are judged by how it stood."""
        deeds, self._deeds = self._deeds, {table: [] for table in TABLES}
        rest: dict[str, Any] = {"verb": verb, "wall": wall, "wish": why.wish, "sent": why.sent}
        for job, fire in _made(deeds["fires"]).items():
            self.note(who, "fire", job, 0, **fire, **rest)
        for _, skip in deeds["skips"]:
            assert skip is not None
            self.note(who, "skip", **skip, **rest)
        for before, after in deeds["schedules"]:
            name = (before or after or {})["name"]
            self.note(who, "schedule", name=name, before=before, after=after, error=self.error(), **rest)

    def _nodes_and_times(self, who: str, verb: str, args: Sequence[Any], answer: Any, wall: int) -> None:
        if verb == "take_over" and answer is not None:
            self.note(who, "declared", incarnation=args[1], gone=self.gone(self._homes.get(args[1], "")))
        elif verb == "renew" and answer.term is not None:
            self.note(who, "term", incarnation=args[1], term=answer.term)
        elif verb in LOOKS:
            self.note(who, "look", shelf=verb)
        elif verb == "append_output":
            self.note(who, "stamp", thing="output", ahead=(max(chunk.written_at for chunk in args[1]) - wall) / SECOND)
        elif verb == "submit":
            newest = max(job.id for order in args[1] for job in order)
            stamp = int(newest.replace("-", "")[:12], 16) * 1000
            self.note(who, "stamp", thing="a job's id", ahead=(stamp - wall) / SECOND)

    def _finished(self, who: str, settlements: Sequence[Any], verdicts: Sequence[Verdict]) -> dict[str, list[int]]:
        named: dict[str, list[int]] = {}
        for one, verdict in zip(settlements, verdicts, strict=True):
            named.setdefault(one.job_id, []).append(one.fence)
            data = {"ending": one.ending.value, "verdict": verdict.value, "failures": one.failures}
            self.note(who, "finish", one.job_id, one.fence, **data)
        return named

    def _renewed(self, who: str, verb: str, subject: Any) -> None:
        incarnation = subject if verb == "renew" else subject.incarnation
        if verb == "register":
            self._leases[incarnation] = subject.lease / SECOND
        until = self._clock.monotonic() + self._leases[incarnation]
        self._homes[incarnation] = who
        self.note(who, "lease", incarnation=incarnation, until=until)


def _made(deeds: Sequence[tuple[Row | None, Row | None]]) -> dict[str, Row]:
    """Fires that one call has inserted, by job, as they were committed: it may withdraw one, or have it wait."""
    made: dict[str, Row] = {}
    for before, after in deeds:
        job = (before or after or {})["job_id"]
        if after is None:
            made.pop(job, None)
        elif before is None or job in made:
            made[job] = {name: value for name, value in after.items() if name != "job_id"}
    return made


def _row(values: Sequence[Any]) -> Row | None:
    return dict(zip(COLUMNS, values[1:], strict=True)) if values[0] is not None else None


def _shown(value: Any) -> str:
    if isinstance(value, dict) and "revision" in value:
        paused = " paused" if value["paused_at"] else ""
        return f"<r{value['revision'] % 1000} handled {value['handled']} next {value['next_at']}{paused}>"
    if isinstance(value, dict):
        return f"{value['state']}/{value['fence']}"
    return f"{value:.3f}" if isinstance(value, float) else str(value)
