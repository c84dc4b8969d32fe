"""Sync functions in warm processes, on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bench.figure import Figure, Size
from bench.functions import APP, SLOTS, figure
from bench.postgres.server import server, store
from bench.postgres.throughput import drained


def sync_noops(folder: Path, size: Size) -> Iterator[Figure]:
    rates: list[float] = []
    with server(folder) as one:
        for _ in range(size.runs):
            with store(one, folder) as place:
                rates.append(drained(place, size.jobs, SLOTS, APP))
    yield figure(f"PostgreSQL: {size.jobs:,} sync no-ops in warm processes, {SLOTS} slots", rates)
