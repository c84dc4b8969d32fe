"""What an app has open in a process: one client for all callers, one bridge, and both closed in either face."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import pytest

import rota
from rota import opening
from rota.clients.jobs import JobsClient
from rota.connections import AppConnections
from rota.errors import InvalidInput, StoreUnavailable

LONG = 20.0


class Counted:
    """Makes clients of an app's store, and counts them."""

    def __init__(self, folder: Path) -> None:
        self.app = rota.App(f"sqlite:///{folder / 'rota.db'}")
        self.made: list[JobsClient] = []

    async def __call__(self) -> JobsClient:
        await asyncio.sleep(0)  # others get their turn meanwhile
        store = self.app._core.make_store()
        await opening.open_or_create(store)
        self.made.append(JobsClient(store, self.app._core.who, self.app._core.chance))
        return self.made[-1]


@pytest.fixture
def counted(tmp_path: Path) -> Counted:
    return Counted(tmp_path)


async def test_many_callers_at_once_open_one_store(counted: Counted) -> None:
    opened = AppConnections()
    clients = await asyncio.gather(*(opened.open(counted) for _ in range(20)))
    assert set(clients) == set(counted.made)
    assert len(counted.made) == 1
    await opened.close_async()


async def test_of_two_loops_the_quicker_one_counts_and_the_other_store_is_closed(counted: Counted) -> None:
    opened = AppConnections()
    first, second = await counted(), await counted()
    await opened._adopt(first)
    await opened._adopt(second)
    assert opened.client is first
    with pytest.raises(StoreUnavailable):
        await second.store.get(second.who, "x")
    await opened.close_async()


async def test_it_can_be_opened_again_after_it_was_closed(counted: Counted) -> None:
    opened = AppConnections()
    first = await opened.open(counted)
    await opened.close_async()
    await opened.close_async()
    assert opened.client is None
    assert await opened.open(counted) is not first
    await opened.close_async()


async def test_the_sync_face_is_not_for_code_on_a_loop(counted: Counted) -> None:
    opened = AppConnections()
    with pytest.raises(InvalidInput, match="with await"):
        opened.run(opened.open(counted))
    assert not counted.made


def test_both_faces_share_a_client_and_either_closes_it(counted: Counted) -> None:
    opened = AppConnections()
    client = opened.run(opened.open(counted))

    async def same() -> bool:
        return await opened.open(counted) is client

    assert asyncio.run(same())
    opened.close()
    assert (opened.client, opened.take_bridge()) == (None, None)
    opened.close()


def test_an_app_that_nobody_has_any_more_lets_go_of_its_store(tmp_path: Path) -> None:
    app = rota.App(f"sqlite:///{tmp_path / 'rota.db'}")
    opened = app._core._opened
    app.sync(app._core.client())
    gone = weakref.ref(app)
    del app
    gc.collect()
    assert gone() is None
    end = time.monotonic() + LONG
    while opened.client is not None and time.monotonic() < end:
        time.sleep(0.005)
    assert (opened.client, opened.take_bridge()) == (None, None)


def test_threads_that_begin_at_once_share_one_bridge(counted: Counted) -> None:
    opened = AppConnections()
    clients: list[Any] = []
    threads = [threading.Thread(target=lambda: clients.append(opened.run(opened.open(counted)))) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    assert len(clients) == 10
    assert len(set(clients)) == 1
    opened.close()
