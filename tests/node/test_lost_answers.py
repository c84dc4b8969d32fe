"""API servers that are killed (-9) between the commit of a write and its answer: a repeat through another server of the
store gets the answer, and the write has one effect."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import rota
from rota.clients.people import PeopleClient
from rota.clock import Chance
from rota.model.access import Role
from rota.model.access_keys import NewKey, key_hash, key_id, key_text
from rota.model.principal import SYSTEM
from rota.model.quotas import NO_QUOTAS
from rota.store.people import AuditFilter
from tests.node.cluster import Cluster
from tests.servers.ports import free_port
from tests.servers.proxy import Proxy
from tests.store.postgres.backends import migrated_database

ROOT = Path(__file__).parents[2]
DYING, STAYING = "dying", "staying"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "sqlite":
        yield ""
        return
    with migrated_database() as url:
        yield url


class Pair(Cluster):
    """Two servers of one store, behind a proxy that leads to the first until it is dead."""

    def __init__(self, folder: Path, url: str) -> None:
        super().__init__(folder)
        if url:
            self.store_url = url
            self.app.configure(store=url)
        self.ports = {DYING: free_port(), STAYING: free_port()}
        self.proxy = Proxy("127.0.0.1", self.ports[DYING])
        self.key = ""

    async def serve(self, name: str, die_at: str = "") -> None:
        command = [sys.executable, "-m", "tests.node.dying_server", "up", "--roles", "api", "--node", name]
        environment = {**os.environ, "ROTA_STORE": self.store_url, "DIE_AT": die_at, "PYTHONPATH": str(ROOT)}
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [*command, "--port", str(self.ports[name]), "--node", name],
                cwd=self.folder,
                env=environment,
                stderr=log,
            )
        await self.until(lambda: self._is_up(name), f"{name} to come up")

    async def add_key(self) -> None:
        number = secrets.token_hex(6)
        self.key = key_text(number, secrets.token_bytes(32))
        store, who = (await self.app._core.client()).store, self.app._core.who
        await store.put_user(who, who.user, NO_QUOTAS, new=True)
        await store.add_key(who, NewKey(id=number, hash=key_hash(self.key), user=who.user, role=Role.ADMIN))

    async def killed(self) -> None:
        """Once the first server is dead, the proxy leads to the second."""
        assert await self.ended(DYING) == -signal.SIGKILL
        self.proxy.target = "127.0.0.1", self.ports[STAYING]
        self.proxy.kill_connections()

    async def audit(self, deed: str) -> list[Any]:
        store = (await self.app._core.client()).store
        return await store.audit(SYSTEM, AuditFilter(deed=deed, limit=100))


@pytest.fixture
async def pair(url: str, tmp_path: Path) -> AsyncIterator[Pair]:
    pair = Pair(tmp_path, url)
    try:
        await pair.serve(STAYING)
        await pair.add_key()
        async with pair.proxy:
            yield pair
    finally:
        await pair.close()


async def cancelled_job(pair: Pair) -> str:
    job = await pair.app.submit_command(["true"], queue="nobody")
    await job.cancel()
    return job.id


async def waiting_job(pair: Pair) -> str:
    return (await pair.app.submit_command(["true"], queue="nobody")).id


async def schedule(pair: Pair) -> str:
    await pair.app.schedule("nightly", ["true"], cron="0 3 * * *", queue="nobody")
    return "nightly"


async def own_key(pair: Pair) -> str:
    return key_id(pair.key)


async def retry(app: rota.App, name: str) -> None:
    assert await (await app.job(name)).retry()


async def cancel(app: rota.App, name: str) -> None:
    assert await (await app.job(name)).cancel() == "cancelled"


async def fire(app: rota.App, name: str) -> None:
    job = await rota.Schedule(app, name).fire()
    assert job is not None
    assert (await job.info()).schedule == name


async def rotate(app: rota.App, name: str) -> None:
    client = await app._core.client()
    made = await PeopleClient(client.store, client.who, Chance()).rotate_key(name)
    assert made.key.replaces == name


Deed = tuple[str, Callable[[Pair], Awaitable[str]], Callable[[rota.App, str], Awaitable[None]], str]
# The verb of the store; what it is about; the call of the SDK; the route for people.
DEEDS: list[Deed] = [
    ("replay", cancelled_job, retry, "jobs/{}/retry"),
    ("cancel", waiting_job, cancel, "jobs/{}/cancel"),
    ("make_fires", schedule, fire, "schedules/{}/fire"),
    ("rotate_key", own_key, rotate, "keys/{}/rotate"),
]


@pytest.mark.sampled
@pytest.mark.parametrize("deed", DEEDS, ids=lambda deed: deed[0])
async def test_the_client_repeats_by_itself(pair: Pair, deed: Deed) -> None:
    verb, prepare, act, _ = deed
    await pair.serve(DYING, f"call_{verb}")
    name = await prepare(pair)
    before = len(await pair.audit(verb))
    dying = asyncio.create_task(pair.killed())
    app = rota.App(server=f"http://127.0.0.1:{pair.proxy.port}", key=pair.key)
    try:
        await act(app, name)
    finally:
        await app.close()
    await dying
    assert len(await pair.audit(verb)) == before + 1


NAMES = {"replay": "retry_job", "cancel": "cancel_job", "make_fires": "fire_schedule", "rotate_key": "rotate_key"}


@pytest.mark.sampled
@pytest.mark.parametrize("deed", DEEDS, ids=lambda deed: deed[0])
async def test_people_repeat_with_the_same_key(pair: Pair, deed: Deed) -> None:
    verb, prepare, _, path = deed
    await pair.serve(DYING, NAMES[verb])
    name = await prepare(pair)
    before = len(await pair.audit(verb))
    body = b"{}" if verb == "rotate_key" else b""
    assert await ask(pair, DYING, path.format(name), body) == b""
    await pair.killed()
    assert len(await pair.audit(verb)) == before + 1, "it was carried out"
    first, again = [await ask(pair, STAYING, path.format(name), body) for _ in range(2)]
    assert first.startswith(b"HTTP/1.1 20"), first
    assert shown(first) == shown(again)
    assert len(await pair.audit(verb)) == before + 1


def shown(answer: bytes) -> Any:
    return msgspec.json.decode(answer.partition(b"\r\n\r\n")[2])


async def ask(pair: Pair, server: str, path: str, body: bytes) -> bytes:
    """The whole answer; nothing if the server dies before."""
    reader, writer = await asyncio.open_connection("127.0.0.1", pair.ports[server])
    head = (
        f"POST /api/v1/{path} HTTP/1.1\r\nHost: localhost:{pair.ports[server]}\r\nAuthorization: Bearer {pair.key}\r\n"
        f"Idempotency-Key: lost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    try:
        writer.write(head.encode() + body)
        async with asyncio.timeout(30):
            return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()
