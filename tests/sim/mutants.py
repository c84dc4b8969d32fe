"""Mutants: each switches one safeguard off. The checker must catch them all, or it would not notice a real loss."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import msgspec

from rota.control.scheduler import Scheduler
from rota.model.node import NodeInfo, Watch
from rota.model.trigger import plan as planning
from rota.model.trigger.fires import next_fire
from rota.model.trigger.identity import fire_id
from rota.model.trigger.standing import ScheduleInfo
from rota.planning import Planning
from rota.store.postgres.database import Database
from rota.store.postgres.session import Session
from rota.store.sqlite.database import Database as SqliteDatabase
from rota.store.sqlite.database import queries
from tests.sim.plan import Plan

# Changes of a query: mutant -> (query, what stands there, what stands there instead).
_EDITS: dict[str, list[tuple[str, str, str]]] = {
    "finish-unfenced": [("standing", "j.state = 'running' AND j.fence = wanted.value ->> 1", "j.state = 'running'")],
    "finish-twice": [
        ("standing", "j.state = 'running' AND j.fence = wanted.value ->> 1", "j.fence = wanted.value ->> 1"),
        ("record_attempts", "coalesce(n.id, j.node)", "coalesce(n.id, j.node, '')"),
    ],
    "claim-running": [("lane", "state = 'ready'", "state IN ('ready', 'running')")],
    "start-cancelled": [("start_states", "j.cancel", "NULL")],
    "due-too-early": [("due", "run_at <= :now", "run_at <= :now + 3000000")],
    "failures-uncounted": [("move_jobs", "failures + (r.value ->> 7)", "failures")],
    "keys-ignored": [
        ("known_keys", "k.key = wanted.value", "k.key = wanted.value AND 0"),
        ("insert_key", "INSERT INTO", "INSERT OR REPLACE INTO"),
    ],
}
_OF_SCHEDULES: dict[str, list[tuple[str, str, str]]] = {
    "revision-ignored": [("standing_schedules", "s.revision = wanted.value ->> 2 AND ", "")],
    "pause-unfenced": [("pause_schedule", "revision = revision + 1, ", "")],
    "released-too-soon": [("going_fires", "f.open AND NOT f.waiting", "f.open AND NOT f.waiting AND false")],
    "fire-not-unique": [
        ("standing_schedules", "s.handled = wanted.value ->> 3", "true"),
        ("known_fires", "f.fire = wanted.value", "false"),
        ("insert_fire", "INSERT INTO", "INSERT OR REPLACE INTO"),
    ],
    "edit-forgets": [("replace_schedule", "AND (next_at IS NULL OR next_at > :since)", "")],
    "cursor-moves-back": [("move_schedule", "handled = max(handled, ", "handled = min(handled - 1, ")],
    "skips-unrecorded": [("insert_skip", "VALUES (?, ?, ?, ?, ?, ?, ?)", "SELECT ?, ?, ?, ?, ?, ?, ? WHERE false")],
    "living-forgotten": [("reopen_fires", "NOT open", "NOT open AND false")],
    "resume-forgets": [("resume_schedule", "AND (next_at IS NULL OR next_at > :since)", "")],
    "remove-unfenced": [("remove_schedule", "AND revision = :revision AND handled = :before", "")],
    "fires-uncounted": [("move_schedule", "fired = fired + :made", "fired = fired")],
}
# Those that change code, and where.
LEASE_IGNORED = "lease-ignored"  # the reaper takes living nodes for dead
KEEPER_OFF = "keeper-off"  # nobody kills what has outlived its lease: see SimCrew
# Those of servers.
SESSION_LOSS_IGNORED = "session-loss-ignored"  # a node whose lock is lost goes on as if nothing had happened
IDENTITY_IGNORED = "server-identity-ignored"  # a lock is free: whatever server the row names. See Server
GRACE_IGNORED = "grace-ignored"  # a lock is free: nobody waits whether its node lives. See Server
SKEWED_CLOCK = "skewed-clock"  # nodes and customers take the time from their own machine
CURSOR_SKEWED = "cursor-skewed"  # the cursor moves to what the clock of the node's machine says
OF_SERVERS = (SESSION_LOSS_IGNORED, IDENTITY_IGNORED, GRACE_IGNORED, SKEWED_CLOCK, CURSOR_SKEWED)
NAMES = (*_EDITS, *_OF_SCHEDULES, LEASE_IGNORED, KEEPER_OFF, *OF_SERVERS)
# A safeguard is missed only under the fault it is for: with these changes of the plan that fault comes often.
_STRESS: dict[str, dict[str, Any]] = {
    "finish-unfenced": {"fragile": 1, "whole_rate": 1.0, "visits": 40, "error_rate": 0.005},
    "start-cancelled": {"prefetch": 3, "visits": 80, "slots": 1, "length": 30.0},
    "keeper-off": {"fragile": 1, "whole_rate": 0.0},
    **{mutant: {"schedules": 4, "visits": 5} for mutant in (*_OF_SCHEDULES, CURSOR_SKEWED)},
    "remove-unfenced": {"schedules": 4, "visits": 5, "slow_rate": 0.2},
}


def stress(plan: Plan, mutant: str | None) -> Plan:
    """The mutants of servers need one; the others are hunted faster without."""
    return replace(plan, server=mutant in OF_SERVERS, **_STRESS.get(mutant, {})) if mutant else plan


def spoil(db: SqliteDatabase, mutant: str | None) -> None:
    changed = dict(queries())
    for query, old, new in (_EDITS | _OF_SCHEDULES).get(mutant or "", []):
        assert old in changed[query], f"mutant {mutant}: the query {query} has changed"
        changed[query] = changed[query].replace(old, new)
    db._queries = changed


def _everyone(self: Watch, nodes: Iterable[NodeInfo], now: float, healthy_since: float) -> list[NodeInfo]:
    return list(nodes)


def _other_ids() -> Callable[[str, str, int], str]:
    """In the place of fire_id: another one each time."""
    numbers = itertools.count()
    return lambda owner, name, fire: fire_id(owner, f"{name}/{next(numbers)}", fire)


async def _not_up_to_date(self: Planning, info: ScheduleInfo) -> bool:
    return True


def _skewed(prepare: Callable[..., Any]) -> Callable[..., Any]:
    async def prepare_skewed(self: Scheduler, info: ScheduleInfo) -> None:
        await prepare(self, info)
        if one := self._prepared.get((info.owner, info.name)):
            handled = max(one.step.handled, self._store._clock.now())  # type: ignore[attr-defined]
            following = next_fire((await self._read(info)).schedule, handled)
            step = msgspec.structs.replace(one.step, handled=handled, next_at=following)
            self._prepared[info.owner, info.name] = msgspec.structs.replace(one, step=step)

    return prepare_skewed


@contextmanager
def patched(mutant: str | None) -> Iterator[None]:
    with ExitStack() as stack:
        if mutant == LEASE_IGNORED:
            stack.enter_context(mock.patch.object(Watch, "dead", _everyone))
        if mutant == SESSION_LOSS_IGNORED:
            stack.enter_context(mock.patch.object(Session, "exposed", return_value=None))
        if mutant == "fire-not-unique":
            stack.enter_context(mock.patch.object(planning, "fire_id", _other_ids()))
        if mutant in ("edit-forgets", "resume-forgets"):
            stack.enter_context(mock.patch.object(Planning, "_up_to_date", _not_up_to_date))
        if mutant == CURSOR_SKEWED:
            stack.enter_context(mock.patch.object(Scheduler, "_prepare", _skewed(Scheduler._prepare)))
        if mutant == SKEWED_CLOCK:
            stack.enter_context(mock.patch.object(Database, "now", lambda self: self.clock.now()))
        yield
