"""Quotas with real nodes: they claim at once, one is killed, and far-away workers write more than is allowed."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from rota.model.lifecycle import State
from rota.model.principal import LOCAL
from rota.model.quotas import NO_QUOTAS, quotas
from tests.node.cluster import Cluster
from tests.node.far_cluster import FarCluster
from tests.node.running import LONG
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
async def cluster(url: str, tmp_path: Path) -> AsyncIterator[Cluster]:
    cluster = Cluster(tmp_path)
    if url:
        cluster.store_url = url
        cluster.app.configure(store=url)
    yield cluster
    await cluster.close()


async def bound(cluster: Cluster, text: str) -> None:
    core = cluster.app._core
    store = (await core.client()).store
    await store.put_user(
        LOCAL, core.who.user, NO_QUOTAS, new=True
    )  # unless it is there: the user of the first admin key
    assert await store.put_user(LOCAL, core.who.user, quotas(text), new=False)


async def test_one_runs_at_a_time_although_two_nodes_claim_and_one_is_killed(cluster: Cluster) -> None:
    for name in ("anna", "bert"):
        await cluster.start(name)
    await bound(cluster, "running=1")
    before = [await cluster.work.submit(0.02) for _ in range(10)]
    for job in before:
        assert (await job.wait(LONG)).state is State.SUCCEEDED
    # Jobs beyond a quota start in no strict order, so each step waits for the one before it.
    long = await cluster.work.submit(30)
    await cluster.witnessed(long, "start")
    after = [await cluster.work.submit(0.02) for _ in range(10)]
    waiting = await after[-1].explain()
    assert waiting.reasons[0].kind == "quota"
    assert (waiting.reasons[0].data["used"], waiting.reasons[0].data["allowed"]) == (1, 1)
    holder = await cluster.holder(long)
    cluster.signal(holder, signal.SIGKILL)
    await cluster.ended(holder)

    async def again() -> bool:
        return len([words for words in cluster.witness() if words[1] == long.id]) == 2

    await cluster.until(again, "the job, and its place in the quota, to come to the other node")
    assert await cluster.holder(long) != holder
    await long.cancel("it was long enough")
    for job in after:
        assert (await job.wait(LONG)).state is State.SUCCEEDED
    inside: set[str] = set()
    for _, job_id, _, _, word in cluster.witness():
        if job_id != long.id:
            inside = inside | {job_id} if word == "start" else inside - {job_id}
            assert len(inside) <= 1
    places = [place for place, words in enumerate(cluster.witness()) if words[1] == long.id]
    assert places == list(range(places[0], places[0] + 2)), "nothing ran beside it"


async def test_a_far_away_worker_writes_more_than_is_allowed(url: str, tmp_path: Path) -> None:
    cluster = FarCluster(tmp_path, url)
    try:
        await cluster.start_server()
        await bound(cluster, "output=1KB")
        await cluster.start("far")
        job = await cluster.app.submit_command(["sh", "-c", "echo begin; sleep 0.3; head -c 5000 /dev/zero; exit 3"])
        info = await job.wait(LONG)
        assert info.error is not None
        assert info.error.message.startswith("exit code 3"), "the job went on"
        said = b"".join([piece.body async for piece in job.output()]).decode()
        assert said.startswith("begin\n")
        assert "5,000 bytes (0 lines) of output are left out here: the quota of user" in said
    finally:
        await cluster.close()
