"""What a run with schedules leaves behind: what the client did to them, what the database has, what the jobs noted."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg

from tests.chaos.rules import Rule

SAVE, PAUSE, RESUME = "save", "pause", "resume"
UNIX = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


@dataclass(frozen=True)
class Deed:
    """One call of the client about a schedule, and when it was asked and answered by the wall clock."""

    name: str
    verb: str
    asked: int
    answered: int
    ok: bool  # otherwise nobody knows
    rule: Rule | None = None  # from here on, if it was saved
    sure: bool = True  # nobody pauses this one, so that every fire must be made


@dataclass(frozen=True)
class Fire:
    name: str
    fire: int
    job: str
    kind: str
    at: int  # when it was made, by the server's clock


@dataclass(frozen=True)
class Skip:
    name: str
    first: int
    last: int
    count: int | None
    reason: str


@dataclass(frozen=True)
class FireJob:
    """A job that says of itself which fire it is."""

    job: str
    name: str
    fire: int
    state: str
    ended: bool
    started: int | None  # for the first time, by the server's clock
    crashes: int = 0
    losses: int = 0  # attempts that did not end it


@dataclass(frozen=True)
class Tick:
    """What a job of a fire noted when it started."""

    job: str
    fence: int
    name: str
    fire: int
    node: str


@dataclass
class Fires:
    deeds: dict[str, list[Deed]] = field(default_factory=dict)  # by schedule, in order
    rows: list[Fire] = field(default_factory=list)
    skips: list[Skip] = field(default_factory=list)
    jobs: list[FireJob] = field(default_factory=list)
    ticks: list[Tick] = field(default_factory=list)


def write(deed: Deed) -> str:
    return json.dumps(asdict(deed))


def read_deeds(lines: Iterable[str]) -> dict[str, list[Deed]]:
    found: dict[str, list[Deed]] = defaultdict(list)
    for text in lines:
        entry = json.loads(text)
        rule = Rule(**entry.pop("rule")) if entry["rule"] else None
        found[entry["name"]].append(Deed(**{**entry, "rule": rule}))
    return dict(found)


def instant(text: str) -> int:
    """Microseconds, exactly: seconds as a float would not do."""
    return (datetime.fromisoformat(text) - UNIX) // timedelta(microseconds=1)


def tick(line: str) -> Tick:
    job, fence, name, fire, node = line.split()
    return Tick(job, int(fence), name, instant(fire), node)


def read(url: str, deeds: Path, ticks: Path) -> Fires:
    """By our own statements: rota's are not to be trusted here."""
    noted = ticks.read_text().splitlines() if ticks.exists() else []
    found = Fires(read_deeds(deeds.read_text().splitlines()), ticks=[tick(line) for line in noted])
    with psycopg.connect(url) as connection:
        fires = connection.execute("SELECT name, fire, job_id::text, kind, at FROM rota.fires").fetchall()
        skips = connection.execute("SELECT name, first, last, count, reason FROM rota.skips").fetchall()
        tries = connection.execute("SELECT job::text, min(started_at), count(*) FROM rota.attempts GROUP BY job")
        lost = {job: (first, count) for job, first, count in tries.fetchall()}
        jobs = connection.execute(
            "SELECT id::text, args, state, false, started_at, crashes FROM rota.jobs UNION ALL "
            "SELECT id::text, args, state, true, started_at, crashes FROM rota.history"
        ).fetchall()
    found.rows, found.skips = [Fire(*row) for row in fires], [Skip(*row) for row in skips]
    found.jobs = [_job(row, *lost.get(row[0], (None, 0))) for row in jobs]
    return found


def _job(row: tuple[Any, ...], first: int | None, losses: int) -> FireJob:
    job, args, state, ended, started, crashes = row
    body = json.loads(args)
    begun = min((at for at in (first, started) if at is not None), default=None)
    return FireJob(job, body["schedule"], instant(body["fire"]), state, ended, begun, crashes, losses)
