"""What a claim costs, and that it doesn't matter how many jobs wait for their time."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from bench import raw
from bench.figure import Figure, Size
from bench.payload import ARGUMENTS
from rota.clock import Chance, SystemClock
from rota.model.job import Claimed, Kind, NewJob, Spec
from rota.model.node import Node
from rota.model.outcome import Settlement, Succeeded, settle
from rota.model.principal import LOCAL, SYSTEM
from rota.model.retry import Retry
from rota.model.times import SECOND
from rota.store.sqlite import SqliteStore


def claim(folder: Path, size: Size) -> Iterator[Figure]:
    empty, crowded = folder / "empty.db", folder / "crowded.db"
    raw.create(str(empty)).close()
    connection = raw.create(str(crowded))
    raw.fill_with_waiting(connection, size.waiting)
    connection.close()
    for batch in (100, 1):
        alone, among_many = asyncio.run(_take_turns([empty, crowded], batch, size.claims))
        yield Figure(
            f"claim of {batch}, {size.waiting:,} waiting against none", among_many / alone, "x", most=1.5,
            ours=f"{among_many * 1000:.2f} ms", other=f"{alone * 1000:.2f} ms",
        )  # fmt: skip


async def _take_turns(stores: list[Path], batch: int, claims: int) -> list[float]:
    """The median time of a claim on each."""
    claimers = [_Claimer(path) for path in stores]
    for claimer in claimers:
        await claimer.join()
    took = [[await claimer.claim(batch) for claimer in claimers] for _ in range(claims)]
    for claimer in claimers:
        await claimer.leave()
    return [statistics.median(times) for times in zip(*took, strict=True)]


class _Claimer:
    """A node without the node: one thread, so that nothing but the claim is timed."""

    def __init__(self, path: Path) -> None:
        self._chance = Chance()
        self._store = SqliteStore(str(path), SystemClock(), self._chance, inline=True)
        self._incarnation = self._chance.token()

    async def join(self) -> None:
        await self._store.open()
        node = Node(self._incarnation, self._incarnation, ("worker",), {"default": 500}, "bench", 10 * SECOND)
        await self._store.register(SYSTEM, node, [])

    async def claim(self, batch: int) -> float:
        """Seconds for a claim that finds its whole batch. The jobs come just before it and are ended after it."""
        spec = Spec.function("noop")
        now = self._store.now()
        jobs = [NewJob(self._chance.job_id(now), "noop", spec, ARGUMENTS) for _ in range(batch)]
        await self._store.submit(LOCAL, [jobs])
        wanted = {"default": batch}
        begun = time.perf_counter()
        claimed = await self._store.claim(SYSTEM, self._incarnation, wanted, list(Kind), wanted)
        took = time.perf_counter() - begun
        if len(claimed) != batch:
            raise RuntimeError(f"{len(claimed)} jobs were claimed instead of {batch}")
        await self._store.finish(SYSTEM, [_success(one) for one in claimed])
        return took

    async def leave(self) -> None:
        await self._store.leave(SYSTEM, self._incarnation)
        await self._store.close()


def _success(claimed: Claimed) -> Settlement:
    return settle(claimed.job_id, claimed.fence, Retry(), claimed.failures, Succeeded(), 0.5)
