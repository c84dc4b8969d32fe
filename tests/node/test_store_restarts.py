"""PostgreSQL restarts while an API is busy: what its callers are told meanwhile, and what is there afterwards."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from rota.model.access import Role
from tests.node.far_cluster import SERVER, FarCluster
from tests.node.http_load import Answer, Caller, HttpLoad
from tests.node.running import LONG
from tests.servers.postgres import Mode, Server

pytestmark = pytest.mark.slow

BACK = 3.0  # seconds after PostgreSQL answers again within which everything works
AWAY = 1.5  # seconds
SLACK = 0.2


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Durable: what was acknowledged survives an immediate stop."""
    folder = tmp_path_factory.mktemp("restarts")
    for each in (folder, *folder.parents[:2]):
        each.chmod(0o755)  # the server may run as another user
    server = Server.create(folder / "data", durable=True)
    server.start()
    yield server
    server.stop("immediate")


@pytest.fixture
async def cluster(postgres: Server, tmp_path: Path) -> AsyncIterator[FarCluster]:
    name = f"test_{tmp_path.name[-8:].strip('_')}".lower()
    postgres.execute(f'CREATE DATABASE "{name}"')
    cluster = FarCluster(tmp_path, postgres.url(name))
    try:
        await cluster.start_server()
        await cluster.start("far", "--slots", "4")
        yield cluster
    finally:
        await cluster.close()


@pytest.fixture
async def load(cluster: FarCluster) -> AsyncIterator[HttpLoad]:
    caller = Caller(cluster.port, await cluster.new_key(role=Role.ADMIN, user="local"))
    first = await cluster.work.submit(0)
    load = HttpLoad(caller, first.id)
    load.start()
    yield load
    await load.stop()


async def busy(load: HttpLoad, count: int) -> None:
    """Back when each kind of call was answered well so many times more, and the stream has gone on."""
    before = {kind: len(answers) for kind, answers in load.answers.items()}
    told = len(load.told)
    async with asyncio.timeout(LONG):
        while len(load.told) < told + count or any(
            sum(one.ok for one in load.answers[kind][start:]) < count for kind, start in before.items()
        ):
            load.news.clear()
            await load.news.wait()


def fits(answer: Answer, away: list[tuple[float, float]]) -> bool:
    """A success, or 503 with a reason and a time to wait, and that only while PostgreSQL is away."""
    if answer.ok:
        return True
    said = answer.status == 503 and answer.body["code"] == "store_unavailable" and "retry-after" in answer.headers
    return said and any(began - SLACK <= answer.at <= back + BACK for began, back in away)


@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_a_restart_of_postgresql_is_a_pause_for_callers(
    cluster: FarCluster, load: HttpLoad, postgres: Server, mode: Mode
) -> None:
    away: list[tuple[float, float]] = []
    for pause in (0.0, AWAY):
        await busy(load, 10)
        began = time.monotonic()
        await asyncio.to_thread(postgres.stop, mode)
        await asyncio.sleep(pause)
        await asyncio.to_thread(postgres.start)
        away.append((began, time.monotonic()))
    await busy(load, 10)
    await load.stop()
    for kind, answers in load.answers.items():
        odd = [answer for answer in answers if not fits(answer, away)]
        assert odd == [], f"{kind}: {odd[:3]}"
        assert any(not answer.ok for answer in answers), f"{kind}: it was not away for long enough"
        for _, back in away:
            first = min(answer.at for answer in answers if answer.ok and answer.asked > back - SLACK)
            assert first - back <= BACK, kind
    assert "incident" not in cluster.log(SERVER)
    await everything_is_there(cluster, load)


async def everything_is_there(cluster: FarCluster, load: HttpLoad) -> None:
    caller, accepted = load.caller, [one.body["id"] for one in load.answers["submit"] if one.ok]
    for job in accepted:
        assert (await (await cluster.app.job(job)).wait(LONG)).state == "succeeded"
    assert set(load.streams) <= {200, 503}, "of streams that have ended"
    kept: list[str] = []
    last = "0"
    while found := (page := await caller.ask("GET", f"/events?format=json&kind=job.*&after={last}")).body["items"]:
        kept += [event["id"] for event in found]
        last = page.body["next"]
    assert load.told == kept[: len(load.told)], "no gap, no repeat, in order"
    assert len(load.told) > 20
