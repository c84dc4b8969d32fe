"""Tails of jobs that run on real nodes: in the program that has the node, and in others."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import rota
from rota.clients.line_tail import LineTail
from rota.errors import InvalidQuery
from tests.node.cluster import Cluster
from tests.node.running import LONG, make_app, running
from tests.servers.postgres import Server

SCRIPT = "for i in $(seq 0 {last}); do echo line $i; sleep 0.1; done; printf 'no end'"


class Collected:
    """What a tail in this process has told."""

    def __init__(self) -> None:
        self.lines: list[rota.FoundLine] = []
        self._more = asyncio.Event()
        self.begun = asyncio.Event()

    async def collect(self, app: rota.App) -> None:
        client = await app._core.client()
        tail = LineTail(client.store, client.who)
        async for told in tail.placed():
            self.lines += [line for line, _ in told]
            self.begun.set()
            self._more.set()

    async def until_all(self, expected: dict[int, list[str]], job: str) -> None:
        """The lines of each attempt of the job are these, in their order. (It may have run twice: its node was without
        a store for a while.)"""
        async with asyncio.timeout(LONG):
            while True:
                told: dict[int, list[str]] = {}
                for line in self.lines:
                    if line.job_id == job:
                        told.setdefault(line.fence, []).append(line.text)
                if sum(map(len, told.values())) >= sum(map(len, expected.values())):
                    break
                self._more.clear()
                await self._more.wait()
        assert told == expected

    async def until(self, text: str) -> rota.FoundLine:
        async with asyncio.timeout(LONG):
            while True:
                for line in self.lines:
                    if line.text == text:
                        return line
                self._more.clear()
                await self._more.wait()


async def test_async_and_ordinary_code_follow_a_node(tmp_path: Path) -> None:
    app, other = make_app(tmp_path), make_app(tmp_path)
    async with running(app):
        found = list[str]()

        def follow() -> None:
            for line in other.logs.tail_sync("stream:stderr"):
                found.append(line.text)
                if len(found) == 2:
                    break
            other.close_sync()

        thread = threading.Thread(target=follow)
        thread.start()
        orders = asyncio.create_task(print_for_ever(app))
        try:
            async with asyncio.timeout(LONG):
                async for line in app.logs.tail("task:sh hello"):
                    assert (line.text, line.stream, line.attempt) == ("hello", "stdout", 1)
                    break
            await asyncio.to_thread(thread.join, LONG)
        finally:
            orders.cancel()
        assert found == ["oh", "oh"]
        with pytest.raises(InvalidQuery, match="character 1"):
            await anext(aiter(app.logs.tail("stat:x")))


async def print_for_ever(app: rota.App) -> None:
    """Until both tails, which begin at some moment, have found what they wait for."""
    while True:
        job = await app.submit_command(["sh", "-c", "echo hello; echo noise; echo oh >&2"])
        await job.wait(LONG)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that may be restarted."""
    folder = tmp_path_factory.mktemp("tailed")
    for each in (folder, *folder.parents[:2]):
        each.chmod(0o755)  # the server may run as another user
    server = Server.create(folder / "data", durable=True)
    server.start()
    yield server
    server.stop("immediate")


@pytest.mark.slow
async def test_a_tail_shows_what_another_process_runs_and_outlives_a_restart_of_the_store(
    tmp_path: Path, server: Server
) -> None:
    server.execute('CREATE DATABASE "tailed"')
    collected = Collected()
    cluster = Cluster(tmp_path)
    cluster.store_url = server.url("tailed")
    cluster.app.configure(store=cluster.store_url)
    try:
        await cluster.start("one")
        task = asyncio.create_task(collected.collect(cluster.app))
        await collected.begun.wait()
        first = await cluster.app.submit_command(["sh", "-c", "date +%s.%N"], retry=0)
        await first.wait(LONG)
        printed = await collected.until((await first.logs()).strip())
        assert time.time() - float(printed.text) < 3.0
        last = 60
        job = await cluster.app.submit_command(["sh", "-c", SCRIPT.format(last=last)], retry=0)
        await collected.until("line 10")
        await asyncio.to_thread(server.restart, "immediate")
        assert (await job.wait(LONG)).state == "succeeded"
        await collected.until("no end")
        kept = dict[int, bytes]()
        async for chunk in job.output():
            kept[chunk.fence] = kept.get(chunk.fence, b"") + chunk.body
        await collected.until_all({fence: body.decode().splitlines() for fence, body in kept.items()}, job.id)
        task.cancel()
    finally:
        await cluster.close()
