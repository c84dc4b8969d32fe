"""What a claim costs, and that it doesn't matter how many jobs wait for their time, or for the nodes of another app."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench import raw
from bench.figure import Figure, Size
from bench.payload import ARGUMENTS
from rota.clock import Chance, SystemClock
from rota.model.job import Claimed, Kind, NewJob, Spec
from rota.model.node import NewNode
from rota.model.outcome import Settlement, Succeeded, settle
from rota.model.principal import LOCAL, SYSTEM
from rota.model.retry import Retry
from rota.model.task import TaskInfo
from rota.model.times import SECOND
from rota.store.base import Store
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


def foreign(folder: Path, size: Size) -> Iterator[Figure]:
    alone, crowded = folder / "alone.db", folder / "crowded.db"
    raw.create(str(alone)).close()
    connection = raw.create(str(crowded))
    raw.fill_with_waiting(connection, size.waiting, foreign=True)
    connection.close()
    for batch in (100, 1):
        took = asyncio.run(_take_turns([alone, crowded], batch, size.claims))
        yield beside_foreign("", size.waiting, batch, *took)


def beside_foreign(place: str, jobs: int, batch: int, alone: float, among_many: float) -> Figure:
    return Figure(
        f"{place}claim of {batch}, {jobs:,} ready functions of another app against none", among_many / alone, "x",
        most=1.5, ours=f"{among_many * 1000:.2f} ms", other=f"{alone * 1000:.2f} ms",
    )  # fmt: skip


async def _take_turns(stores: list[Path], batch: int, claims: int) -> list[float]:
    chance = Chance()
    return await take_turns(
        [SqliteStore(str(path), SystemClock(), chance, inline=True) for path in stores], batch, claims
    )


async def take_turns(stores: Sequence[Store], batch: int, claims: int) -> list[float]:
    """The median time of a claim on each."""
    claimers = [_Claimer(store) for store in stores]
    for claimer in claimers:
        await claimer.join()
    took = [[await claimer.claim(batch) for claimer in claimers] for _ in range(claims)]
    for claimer in claimers:
        await claimer.leave()
    return [statistics.median(times) for times in zip(*took, strict=True)]


class _Claimer:
    """A node without the node: nothing but the claim is timed."""

    def __init__(self, store: Store) -> None:
        self._chance, self._store = Chance(), store
        self._incarnation = self._chance.token()

    async def join(self) -> None:
        await self._store.open()
        node = NewNode(self._incarnation, self._incarnation, ("worker",), {"default": 500}, "bench", 10 * SECOND)
        await self._store.register(SYSTEM, node, [TaskInfo("noop")])

    async def claim(self, batch: int) -> float:
        """Seconds for a claim that finds its whole batch. The jobs come just before it and are ended after it."""
        spec = Spec.function("noop")
        ids = self._chance.job_ids(self._store.now(), batch)
        jobs = [NewJob(job, "noop", spec, ARGUMENTS) for job in ids]
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
