"""Nodes that are killed while a job writes: what it had written is there, in order, once, or a mark stands for it."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

import rota
from rota.model.lifecycle import State
from tests.node.cluster import Cluster
from tests.node.far_cluster import SERVER, FarCluster
from tests.servers.postgres import Server, wait_for

pytestmark = pytest.mark.slow

# Writes numbered lines, and after each write notes outside of rota how many they are. Its second attempt only ends.
PROGRAM = """
import os, sys, time
lines, pause = int(sys.argv[1]), float(sys.argv[2])
if os.path.exists("killed"):
    sys.exit()
note, number = os.open("note", os.O_RDWR | os.O_CREAT), 0
while True:
    os.write(1, b"".join(b"line %d\\n" % n for n in range(number, number + lines)))
    number += lines
    os.pwrite(note, b"%20d" % number, 0)
    time.sleep(pause)
"""
STREAMS = ("stdout", "stderr")
PACES = {"lines": (1, 0.001, 200), "floods": (100, 0.0, 300_000), "beyond the limit": (100, 0.0, 300_001)}


class Noted:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "program.py").write_text(PROGRAM)

    @property
    def lines(self) -> int:
        path = self.folder / "note"
        return int(path.read_text()) if path.exists() and path.read_text() else 0

    async def at_least(self, count: int) -> None:
        await asyncio.to_thread(wait_for, lambda: self.lines >= count)

    def command(self, pace: str) -> list[str]:
        lines, pause, _ = PACES[pace]
        return [sys.executable, str(self.folder / "program.py"), str(lines), str(pause)]


async def submit(cluster: Cluster, command: list[str]) -> rota.Job[Any]:
    return await cluster.app.submit_command(command, cwd=str(cluster.folder))


async def kill(cluster: Cluster, name: str, noted: Noted) -> None:
    cluster.signal(name, signal.SIGKILL)
    await cluster.ended(name)
    (noted.folder / "killed").touch()
    await asyncio.to_thread(wait_for, lambda: not cluster.leftovers() or _only_of_the_living(cluster))


def _only_of_the_living(cluster: Cluster) -> bool:
    """The dead node's keeper and command are gone: nothing is written any more."""
    return not any("program.py" in line for line in cluster.leftovers())


async def recovered(cluster: Cluster, job: rota.Job[Any], noted: Noted) -> None:
    """Waits until the last noted line is there, and looks at all of them."""
    last = b"line %d\n" % (noted.lines - 1)

    async def body() -> bytes:
        return b"".join([chunk.body async for chunk in job.output()])

    async def there() -> bool:
        return last in await body() and (await job.info()).state is State.SUCCEEDED

    await cluster.until(there, f"{last!r} to be there")
    check(await body(), noted.lines)


def check(body: bytes, count: int) -> None:
    """Every line once, in order; at most one mark, between two parts; perhaps a write that was not noted any more."""
    mark = re.search(rb"\n\[rota: ([\d,]+) bytes[^\n]*\]\n", body)
    if mark is None:
        numbers = [int(number) for number in re.findall(rb"^line (\d+)$", body, re.MULTILINE)]
        assert numbers == list(range(len(numbers)))
        assert count <= len(numbers)
        return
    first, last = body[: mark.start()], body[mark.end() :]
    whole = b"".join(b"line %d\n" % number for number in range(count + 200))
    size = len(first) + len(last) + int(mark[1].replace(b",", b""))
    assert len(b"".join(b"line %d\n" % n for n in range(count))) <= size
    assert whole.startswith(first)
    assert whole[:size].endswith(last)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    cluster = Cluster(tmp_path)
    try:
        yield cluster
    finally:
        await cluster.close()


@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("heir", ["restarts", "lives"])
async def test_a_node_is_killed(cluster: Cluster, pace: str, heir: str) -> None:
    noted = Noted(cluster.folder)
    if pace == "beyond the limit":
        cluster.settings = {"ROTA_MAX_OUTPUT": "1MiB"}
    await cluster.start("one")
    job = await submit(cluster, noted.command(pace))
    await noted.at_least(1)
    if heir == "lives":
        await cluster.start("two")
    await noted.at_least(PACES[pace][2])
    await kill(cluster, "one", noted)
    if heir == "restarts":
        await cluster.start("one")
    await recovered(cluster, job, noted)
    await asyncio.to_thread(wait_for, lambda: len(list((cluster.folder / "rota.db-rota/spool").iterdir())) == 1)


LAST_WORDS = """
import os, time
if not os.path.exists("killed"):
    open("ready", "w")
    while not os.path.exists("go"):
        time.sleep(0.01)
    os.write(1, b"last ")
    os.write(2, b"words")
    open("said", "w")
"""


async def test_a_node_is_killed_when_its_command_has_just_ended(cluster: Cluster) -> None:
    """What the command wrote lies in its pipes, and all of the command is gone."""
    noted = Noted(cluster.folder)
    (cluster.folder / "program.py").write_text(LAST_WORDS)
    await cluster.start("one")
    job = await submit(cluster, [sys.executable, str(cluster.folder / "program.py")])
    await asyncio.to_thread(wait_for, (cluster.folder / "ready").exists)
    cluster.signal("one", signal.SIGSTOP)  # so that it does not read them in time
    (cluster.folder / "go").touch()
    await asyncio.to_thread(wait_for, (cluster.folder / "said").exists)
    await asyncio.to_thread(wait_for, lambda: _only_of_the_living(cluster))
    await kill(cluster, "one", noted)
    await cluster.start("two")

    async def there() -> bool:
        chunks = [chunk async for chunk in job.output()]
        bodies = {stream: b"".join(one.body for one in chunks if one.stream == stream) for stream in STREAMS}
        return bodies == {"stdout": b"last ", "stderr": b"words"} and (await job.info()).state is State.SUCCEEDED

    await cluster.until(there, "its last words to be there")


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("spools")
    for each in (folder, *folder.parents[:2]):
        each.chmod(0o755)  # the server may run as another user
    server = Server.create(folder / "data", durable=True)
    server.start()
    yield server
    server.resume()
    server.stop("immediate")


@pytest.mark.parametrize("pace", ["lines", "floods"])
@pytest.mark.parametrize("away", ["paused", "restarted"])
async def test_the_database_is_away_when_it_happens(postgres: Server, tmp_path: Path, pace: str, away: str) -> None:
    name = re.sub(r"\W", "_", f"{pace}_{away}")
    postgres.execute(f'CREATE DATABASE "{name}"')
    cluster = Cluster(tmp_path)
    cluster.store_url = postgres.url(name)
    cluster.app.configure(store=cluster.store_url)
    cluster.settings = {"ROTA_SPOOL": str(tmp_path / "spools")}
    noted = Noted(tmp_path)
    try:
        await cluster.start("one")
        job = await submit(cluster, noted.command(pace))
        await noted.at_least(1)
        if away == "paused":
            postgres.pause()
        else:
            postgres.stop("immediate")
        await noted.at_least(PACES[pace][2])
        await kill(cluster, "one", noted)
        if away == "paused":
            postgres.resume()
        else:
            postgres.start()
        await cluster.start("two")
        await recovered(cluster, job, noted)
    finally:
        await cluster.close()


async def test_a_far_away_worker_is_killed(tmp_path: Path) -> None:
    cluster = FarCluster(tmp_path)
    noted = Noted(tmp_path)
    cluster.settings = {"ROTA_SPOOL": str(tmp_path / "spools")}
    try:
        await cluster.start_server()
        await cluster.start("far")
        job = await submit(cluster, noted.command("floods"))
        await noted.at_least(PACES["floods"][2])
        await kill(cluster, "far", noted)
        await cluster.start("far")
        await recovered(cluster, job, noted)
        assert SERVER in cluster.processes
    finally:
        await cluster.close()
