"""What the store has, read with statements of our own: rota's are not to be trusted here."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import apsw
import psycopg

from tests.chaos.evidence import Evidence, Row, Told, Try
from tests.servers.postgres import Server

SECOND = 1_000_000.0


class Away(Exception):
    """It can't be asked just now."""


class Records(Protocol):
    url: str  # what nodes and clients are told

    def living(self) -> list[tuple[str, float]]:
        """Nodes, and since when (wall clock)."""

    def left(self) -> int:
        """How much is still to be done."""

    def blocked(self) -> bool:
        """Somebody who was stopped keeps all others from writing."""

    def read(self, evidence: Evidence) -> None:
        """All jobs and attempts."""


class PostgresRecords:
    def __init__(self, name: str, server: Server, standby: Server | None) -> None:
        self.name, self.server, self.standby = name, server, standby
        ports = f"127.0.0.1:{server.port}" + (f",127.0.0.1:{standby.port}" if standby else "")
        self.url = f"postgresql://postgres@{ports}/{name}" if standby else server.url(name)

    @property
    def address(self) -> str:
        """Of the one that runs."""
        server = self.server if self.server.running else self.standby
        assert server
        return server.url(self.name)

    def ask(self, query: Any, *values: object) -> list[tuple[Any, ...]]:
        try:
            with psycopg.connect(self.address, autocommit=True, sslmode="disable", connect_timeout=5) as connection:
                return connection.execute(query, values or None).fetchall()
        except psycopg.Error as error:
            raise Away from error

    def living(self) -> list[tuple[str, float]]:
        rows = self.ask("SELECT id, started_at FROM rota.nodes WHERE state = 'live'")
        return [(str(name), started / SECOND) for name, started in rows]

    def left(self) -> int:
        due = "(SELECT count(*) FROM rota.schedules WHERE next_at <= rota.clock(NULL))"
        return int(self.ask(f"SELECT count(*) + {due} FROM rota.jobs")[0][0])

    def blocked(self) -> bool:
        return False

    def read(self, evidence: Evidence) -> None:
        columns = "id::text, task, args, state, fence, crashes, failures"
        jobs = self.ask(f"SELECT {columns} FROM rota.jobs")
        history = self.ask(f"SELECT {columns}, outcome, finished_at FROM rota.history")
        evidence.rows = [_row(each) for each in jobs] + [_row(each[:7], *each[7:]) for each in history]
        evidence.tries = _tries(self.ask("SELECT job::text, fence, outcome, finished_at FROM rota.attempts"))
        evidence.progress = [Told(*each) for each in self.ask("SELECT job::text, fence, text FROM rota.progress")]


class SqliteRecords:
    def __init__(self, path: Path) -> None:
        self._path, self.url = path, f"sqlite:///{path}"

    def _ask(self, query: str) -> list[tuple[Any, ...]]:
        try:
            connection = apsw.Connection(str(self._path), flags=apsw.SQLITE_OPEN_READONLY)
            connection.set_busy_timeout(5_000)
            try:
                return connection.execute(query).fetchall()
            finally:
                connection.close()
        except apsw.Error as error:
            raise Away from error

    def living(self) -> list[tuple[str, float]]:
        rows = self._ask("SELECT id, started_at FROM nodes WHERE state = 'live'")
        return [(str(name), started / SECOND) for name, started in rows]

    def left(self) -> int:
        return int(self._ask("SELECT count(*) FROM jobs WHERE finished_at IS NULL")[0][0])

    def blocked(self) -> bool:
        connection = apsw.Connection(str(self._path))
        connection.set_busy_timeout(1_000)  # those that go on need no longer
        try:
            connection.execute("BEGIN IMMEDIATE; ROLLBACK").fetchall()
        except apsw.BusyError:
            return True
        finally:
            connection.close()
        return False

    def read(self, evidence: Evidence) -> None:
        last = "a.job = j.seq AND a.fence = j.fence AND j.finished_at IS NOT NULL"
        rows = self._ask(
            "SELECT j.id, task, args, state, j.fence, crashes, failures, a.outcome, j.finished_at "
            f"FROM jobs j JOIN payloads USING (seq) LEFT JOIN attempts a ON {last}"
        )
        evidence.rows = [_row(each[:7], *each[7:]) for each in rows]
        evidence.tries = _tries(
            self._ask(
                "SELECT j.id, a.fence, a.outcome, a.finished_at FROM attempts a "
                f"JOIN jobs j ON j.seq = a.job WHERE NOT ({last})"
            )
        )
        found = self._ask("SELECT j.id, p.fence, p.text FROM progress p JOIN jobs j ON j.seq = p.job")
        evidence.progress = [Told(*each) for each in found]


def _row(columns: Sequence[Any], outcome: str | None = None, finished: int | None = None) -> Row:
    job, task, args, state, fence, crashes, failures = columns
    number = str(task).partition("command.")[2] or json.loads(args)["number"]
    ended = 0.0 if finished is None else finished / SECOND
    return Row(job, int(number), state, int(fence), int(crashes), outcome, finished is not None, int(failures), ended)


def _tries(rows: Iterable[tuple[Any, ...]]) -> list[Try]:
    return [Try(job, fence, outcome, finished / SECOND) for job, fence, outcome, finished in rows]
