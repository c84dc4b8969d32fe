"""Far-away workers as real processes: what a kill, a pause, a cut link and a restarted server cost."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

import rota
from rota.model.access_keys import key_id
from rota.model.lifecycle import State
from tests.node.far_cluster import SERVER, FarCluster
from tests.node.running import LONG
from tests.servers.proxy import Proxy
from tests.store.postgres.backends import migrated_database

pytestmark = pytest.mark.slow


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "sqlite":
        yield ""
        return
    with migrated_database() as url:
        yield url


@pytest.fixture
async def cluster(url: str, tmp_path: Path) -> AsyncIterator[FarCluster]:
    cluster = FarCluster(tmp_path, url)
    try:
        await cluster.start_server()
        yield cluster
    finally:
        await cluster.close()


async def test_a_worker_runs_functions_and_commands(cluster: FarCluster) -> None:
    await cluster.start("far")
    function = await cluster.work.submit(0)
    command = await cluster.app.submit_command(["sh", "-c", "echo hello; env"])
    assert (await function.wait(LONG)).state is State.SUCCEEDED
    assert (await command.wait(LONG)).state is State.SUCCEEDED
    said = b"".join([piece.body async for piece in command.output()]).decode()
    assert said.startswith("hello\n")
    assert cluster.key not in said
    (node,) = [one for one in await cluster.nodes() if one.id == "far"]
    assert node.access is not None
    assert node.access.user == "workers"
    cluster.signal("far", signal.SIGTERM)
    assert await cluster.ended("far") == 0
    cluster.signal(SERVER, signal.SIGTERM)
    assert await cluster.ended(SERVER) == 0
    assert cluster.leftovers() == []


# -- deaths -----------------------------------------------------------------------------------------------------------


def pid_of(cluster: FarCluster, fence: str) -> int:
    (found,) = {int(pid) for _, _, number, pid, _ in cluster.witness() if number == fence}
    return found


async def second_start(cluster: FarCluster, job: rota.Job[Any]) -> float:
    """When the second attempt began, if nothing of the first was left by then."""

    async def begun() -> bool:
        return any(words[1] == job.id and words[2] == "2" for words in cluster.witness())

    await cluster.until(begun, "the second attempt")
    assert not Path(f"/proc/{pid_of(cluster, '1')}").exists(), "two attempts run at once"
    return next(float(words[0]) for words in cluster.witness() if words[1] == job.id and words[2] == "2")


async def test_the_jobs_of_a_killed_worker_run_elsewhere_at_once(cluster: FarCluster) -> None:
    await cluster.start("one", "--slots", "1")
    job = await cluster.block.submit(60)
    await cluster.witnessed(job, "start")
    await cluster.start("two", "--slots", "1")
    cluster.signal("one", signal.SIGKILL)
    killed = time.time()
    assert await second_start(cluster, job) - killed < 4.0, "the lease is 10 s"
    assert (await job.wait(LONG)).result == 2
    assert "its line was closed" in cluster.log(SERVER)


async def test_a_worker_that_is_paused_for_longer_than_its_lease_loses_its_jobs(cluster: FarCluster) -> None:
    await cluster.start("one", "--slots", "1")
    job = await cluster.block.submit(60)
    await cluster.witnessed(job, "start")
    await cluster.start("two", "--slots", "1")
    cluster.signal("one", signal.SIGSTOP)
    paused = time.time()
    cluster.expected_dead.add("one")  # its keeper ends it with its work
    assert 7.0 < await second_start(cluster, job) - paused < 14.0
    assert (await job.wait(LONG)).result == 2
    assert (await job.info()).fence == 2


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"])
async def test_a_restarted_server_costs_no_job(cluster: FarCluster, how: signal.Signals) -> None:
    """Nobody watches the lines while it is away, and its end is not that of its workers."""
    cluster.settings = {"ROTA_LEASE": "60s"}  # a busy machine takes seconds to start it again
    await cluster.start("far", "--slots", "2")
    job = await cluster.work.submit(6)
    await cluster.witnessed(job, "start")
    cluster.signal(SERVER, how)
    await cluster.ended(SERVER)
    await asyncio.sleep(2.5)  # longer than the grace of a line
    await cluster.start_server()
    info = await job.wait(LONG)
    assert info.state is State.SUCCEEDED
    assert info.crashes == 0  # nobody took the worker for dead
    told = [words[4] for words in cluster.witness()]
    assert told == ["start", "end"], "it was neither stopped nor started again"
    after = await cluster.work.submit(0)
    assert (await after.wait(LONG)).state is State.SUCCEEDED


# -- links ------------------------------------------------------------------------------------------------------------


@pytest.fixture
async def link(cluster: FarCluster) -> AsyncIterator[Proxy]:
    """Between the workers and the server."""
    async with Proxy("127.0.0.1", cluster.port) as proxy:
        cluster.through = proxy.port
        yield proxy


@pytest.mark.parametrize("how", ["cut", "freeze"])
async def test_a_link_that_is_away_for_less_than_the_lease_costs_no_job(
    cluster: FarCluster, link: Proxy, how: str
) -> None:
    cluster.settings = {"ROTA_LEASE": "20s"}
    await cluster.start("far", "--slots", "2")
    job = await cluster.work.submit(5)
    await cluster.witnessed(job, "start")
    getattr(link, how)()
    await asyncio.sleep(4)
    link.mend()
    assert (await job.wait(LONG)).state is State.SUCCEEDED
    assert [words[4] for words in cluster.witness()] == ["start", "end"]


@pytest.mark.parametrize("how", ["cut", "freeze"])
async def test_a_link_that_is_away_for_longer_moves_the_jobs(cluster: FarCluster, link: Proxy, how: str) -> None:
    await cluster.start("one", "--slots", "1")
    job = await cluster.block.submit(60)
    await cluster.witnessed(job, "start")
    cluster.through = cluster.port
    await cluster.start("two", "--slots", "1")
    getattr(link, how)()
    await second_start(cluster, job)
    assert (await job.wait(LONG)).result == 2
    link.mend()
    cluster.expected_dead.add("one")
    again = await cluster.work.submit(0)
    assert (await again.wait(LONG)).state is State.SUCCEEDED


async def test_a_claim_whose_answer_got_lost_loses_no_job(cluster: FarCluster, link: Proxy) -> None:
    await cluster.start("far", "--slots", "4")
    link.drop_replies(b"/worker/claim")
    jobs = [await cluster.work.submit(0) for _ in range(8)]
    await asyncio.wait_for(link.reply_lost(), LONG)
    link.mend()
    for job in jobs:
        assert (await job.wait(LONG)).state is State.SUCCEEDED


# -- keys -------------------------------------------------------------------------------------------------------------


async def test_a_key_that_is_revoked_ends_its_worker(cluster: FarCluster) -> None:
    await cluster.start("one", "--slots", "1")
    job = await cluster.block.submit(60)
    await cluster.witnessed(job, "start")
    cluster.keys["two"] = await cluster.new_key()
    await cluster.start("two", "--slots", "1")
    cluster.expected_dead.add("one")
    assert await (await cluster.store()).revoke_key(cluster.app._core.who, key_id(cluster.key))
    assert await cluster.ended("one") == 1
    last = cluster.log("one").strip().splitlines()[-1]
    assert last.startswith("rota: node one has ended because the server at http://127.0.0.1"), last
    assert "refuses the key" in last
    assert cluster.key not in cluster.log("one")
    await second_start(cluster, job)
    assert (await job.wait(LONG)).result == 2


async def test_a_key_for_other_queues_starts_no_worker(cluster: FarCluster) -> None:
    cluster.keys["far"] = await cluster.new_key("mail")
    await cluster.launch("far")
    assert await cluster.ended("far") != 0
    assert "may not work on queue 'default'" in cluster.log("far")
    await cluster.start("far", "--queues", "mail:1")
    default, mail = await cluster.work.submit(0), await cluster.work.options(queue="mail").submit(0)
    assert (await mail.wait(LONG)).state is State.SUCCEEDED
    assert (await default.info()).state is State.READY
