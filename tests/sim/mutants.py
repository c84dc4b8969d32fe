"""Mutants: each switches one safeguard off. The checker must catch them all, or it would not notice a real loss."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from rota.model.node import NodeInfo, Watch
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
# Those that change code, and where.
LEASE_IGNORED = "lease-ignored"  # the reaper takes living nodes for dead
KEEPER_OFF = "keeper-off"  # nobody kills what has outlived its lease: see SimCrew
# Those of servers.
SESSION_LOSS_IGNORED = "session-loss-ignored"  # a node whose lock is lost goes on as if nothing had happened
IDENTITY_IGNORED = "server-identity-ignored"  # a lock is free: whatever server the row names. See Server
GRACE_IGNORED = "grace-ignored"  # a lock is free: nobody waits whether its node lives. See Server
SKEWED_CLOCK = "skewed-clock"  # nodes and customers take the time from their own machine
OF_SERVERS = (SESSION_LOSS_IGNORED, IDENTITY_IGNORED, GRACE_IGNORED, SKEWED_CLOCK)
NAMES = (*_EDITS, LEASE_IGNORED, KEEPER_OFF, *OF_SERVERS)
# A safeguard is missed only under the fault it is for: with these changes of the plan that fault comes often.
_STRESS: dict[str, dict[str, Any]] = {
    "finish-unfenced": {"fragile": 1, "whole_rate": 1.0, "visits": 40, "error_rate": 0.005},
    "start-cancelled": {"prefetch": 3, "visits": 80, "slots": 1, "length": 30.0},
    "keeper-off": {"fragile": 1, "whole_rate": 0.0},
}


def stress(plan: Plan, mutant: str | None) -> Plan:
    """The mutants of servers need one; the others are hunted faster without."""
    return replace(plan, server=mutant in OF_SERVERS, **_STRESS.get(mutant, {})) if mutant else plan


def spoil(db: SqliteDatabase, mutant: str | None) -> None:
    changed = dict(queries())
    for query, old, new in _EDITS.get(mutant or "", []):
        assert old in changed[query], f"mutant {mutant}: the query {query} has changed"
        changed[query] = changed[query].replace(old, new)
    db._queries = changed


def _everyone(self: Watch, nodes: Iterable[NodeInfo], now: float, healthy_since: float) -> list[NodeInfo]:
    return list(nodes)


@contextmanager
def patched(mutant: str | None) -> Iterator[None]:
    with ExitStack() as stack:
        if mutant == LEASE_IGNORED:
            stack.enter_context(mock.patch.object(Watch, "dead", _everyone))
        if mutant == SESSION_LOSS_IGNORED:
            stack.enter_context(mock.patch.object(Session, "exposed", return_value=None))
        if mutant == SKEWED_CLOCK:
            stack.enter_context(mock.patch.object(Database, "now", lambda self: self.clock.now()))
        yield
