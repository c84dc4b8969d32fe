"""Whole nodes on PostgreSQL: they run things, outlive the loss of sessions and servers, and take each other's work."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import stat
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import rota
from rota.clock import ManualClock
from rota.errors import StoreError
from rota.lease import Lease
from rota.model.job import Kind
from rota.model.lifecycle import State
from rota.model.outcome import Ending
from rota.model.principal import SYSTEM
from rota.model.times import SECOND
from rota.node import Node
from rota.store.postgres import PostgresStore
from rota.store.postgres.session import GRACE
from rota.telemetry.events import LeaseLost
from rota.work import worker
from rota.work.heartbeat import LeaseGuard
from rota.work.keeper.client import KeeperClient
from tests.node.cluster import Cluster
from tests.node.running import LONG, Probe, running
from tests.servers.postgres import Mode, Server, database
from tests.store.postgres.backends import migrated_database
from tests.store.postgres.ranking import Place, until, until_so

pytestmark = pytest.mark.slow


@pytest.fixture
def url() -> Iterator[str]:
    with migrated_database() as url:
        yield url


@pytest.fixture
async def cluster(tmp_path: Path, url: str) -> AsyncIterator[Cluster]:
    """Nodes in processes of their own, on PostgreSQL."""
    cluster = on_postgres(tmp_path, url)
    yield cluster
    await cluster.close()


def on_postgres(folder: Path, url: str) -> Cluster:
    cluster = Cluster(folder)
    cluster.store_url = url
    cluster.app.configure(store=url)
    return cluster


@pytest.fixture(scope="module")
def created(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that may be restarted."""
    folder = tmp_path_factory.mktemp("postgres")
    server = Server.create(folder / "data", synchronous_commit=True)
    server.start()
    yield server
    server.stop("immediate")
    shutil.rmtree(folder)


class Slow:
    """An app with a task that says when it has begun and ends when it is told to."""

    def __init__(self, url: str) -> None:
        self.app = rota.App(url, kill_grace="500ms")
        self.begun, self.end = threading.Event(), threading.Event()
        self.runs: list[int] = []

        @self.app.task
        async def slow(ctx: rota.Context) -> str:
            self.runs.append(ctx.fence)
            self.begun.set()
            await asyncio.to_thread(self.end.wait, LONG)
            return "done"

        self.task = slow

    async def start(self) -> rota.Job[Any]:
        job = await self.task.submit()
        assert await asyncio.to_thread(self.begun.wait, LONG)
        return job

    async def finish(self, job: rota.Job[Any], probe: Probe) -> None:
        """It has run once, from its beginning to its end, and nobody was disturbed."""
        self.end.set()
        info = await job.wait(LONG)
        assert (info.state, info.result) == (State.SUCCEEDED, "done")
        assert [attempt.outcome for attempt in info.attempts] == [Ending.SUCCEEDED]
        assert self.runs == [1]
        assert not [event for event in probe.seen if isinstance(event, LeaseLost)]


async def incarnation(app: rota.App) -> str:
    (node,) = await (await app._core.client()).store.nodes(app._core.who)
    return node.incarnation


async def renewed(app: rota.App, node: Node, times: int = 1) -> None:
    """Waits for renewals that begin from now on."""
    store = (await app._core.client()).store

    async def beats() -> int:
        return next((one.beats for one in await store.nodes(app._core.who) if one.id == node.id), 0)

    before = await beats()

    async def more() -> bool:
        return await beats() >= before + times

    await until_so(more)


async def test_functions_and_commands(url: str) -> None:
    app = rota.App(url, kill_grace="500ms")

    @app.task
    async def double(number: int) -> int:
        print("doubling")
        return 2 * number

    @app.task
    def shout(text: str) -> str:
        return text.upper()

    async with running(app):
        jobs = await double.submit_many([{"number": number} for number in range(60)])
        loud = await shout.submit(text="hello")

        command = await app.submit_command(["sh", "-c", "echo said; exit 3"], retry=0)
        assert [await job.result(LONG) for job in jobs] == list(range(0, 120, 2))
        assert await loud.result(LONG) == "HELLO"
        assert await jobs[0].logs() == "doubling\n"
        info = await command.wait(LONG)
        assert (info.state, info.attempts[0].exit_code) == (State.FAILED, 3)
        assert await command.logs() == "said\n"


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a node may not get its session back within the grace: it would be killed, with this process."""
    for module in ("session", "nodes"):
        monkeypatch.setattr(f"rota.store.postgres.{module}.GRACE", 30 * SECOND)


@pytest.mark.usefixtures("patient")
async def test_a_lost_session_disturbs_nobody(url: str) -> None:
    slow, place = Slow(url), Place(url)
    async with running(slow.app) as (node, probe):
        job = await slow.start()
        me = await incarnation(slow.app)
        for _ in range(2):
            before = place.end_session(me)
            await place.held(me, apart_from=before)
            await renewed(slow.app, node)
        await slow.finish(job, probe)


@pytest.mark.usefixtures("patient")
async def test_the_keeper_holds_the_socket_of_the_session_that_took_the_place_of_a_lost_one(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And holds it before the row of the node says that others may go by that lock."""
    seen: list[tuple[str | None, list[int]]] = []  # the lock that a renewal tells of, and what the keeper holds then
    app, keepers = rota.App(url, kill_grace="500ms"), list[KeeperClient]()
    renew, start = PostgresStore._renew, KeeperClient.start

    async def started(self: KeeperClient) -> None:
        keepers.append(self)
        await start(self)

    async def renewing(self: PostgresStore, me: str, stopping: bool, server: str | None, line: str | None) -> object:
        seen.append((server, inodes(keepers[-1]._guards)))
        return await renew(self, me, stopping, server, line)

    def inodes(descriptors: Sequence[int]) -> list[int]:
        """Of sockets: the keeper holds the lock of the spool too."""
        return [os.fstat(one).st_ino for one in descriptors if stat.S_ISSOCK(os.fstat(one).st_mode)]

    monkeypatch.setattr(KeeperClient, "start", started)
    monkeypatch.setattr(PostgresStore, "_renew", renewing)
    async with running(app) as (node, _):
        me, place, store = await incarnation(app), Place(url), node.store
        await renewed(app, node)
        before = inodes(store.guards(me))
        assert seen[-1][1] == before
        await place.held(me, apart_from=place.end_session(me))
        await renewed(app, node, times=2)
        after = inodes(store.guards(me))
        assert seen[-1][1] == after != before
    assert {tuple(held) for server, held in seen if server is not None} == {tuple(before), tuple(after)}


@pytest.mark.usefixtures("patient")
async def test_all_connections_lost_at_once_disturb_nobody(url: str) -> None:
    slow, place = Slow(url), Place(url)
    async with running(slow.app) as (node, probe):
        job = await slow.start()
        me = await incarnation(slow.app)
        before = place.holder(me)
        place.value(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE application_name = 'rota' AND datname = current_database()"
        )
        await place.held(me, apart_from=before)
        await slow.finish(job, probe)
        assert [one.id for one in await (await slow.app._core.client()).store.nodes(slow.app._core.who)] == [node.id]


async def test_renewals_go_on_while_a_lost_job_cannot_be_given_back(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer to a claim was lost, and somebody holds the row of that job."""
    monkeypatch.setattr(worker, "LOST_AFTER", 0.1)
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    slow, place = Slow(url), Place(url)
    async with running(slow.app) as (node, probe):
        job = await slow.start()
        client, me = await slow.app._core.client(), await incarnation(slow.app)
        lost = await slow.app.submit_command(["true"], queue="other")
        await client.store.claim(SYSTEM, me, {"other": 1}, list(Kind), {"other": 1})
        with place.connect() as db, db.transaction():
            db.execute("SELECT FROM jobs WHERE id = %s FOR UPDATE", [lost.id])
            await until(lambda: place.value(waiting))
            await renewed(slow.app, node, times=3)

        async def given_back() -> bool:
            return (await lost.info()).state is State.READY

        await until_so(given_back)
        await slow.finish(job, probe)


# In processes of their own: a node that is wrongly taken for lost is killed by its keeper, and this process with it.
@pytest.mark.parametrize(("mode", "away"), [("fast", 0.0), ("immediate", 0.0), ("immediate", 2.5)])
async def test_a_node_outlives_a_restart_of_the_server(
    created: Server, tmp_path: Path, mode: Mode, away: float
) -> None:
    """Of ten seconds of lease it may be away for a part; a lost session alone would count after 1.7."""
    with database(created) as url:
        cluster = on_postgres(tmp_path, url)
        try:
            await cluster.start("anna", "--roles", "worker")
            job = await cluster.work.submit(seconds=away + 2)
            await cluster.witnessed(job, "start")
            (before,) = await cluster.nodes()
            await asyncio.to_thread(created.stop, mode)
            await asyncio.sleep(away)
            await asyncio.to_thread(created.start)
            await Place(url).held(before.incarnation)
            await cluster.witnessed(job, "end")

            async def ended() -> bool:
                try:
                    return (await job.info()).finished_at is not None
                except StoreError:
                    return False

            await cluster.until(ended, "the job to end")
            info = await job.info()
            assert (info.state, info.result) == (State.SUCCEEDED, 1)
            assert [attempt.outcome for attempt in info.attempts] == [Ending.SUCCEEDED]
            (after,) = await cluster.nodes()
            assert after.incarnation == before.incarnation
            assert (await (await cluster.work.submit(seconds=0.0)).wait(LONG)).state is State.SUCCEEDED
        finally:
            await cluster.close()


async def test_the_keeper_hears_it_when_a_node_is_exposed_no_more(clock: ManualClock) -> None:
    """A session was lost because the server goes down: the moment that shows, the whole lease counts again."""
    exposed: list[int | None] = [None]
    deadlines: list[float] = []
    lost: list[str] = []
    lease = Lease(clock, 10.0, lambda: exposed[0])
    guard = LeaseGuard(lease, deadlines.append, lost.append)
    lease.renewed(clock.monotonic())
    whole = lease.deadline
    clock.advance(1)
    await guard.tick()
    exposed[0] = GRACE
    await guard.tick()
    assert deadlines[-1] == lease.deadline < whole
    exposed[0] = None
    await guard.tick()
    assert deadlines[-1] == whole
    clock.advance(2)
    await guard.tick()
    assert not lost


async def test_the_job_of_a_killed_node_starts_elsewhere_long_before_its_lease_is_over(cluster: Cluster) -> None:
    """By silence alone it would take five minutes, and nobody here waits that long."""
    cluster.settings["ROTA_LEASE"] = "5m"
    await cluster.start("anna")
    await cluster.start("bert")
    job = await cluster.work.submit(seconds=0.5)
    command = await cluster.app.submit_command(["sleep", "0.5"])
    holder = await cluster.holder(job)
    await cluster.holder(command)
    await cluster.witnessed(job, "start")
    cluster.signal(holder, signal.SIGKILL)
    info = await job.wait(LONG)
    await command.wait(LONG)
    first, second = info.attempts
    assert (first.outcome, first.node) == (Ending.CRASHED, holder)
    assert (second.outcome, second.node) == (Ending.SUCCEEDED, {"anna": "bert", "bert": "anna"}[holder])
    assert (info.crashes, info.failures, info.result) == (1, 0, 2)
    ends = [words[2] for words in cluster.witness() if words[1] == job.id and words[4] == "end"]
    assert ends == ["2"]


async def test_roles_can_be_split(cluster: Cluster) -> None:
    await cluster.start("cora", "--roles", "control")
    await cluster.start("wim", "--roles", "worker")
    job = await cluster.work.submit(seconds=0.0)
    info = await job.wait(LONG)
    assert (info.state, info.attempts[0].node) == (State.SUCCEEDED, "wim")
    delayed = await cluster.app.submit_command(["true"], delay="200ms")
    assert (await delayed.wait(LONG)).state is State.SUCCEEDED, "one has promoted it and the other has run it"

    async def leads() -> bool:
        return [node.id for node in await cluster.nodes() if node.leader] == ["cora"]

    await cluster.until(leads, "cora to lead")
    seen = {node.id: (node.roles, bool(node.queues)) for node in await cluster.nodes()}
    assert seen == {"cora": (("control",), False), "wim": (("worker",), True)}
    # Whoever has the role control buries the dead; there is no worker left to run what it puts back.
    stays = await cluster.work.submit(seconds=LONG)
    await cluster.witnessed(stays, "start")
    cluster.signal("wim", signal.SIGKILL)

    async def put_back() -> bool:
        return (await stays.info()).state is State.READY

    await cluster.until(put_back, "the job to be put back")
    assert [node.id for node in await cluster.nodes()] == ["cora"]
