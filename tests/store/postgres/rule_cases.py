"""Random cases for the rules that PostgreSQL decides in SQL, and what the model makes of them.

Each case has an owner to itself, so that hundreds of them fit into one call of the function under test.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import psycopg

from rota.model.admission import Candidate, ClaimAdmission
from rota.model.gates import ClosedGate, Effect, Match
from rota.model.keys import KeyState, Reservation, token_counts
from rota.model.limits import KEPT_STARTS, RUNNING_QUOTA, Key, Limit, Policy, Rate, effective
from rota.model.requirements import Alone, Requirements, subject
from rota.model.times import MINUTE, SECOND, Duration, Instant

NOW: Instant = 1_800_000_000_000_000
STEP: Duration = MINUTE
WINDOWS = (10_000, SECOND, MINUTE, 15 * MINUTE, 40 * MINUTE)
SLACKS = (20_000, 500_000, 2_000_000)
NOBODY = "00000000-0000-0000-0000-000000000000"
Connection = psycopg.Connection[tuple[Any, ...]]


@dataclass
class Job:
    id: str
    owner: str
    state: str = "ready"
    rank: int = NOW
    task: str = "t"
    queue: str = "q"
    requirements: Requirements = field(default_factory=Requirements)
    held_by: str | None = None
    fence: int = 0
    interruptions: int = 0
    own_step: Duration | None = None
    created_at: Instant = NOW
    reserved: int | None = None

    def candidate(self, needs: Requirements) -> Candidate:
        about = subject(self.owner, self.task, self.queue, self.requirements.text)
        return Candidate(self.id, about, needs, self.fence, self.rank, self.own_step, self.interruptions, self.reserved)


Start = tuple[str, Instant, Duration, Instant]  # key, at, late, until


@dataclass
class Case:
    """One owner: jobs that a claim looks at, jobs that wait or run, and the keys and gates around them."""

    owner: str
    candidates: list[Job] = field(default_factory=list)
    others: list[Job] = field(default_factory=list)  # in line, or running
    limits: dict[str, Limit] = field(default_factory=dict)
    slots: list[tuple[str, int, str]] = field(default_factory=list)  # key, number, job
    starts: list[Start] = field(default_factory=list)
    gates: list[tuple[ClosedGate, Instant]] = field(default_factory=list)  # and since when

    @property
    def jobs(self) -> list[Job]:
        return [*self.candidates, *self.others]

    def needs(self, job: Job) -> Requirements:
        """With the quota of the owner for running jobs."""
        return job.requirements.within_quota() if RUNNING_QUOTA in self.limits else job.requirements

    def states(self, now: Instant, jobs: Iterable[Job]) -> dict[tuple[str, str], KeyState]:
        """As the SQLite store loads them."""
        found: dict[tuple[str, str], KeyState] = {}
        for job in jobs:
            for key in self.needs(job).keys:
                state = found.setdefault((self.owner, key.name), self._state(key.name))
                rate = effective(key, state.limit).rate
                if rate is not None:
                    used = [one for one in self.starts if one[0] == key.name]
                    tokens = sum(token_counts(at, late, rate.window, now) for _, at, late, _ in used)
                    state.count(rate.window, tokens)
        return found

    def _state(self, name: str) -> KeyState:
        numbers = [number for key, number, _ in self.slots if key == name]
        starts = [one for one in self.starts if one[0] == name]
        _, at, late, until = max(starts, key=lambda one: one[1]) if starts else ("", 0, 0, 0)
        reserved = sorted(
            Reservation(one.reserved, one.id)
            for one in self.others
            if one.reserved is not None
            and one.state == "held"
            and any(key.name == name for key in one.requirements.keys)
        )
        return KeyState(self.limits.get(name), numbers, until - at - late if starts else None, reserved)

    @property
    def running(self) -> list[tuple[str, Any]]:
        found = [one for one in self.others if one.state == "running"]
        return [(one.id, subject(one.owner, one.task, one.queue, one.requirements.text)) for one in found]

    def decided(self, now: Instant) -> ClaimAdmission:
        gates = [gate for gate, _ in sorted(self.gates, key=lambda one: (one[1], one[0].id))]
        admission = ClaimAdmission(gates, self.states(now, self.candidates), self.running, now, STEP)
        for job in sorted(self.candidates, key=lambda one: (one.rank, one.id)):
            candidate = job.candidate(self.needs(job))
            admission.bars(candidate) or admission.admit(candidate)
        admission.finish()
        return admission


class Cases:
    """Random cases."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def job_id(self) -> str:
        return str(uuid.UUID(int=self.rng.getrandbits(128)))

    def bounds(self) -> tuple[int | None, Rate | None]:
        rng = self.rng
        concurrency = rng.choice([None, 1, 1, 2, 3])
        rate = rng.choice([None, None, Rate(rng.randint(1, 3), rng.choice(WINDOWS))])
        return concurrency, rate

    def key(self, name: str) -> Key:
        return Key(name, *self.bounds(), self.rng.choice([Policy.WAIT] * 4 + [Policy.SKIP, Policy.REPLACE]))

    def keys(self, names: Sequence[str]) -> tuple[Key, ...]:
        chosen = self.rng.sample(names, min(len(names), self.rng.choice([0, 1, 1, 1, 2, 2, 3])))
        return tuple(self.key(name) for name in sorted(chosen))

    def rank(self) -> int:
        return NOW + self.rng.choice([0, 1, -STEP, STEP, 5 * STEP, 9 * STEP, 9 * STEP + 1, 10 * STEP, 30 * STEP])

    def match(self) -> Match:
        rng = self.rng
        return Match(
            task=rng.choice([None, None, "t", "t*", "?", "u"]), queue=rng.choice([None, None, "q", "p"]),
            label=rng.choice([None, None, "x"]),
        )  # fmt: skip

    def alone(self) -> Alone:
        match = self.match()
        return Alone(match, match.like, SECOND)

    def job(self, owner: str, names: Sequence[str], **more: Any) -> Job:
        rng = self.rng
        labels = rng.choice([(), (), ("x",), ("x", "y")])
        alone = self.alone() if rng.random() < 0.12 else None
        needs = Requirements(labels=labels, keys=self.keys(names), alone=alone)
        step = rng.choice([None, None, None, 0, 2 * STEP])
        return Job(
            self.job_id(), owner, rank=self.rank(), task=rng.choice(["t", "t", "u"]), queue=rng.choice(["q", "q", "p"]),
            requirements=needs, fence=rng.choice([0, 3]), interruptions=rng.choice([0, 0, 1, 5, 9]), own_step=step,
            created_at=NOW - rng.randint(0, 3), **more,
        )  # fmt: skip

    def case(self, number: int) -> Case:
        rng = self.rng
        names = ["a", "B", "ä%_\\"]
        case = Case(f"o{number}")
        for name in names:
            if rng.random() < 0.3:
                case.limits[name] = Limit(name, *self.bounds())
            if rng.random() < 0.5:
                self.hold(case, name)
            if rng.random() < 0.5:
                self.use_tokens(case, name)
        if rng.random() < 0.4:
            case.limits[RUNNING_QUOTA] = Limit(RUNNING_QUOTA, rng.randint(1, 4))
        if rng.random() < 0.3:  # also of a quota that was lifted meanwhile
            self.hold(case, RUNNING_QUOTA)
        case.candidates = [self.job(case.owner, names) for _ in range(rng.choice([1, 2, 3, 4, 6]))]
        self.wait(case, names)
        self.close_gates(case)
        return case

    def hold(self, case: Case, name: str) -> None:
        for number in self.rng.sample([1, 2, 3, 5], self.rng.randint(1, 3)):
            holder = self.job(case.owner, [], state="running")
            holder.requirements = Requirements(keys=() if name == RUNNING_QUOTA else (Key(name),))
            case.others.append(holder)
            case.slots.append((name, number, holder.id))

    def use_tokens(self, case: Case, name: str) -> None:
        """Around the instant at which a token comes back by one of the windows, and some others."""
        kept = self.rng.choice([KEPT_STARTS, 20 * MINUTE])
        for _ in range(self.rng.randint(1, 4)):
            late, window = self.rng.choice(SLACKS), self.rng.choice(WINDOWS)
            at = NOW - late - window + self.rng.choice([-1, 0, 1, late, self.rng.randint(0, window)])
            at = min(at, NOW)
            if all(at != one[1] or name != one[0] for one in case.starts):  # the latest is told by its instant
                case.starts.append((name, at, late, at + late + kept))

    def wait(self, case: Case, names: Sequence[str]) -> None:
        """Jobs in line for several keys have a place reserved; so have candidates that have waited before."""
        for _ in range(self.rng.choice([0, 0, 1, 2])):
            keys = tuple(self.key(name) for name in sorted(self.rng.sample(names, 2)))
            waiter = self.job(case.owner, [], state="held", held_by=f"k:{case.owner}:{keys[0].name}")
            waiter.requirements = Requirements(keys=keys)
            # Its rank may have moved behind its own place: that must not count for itself.
            waiter.reserved = waiter.rank + self.rng.choice([-1, 0, 9 * STEP])
            case.others.append(waiter)
        for job in case.candidates:
            if job.requirements.keys and self.rng.random() < 0.3:
                job.held_by = f"k:{case.owner}:{job.requirements.keys[0].name}"  # it was let go
                if len(job.requirements.keys) > 1:
                    job.reserved = job.rank + 9 * STEP

    def close_gates(self, case: Case) -> None:
        rng = self.rng
        for _ in range(rng.choice([0, 0, 0, 1, 2])):
            effect = rng.choice([Effect.PAUSE, Effect.PAUSE, Effect.DROP])
            gate = ClosedGate(self.job_id(), case.owner, self.match(), effect, f"why {rng.random()}")
            case.gates.append((gate, NOW - rng.randint(0, 2)))
        for job in case.candidates:
            alone = job.requirements.alone
            if alone is not None and rng.random() < 0.6:
                reason, proved = f"job {job.id} is to run alone", rng.random() < 0.7
                gate = ClosedGate(
                    self.job_id(), job.owner, alone.match, Effect.PAUSE, reason, job=job.id, proved=proved
                )
                case.gates.append((gate, NOW - rng.randint(0, 2)))


# -- in the tables ----------------------------------------------------------------------------------------------------
def put_node(db: Connection) -> None:
    columns: dict[str, object] = {
        "id": "n", "incarnation": "i", "state": "live", "seen_at": 0, "lease": 1, "queues": "{}", "tasks": "{}",
    }  # fmt: skip
    required = db.execute(
        "SELECT attname, format_type(atttypid, NULL) FROM pg_attribute"
        " WHERE attrelid = 'nodes'::regclass AND attnum > 0 AND attnotnull AND NOT atthasdef AND NOT attisdropped"
    ).fetchall()
    for name, kind in required:
        columns.setdefault(name, 0 if kind in ("bigint", "integer") else False if kind == "boolean" else "")
    _insert(db, "nodes", list(columns), [tuple(columns.values())])


def put_jobs(db: Connection, jobs: Iterable[Job]) -> None:
    _insert(
        db, "jobs",
        ["id", "owner", "state", "queue", "kind", "task", "priority", "rank", "run_at", "created_at", "spec", "digest",
         "args", "retry", "requirements", "special", "held_by", "fence", "interruptions", "own_step", "node"],
        [(one.id, one.owner, one.state, one.queue, "function", one.task, 5, one.rank, NOW, one.created_at, "{}", "d",
          "{}", "{}", one.requirements.text, one.requirements.special, one.held_by, one.fence, one.interruptions,
          one.own_step, "i" if one.state == "running" else None) for one in jobs],
    )  # fmt: skip


def put_cases(db: Connection, cases: Sequence[Case]) -> None:
    put_jobs(db, [job for case in cases for job in case.jobs])
    put_keys(db, cases)
    rows: list[tuple[object, ...]] = [
        (gate.id, gate.owner, gate.match.task, gate.match.like, gate.match.queue, gate.match.user, gate.match.label,
         gate.effect.value, gate.reason, case.owner, at, gate.job, [] if gate.proved else None)
        for case in cases for gate, at in case.gates
    ]  # fmt: skip
    columns = ["id", "owner", "task", "task_like", "queue", "by_user", "label", "effect", "reason", "author",
               "created_at", "job", "claims"]  # fmt: skip
    _insert(db, "gates", columns, rows)


def put_keys(db: Connection, cases: Sequence[Case]) -> None:
    limits = [
        (case.owner, name, limit.concurrency, limit.rate and limit.rate.count, limit.rate and limit.rate.window)
        for case in cases
        for name, limit in case.limits.items()
    ]
    _insert(db, "limits", ["owner", "key", "concurrency", "starts", "span"], limits)
    slots = [(case.owner, key, number, job, 0, NOW) for case in cases for key, number, job in case.slots]
    _insert(db, "slots", ["owner", "key", "number", "job", "fence", "since"], slots)
    starts = [(case.owner, key, NOBODY, 0, at, late, until) for case in cases for key, at, late, until in case.starts]
    _insert(db, "starts", ["owner", "key", "job", "fence", "at", "late", "until"], starts)
    wanted = [
        (case.owner, key.name, job.id, job.reserved)
        for case in cases
        for job in case.jobs
        if job.reserved is not None
        for key in job.requirements.keys
    ]
    _insert(db, "wanted", ["owner", "key", "job", "latest"], wanted)


def _insert(db: Connection, table: str, columns: Sequence[str], rows: Sequence[tuple[object, ...]]) -> None:
    values = ", ".join(["%s"] * len(columns))
    with db.cursor() as cursor:
        cursor.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({values})".encode(), rows)


def clear(db: Connection) -> None:
    db.execute("TRUNCATE jobs, history, gates, limits, slots, starts, wanted, freed, settling, edges, queues, flows")


def text(value: object) -> str:
    return msgspec.json.encode(value).decode()
