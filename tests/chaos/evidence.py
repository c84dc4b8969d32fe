"""Everything that a run leaves behind, as plain values: what the checker and the measurements read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import psycopg

from tests.chaos.fires import Fires
from tests.chaos.graphs import Step
from tests.chaos.keys import Keys
from tests.chaos.told import Order
from tests.chaos.witness import Line


@dataclass(frozen=True)
class Row:
    """A job as the database has it at the end."""

    job: str
    number: int
    state: str
    fence: int
    crashes: int
    outcome: str | None = None  # of its last attempt; only what has ended has one
    ended: bool = False


@dataclass(frozen=True)
class Try:
    """A row of `attempts`: one that did not end its job."""

    job: str
    fence: int
    outcome: str


@dataclass(frozen=True)
class Fault:
    at: float  # monotonic, when it began
    kind: str
    node: str = ""
    until: float = 0.0  # when it was over, if it lasted


@dataclass(frozen=True)
class Exit:
    """A process that ended without having been told to."""

    node: str
    code: int
    at: float


@dataclass
class Evidence:
    told: dict[int, Order] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    tries: list[Try] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    exits: list[Exit] = field(default_factory=list)
    leftovers: list[str] = field(default_factory=list)  # processes that outlived their nodes
    fires: Fires = field(default_factory=Fires)  # of runs with schedules
    keys: Keys = field(default_factory=Keys)  # of runs with limits
    graph: dict[int, Step] = field(default_factory=dict)  # of runs with workflows
    notes: list[str] = field(default_factory=list)  # what a person should know

    def of(self, *kinds: str) -> list[Fault]:
        return [fault for fault in self.faults if fault.kind in kinds]


def read_rows(url: str) -> tuple[list[Row], list[Try]]:
    """By our own statements: rota's are not to be trusted here."""
    with psycopg.connect(url) as connection:
        jobs = connection.execute("SELECT id::text, task, args, state, fence, crashes FROM rota.jobs").fetchall()
        history = connection.execute(
            "SELECT id::text, task, args, state, fence, crashes, outcome FROM rota.history"
        ).fetchall()
        attempts = connection.execute("SELECT job::text, fence, outcome FROM rota.attempts").fetchall()
    rows = [_row(columns, None, ended=False) for columns in jobs]
    rows += [_row(columns[:6], columns[6], ended=True) for columns in history]
    return rows, [Try(*columns) for columns in attempts]


def _row(columns: Sequence[object], outcome: str | None, ended: bool) -> Row:
    job, task, args, state, fence, crashes = columns
    number = str(task).partition("command.")[2] or json.loads(str(args))["number"]
    return Row(str(job), int(number), str(state), int(str(fence)), int(str(crashes)), outcome, ended)
