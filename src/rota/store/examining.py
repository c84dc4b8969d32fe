"""Findings of `rota doctor` that all stores word alike."""

from __future__ import annotations

from collections.abc import Sequence

from rota.model.times import iso
from rota.store.offers import Unoffered
from rota.store.values import Finding

MOST_NAMED = 5


def waited_for(found: Sequence[Unoffered]) -> Finding:
    names = ", ".join(f"{one.task} (queue {one.queue}, since {iso(one.since)})" for one in found[:MOST_NAMED])
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    text = f"jobs wait for functions that no node has ever offered: {names}{more}" if found else "all were offered"
    return Finding("tasks", not found, text)
