"""Mutants: each switches one safeguard off. The checker must catch them all, or it would not notice a real loss."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from rota.model.node import NodeInfo, Watch
from rota.store.sqlite.database import Database, queries
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
NAMES = (*_EDITS, LEASE_IGNORED, KEEPER_OFF)
# A safeguard is missed only under the fault it is for: with these changes of the plan that fault comes often.
_STRESS: dict[str, dict[str, Any]] = {
    "finish-unfenced": {"fragile": 1, "whole_rate": 1.0},
    "start-cancelled": {"prefetch": 3, "visits": 60},
    "keeper-off": {"fragile": 1, "whole_rate": 0.0},
}


def stress(plan: Plan, mutant: str | None) -> Plan:
    return replace(plan, **_STRESS.get(mutant or "", {}))


def spoil(db: Database, mutant: str | None) -> None:
    changed = dict(queries())
    for query, old, new in _EDITS.get(mutant or "", []):
        assert old in changed[query], f"mutant {mutant}: the query {query} has changed"
        changed[query] = changed[query].replace(old, new)
    db._queries = changed


def _everyone(self: Watch, nodes: Iterable[NodeInfo], now: float, healthy_since: float) -> list[NodeInfo]:
    return list(nodes)


@contextmanager
def patched(mutant: str | None) -> Iterator[None]:
    with mock.patch.object(Watch, "dead", _everyone if mutant == LEASE_IGNORED else Watch.dead):
        yield
