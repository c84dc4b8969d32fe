"""A PostgreSQL and a Valkey, and databases of the one with and without the other in front of them."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.figure import Figure
from bench.postgres.server import Store, server
from bench.postgres.server import store as plain_store
from tests.servers.postgres import Server, Setting
from tests.servers.valkey import Valkey, valkey

# Seconds until nodes that have just started rely on the hot tier for wake-ups, and have filled the heap.
SETTLING = 4.5


class Pair:
    def __init__(self, postgres: Server, hot: Valkey, folder: Path) -> None:
        self.postgres, self.valkey, self.folder = postgres, hot, folder

    @contextmanager
    def store(self, hot: bool) -> Iterator[Store]:
        """A new database. With the hot tier: an empty one, which no other store may use meanwhile."""
        if hot:
            self.valkey.call("FLUSHALL")
        settings = {"hot": self.valkey.url()} if hot else {}
        with plain_store(self.postgres, self.folder, **settings) as one:
            yield one


@contextmanager
def pair(folder: Path, **settings: Setting) -> Iterator[Pair]:
    """`settings`: of PostgreSQL. The Valkey has its defaults, without persistence."""
    with server(folder, **settings) as postgres, valkey() as hot:
        yield Pair(postgres, hot, folder)


def named(text: str, hot: bool) -> str:
    return f"{'with' if hot else 'without'} the hot tier: {text}"


def beside(name: str, ours: Sequence[float], other: Sequence[float], unit: str, **goal: Any) -> Figure:
    """The figure with the hot tier as a multiple of that without, each run with the one next to it."""
    ratios = [one / max(base, 1e-9) for one, base in zip(ours, other, strict=True)]
    with_it, without = (f"{statistics.median(values):,.1f} {unit}" for values in (ours, other))
    title = f"{name}, with / without"
    return Figure(title, statistics.median(ratios), "x", ours=with_it, other=without, runs=ratios, **goal)
