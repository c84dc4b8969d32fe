"""The bridge from ordinary code into a loop of its own."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref

import pytest

from rota.errors import StoreUnavailable
from rota.sync_bridge import SyncBridge

LONG = 20.0


def test_a_coroutine_runs_to_its_end_on_the_thread_of_the_bridge() -> None:
    bridge = SyncBridge()

    async def work() -> tuple[int, bool]:
        await asyncio.sleep(0)
        return 3, bridge.here

    assert bridge.run(work()) == (3, True)
    assert not bridge.here
    bridge.close()


def test_an_error_is_raised_where_it_was_asked() -> None:
    bridge = SyncBridge()

    async def fail() -> None:
        raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        bridge.run(fail())
    bridge.close()


def test_many_threads_share_one_loop() -> None:
    bridge, loops = SyncBridge(), set()

    async def work() -> None:
        loops.add(asyncio.get_running_loop())

    threads = [threading.Thread(target=lambda: bridge.run(work())) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    assert len(loops) == 1
    bridge.close()


def test_who_still_waits_when_it_is_closed_hears_of_it() -> None:
    bridge, begun, ended = SyncBridge(), threading.Event(), threading.Event()
    cleaned: list[bool] = []

    async def hang() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(True)

    def wait() -> None:
        with pytest.raises(BaseException):  # noqa: B017, PT011 - it was cancelled, in whatever words
            bridge.run(hang())
        ended.set()

    thread = threading.Thread(target=wait)
    thread.start()
    assert begun.wait(LONG)
    bridge.close()
    assert ended.wait(LONG)
    thread.join(LONG)
    assert cleaned == [True]


def test_what_comes_after_the_end_is_refused_and_never_begun() -> None:
    bridge = SyncBridge()
    bridge.close()
    bridge.close()

    async def work() -> None:
        raise AssertionError

    with pytest.raises(StoreUnavailable, match="closed"):
        bridge.run(work())


def test_it_may_be_closed_on_its_own_loop() -> None:
    bridge = SyncBridge()

    async def close() -> str:
        bridge.close()
        return "returned"

    assert bridge.run(close()) == "returned"
    assert bridge._ended.wait(LONG)


def test_its_thread_does_not_keep_it() -> None:
    bridge = SyncBridge()
    thread, gone = bridge._thread, weakref.ref(bridge)
    loop = bridge._loop
    del bridge
    gc.collect()
    assert gone() is None
    loop.call_soon_threadsafe(loop.stop)
    thread.join(LONG)
    assert not thread.is_alive()
