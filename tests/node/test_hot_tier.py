"""Two nodes on PostgreSQL with a hot tier of real Valkeys, under a load of timers and plain jobs, on bad days: no job
is lost, none takes effect twice, none starts early, and none waits for the hot tier. (How late they are to the
millisecond is measured by `bench` and by chaos runs.)"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import rota
from rota.clock import SystemClock
from rota.model.times import SECOND, Instant
from tests.node.cluster import Cluster
from tests.node.running import LONG
from tests.servers.valkey import Valkey, valkey
from tests.store.postgres.backends import migrated_database

pytestmark = pytest.mark.slow

TIMERS, PLAIN = 240, 60
SPREAD = 6.0  # seconds over which the timers are due
LATE = 8.0  # seconds: a bound for a machine that is busy with other tests


@pytest.fixture
def members(request: pytest.FixtureRequest) -> Iterator[list[Valkey]]:
    with ExitStack() as stack:
        yield [stack.enter_context(valkey()) for _ in range(getattr(request, "param", 1))]


@pytest.fixture
async def cluster(tmp_path: Path, members: list[Valkey]) -> AsyncIterator[Cluster]:
    with migrated_database() as url:
        cluster = Cluster(tmp_path)
        cluster.store_url = url
        hot = ",".join(member.url() for member in members)
        cluster.settings = {"ROTA_HOT": hot}
        cluster.app.configure(store=url, hot=hot)
        try:
            for name in ("one", "two"):
                await cluster.launch(name, "--slots", "16")
            await cluster.until(lambda: up(cluster, 2), "both nodes")
            await cluster.until(lambda: _so(lambda: all(filled(member) for member in members)), "a full heap")
            yield cluster
        finally:
            for member in members:
                if member.running:
                    member.resume()
            await cluster.close()


async def up(cluster: Cluster, count: int) -> bool:
    return sum(not node.gone for node in await cluster.nodes()) >= count


async def _so(true: Callable[[], bool]) -> bool:
    return await asyncio.to_thread(true)


def filled(member: Valkey) -> bool:
    keys = member.call("KEYS", "rota:{*}:due")
    return bool(keys) and any(score == b"inf" for score in member.call("ZRANGE", keys[0], -1, -1, "WITHSCORES")[1:])


def now() -> Instant:
    return SystemClock().now()


class Load:
    """Jobs that are ordered while something happens, and what became of them."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.due: dict[str, Instant] = {}
        self.jobs: list[rota.Job[Any]] = []

    async def order(self) -> None:
        """About as many seconds as the timers take."""
        for number in range(TIMERS):
            delay = 0.5 + SPREAD * ((number * 37) % TIMERS) / TIMERS
            ordered = now()
            timer = await self.cluster.work.options(delay=f"{round(delay * 1000)}ms").submit(0)
            self.jobs.append(timer)
            self.due[timer.id] = ordered + round(delay * 1000) * 1000
            if number % (TIMERS // PLAIN) == 0:
                ordered = now()
                plain = await self.cluster.work.submit(0)
                self.jobs.append(plain)
                self.due[plain.id] = ordered
            await asyncio.sleep(SPREAD / TIMERS / 2)

    async def done(self) -> None:
        for job in self.jobs:
            assert (await job.wait(3 * LONG)).state == "succeeded"
        seen = self.cluster.witness()
        ends = Counter(words[1] for words in seen if words[4] == "end")
        assert ends == dict.fromkeys(self.due, 1), "all of them, each once"
        started = {words[1]: round(float(words[0]) * SECOND) for words in seen if words[4] == "start"}
        early = [job for job, due in self.due.items() if started[job] < due - 1000]
        assert early == []
        late = max(started[job] - due for job, due in self.due.items()) / SECOND
        assert late <= LATE, f"{late:.1f} s late"


@asynccontextmanager
async def load(cluster: Cluster) -> AsyncIterator[Load]:
    """What happens in the block happens in the middle of it."""
    made = Load(cluster)
    ordering = asyncio.create_task(made.order())
    await asyncio.sleep(SPREAD / 4)
    yield made
    await ordering
    await made.done()


# -- bad days of one server -------------------------------------------------------------------------------------------
async def flushed(member: Valkey) -> None:
    for _ in range(3):
        await asyncio.to_thread(member.call, "FLUSHALL")
        await asyncio.sleep(0.4)


async def restarted(member: Valkey) -> None:
    """Without its data, as after a loss of power."""
    await asyncio.to_thread(member.kill)
    await asyncio.sleep(1)
    await asyncio.to_thread(member.start)


async def stopped(member: Valkey) -> None:
    member.pause()
    await asyncio.sleep(4)
    member.resume()


async def full(member: Valkey) -> None:
    member.call("CONFIG", "SET", "maxmemory", "1")
    await asyncio.sleep(3)
    member.call("CONFIG", "SET", "maxmemory", "0")


async def taken_by_another_store(member: Valkey) -> None:
    """Somebody has emptied it, and another store was quicker."""
    member.calls(("MULTI",), ("FLUSHALL",), ("SET", "rota:owner", "another"), ("EXEC",))
    await asyncio.sleep(3)
    assert member.call("GET", "rota:owner") == b"another", "it is left to that one"
    member.call("DEL", "rota:owner")


async def scripts_flushed(member: Valkey) -> None:
    for _ in range(10):
        member.call("SCRIPT", "FLUSH")
        await asyncio.sleep(0.1)


FAULTS = [flushed, restarted, stopped, full, taken_by_another_store, scripts_flushed]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
async def test_jobs_go_on_while_the_hot_tier_has_a_bad_day(
    cluster: Cluster, members: list[Valkey], fault: Callable[[Valkey], Awaitable[None]]
) -> None:
    async with load(cluster):
        await fault(members[0])
    await cluster.until(lambda: _so(lambda: filled(members[0])), "the heap to be filled again")


@pytest.mark.parametrize("members", [3], indirect=True)
async def test_one_of_three_dies(cluster: Cluster, members: list[Valkey]) -> None:
    async with load(cluster):
        await asyncio.to_thread(members[1].kill)
    await asyncio.to_thread(members[1].start)
    await cluster.until(lambda: _so(lambda: all(filled(member) for member in members)), "all to be filled again")
    assert "rota goes on without it" in cluster.log("one") + cluster.log("two")


async def test_with_all_well_the_heap_promotes(cluster: Cluster, members: list[Valkey]) -> None:
    async with load(cluster):
        pass
    assert "hot tier" not in cluster.log("one") + cluster.log("two"), "there is nothing to say"
    (key,) = members[0].call("KEYS", "rota:{*}:due")
    assert members[0].call("ZCARD", key) == 1, "only the epoch is left"


async def test_the_leader_dies_too(cluster: Cluster, members: list[Valkey]) -> None:
    async with load(cluster):
        leader = next(node.id for node in await cluster.nodes() if node.leader)
        cluster.expected_dead.add(leader)
        cluster.processes[leader].kill()
        await asyncio.to_thread(members[0].call, "FLUSHALL")
