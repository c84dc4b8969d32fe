"""`app.lock` and `app.lock_sync`: held for a block, lost loudly."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import rota
from rota import testing
from rota.clients.held_lock import NOT_OURS, TOO_LATE
from rota.errors import InvalidInput, LockLost, LockTaken
from tests.clients.lock_waits import listening
from tests.store.postgres.backends import migrated_database

app = rota.App()
LONG = 20.0


@pytest.fixture
async def harness() -> AsyncIterator[testing.Harness]:
    async with testing.harness(app) as harness:
        yield harness


@pytest.fixture
def sync_harness() -> Iterator[testing.SyncHarness]:
    with testing.harness(app) as harness:
        yield harness


async def held() -> list[str]:
    return [one.name for one in await app.locks() if one.held]


async def free(name: str = "report") -> None:
    await (await app._core.locks()).free(name)


# -- async -----------------------------------------------------------------------------------------------------------
async def test_a_block_holds_it(harness: testing.Harness) -> None:
    async with app.lock("report") as lock:
        assert await held() == ["report"]
        assert (lock.name, lock.lost, repr(lock)) == ("report", False, "Lock('report')")
        lock.check()
        first = lock.fence
        with pytest.raises(LockTaken):
            await app.lock("report", wait="0s").__aenter__()
    assert await held() == []
    async with app.lock("report", "1h", 0) as lock:
        assert lock.fence > first


async def test_an_error_of_the_body_goes_on(harness: testing.Harness) -> None:
    with pytest.raises(ZeroDivisionError):
        async with app.lock("report"):
            raise ZeroDivisionError
    assert await held() == []


async def test_the_same_object_may_hold_it_again_but_not_twice_at_once(harness: testing.Harness) -> None:
    lock = app.lock("report")
    async with lock:
        with pytest.raises(InvalidInput, match="not held already"):
            await lock.__aenter__()
    async with lock:
        assert lock.fence


async def test_outside_of_its_block_it_has_no_fence(harness: testing.Harness) -> None:
    lock = app.lock("report")
    assert lock.lost is False
    for look in (lambda: lock.fence, lock.check):
        with pytest.raises(InvalidInput, match="inside its `with`"):
            look()


async def test_a_waiter_gets_it_when_it_is_released(harness: testing.Harness) -> None:
    order: list[str] = []

    async def second() -> None:
        async with app.lock("report"):
            order.append("second")

    async with asyncio.timeout(LONG), asyncio.TaskGroup() as group, app.lock("report"):
        group.create_task(second())
        await listening((await app._core.client()).store)
        order.append("first")
    assert order == ["first", "second"]


async def test_a_body_is_cancelled_when_the_lock_can_t_be_renewed(harness: testing.Harness) -> None:
    stopped = False

    async def work() -> None:
        nonlocal stopped
        async with asyncio.timeout(LONG), app.lock("report") as lock:
            harness.clock.advance(27)
            assert lock.lost
            with pytest.raises(LockLost):
                lock.check()
            try:
                await asyncio.Event().wait()
            finally:
                stopped = True

    with pytest.raises(LockLost, match=f"^lock 'report' is lost: {TOO_LATE}; another may hold it now$") as caught:
        await work()
    assert stopped
    assert caught.value.name == "report"
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await asyncio.sleep(0)  # nothing is left to be cancelled


async def test_a_body_is_cancelled_when_another_has_taken_the_lock(harness: testing.Harness) -> None:
    async def work() -> None:
        async with asyncio.timeout(LONG), app.lock("report", ttl="1s"):
            await free()
            async with app.lock("report"):
                await asyncio.Event().wait()

    with pytest.raises(LockLost, match=NOT_OURS):
        await work()
    assert await held() == []


async def test_a_body_that_ends_after_the_loss_is_told_too(harness: testing.Harness) -> None:
    with pytest.raises(LockLost):
        async with app.lock("report"):
            await free()


async def test_an_error_of_a_body_that_had_lost_the_lock_is_its_cause(harness: testing.Harness) -> None:
    async def work() -> None:
        async with app.lock("report"):
            harness.clock.advance(30)
            raise ZeroDivisionError

    with pytest.raises(LockLost) as caught:
        await work()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


async def test_an_error_of_a_body_that_held_the_lock_hides_a_loss_at_the_end(harness: testing.Harness) -> None:
    async def work() -> None:
        async with app.lock("report"):
            await free()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await work()


async def test_a_body_may_refuse_to_stop(harness: testing.Harness) -> None:
    async def work() -> None:
        async with asyncio.timeout(LONG), app.lock("report"):
            harness.clock.advance(30)
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                await asyncio.sleep(0)

    with pytest.raises(LockLost):
        await work()
    await asyncio.sleep(0)


async def test_a_cancellation_by_others_stays_one(harness: testing.Harness) -> None:
    begun = asyncio.Event()

    async def work(advance: float) -> None:
        async with app.lock("report"):
            harness.clock.advance(advance)
            begun.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work(0))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await held() == []


async def test_a_timeout_of_the_body_stays_one(harness: testing.Harness) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01), app.lock("report"):
            await asyncio.Event().wait()
    assert await held() == []


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"name": ""}, "lock"), ({"name": 7}, "lock"), ({"name": " x"}, "lock"),
        ({"ttl": "0s"}, "ttl"), ({"ttl": "2h"}, "ttl"), ({"ttl": None}, "ttl"), ({"ttl": -1}, "ttl"),
        ({"wait": -1}, "wait"), ({"wait": "soon"}, "wait"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("face", ["lock", "lock_sync"])
def test_wrong_input_is_refused_at_once(given: dict[str, Any], what: str, face: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{what}: .* is not valid; expected [^\n]+$"):
        getattr(app, face)(**{"name": "report", **given})


# -- sync ------------------------------------------------------------------------------------------------------------
def test_the_twin_holds_it_for_a_block(sync_harness: testing.SyncHarness) -> None:
    with app.lock_sync("report") as lock:
        assert [(one.name, one.held, one.fence) for one in app.locks_sync()] == [("report", True, lock.fence)]
        with pytest.raises(LockTaken), app.lock_sync("report", wait="0s"):
            pass
        lock.check()
    assert [one.held for one in app.locks_sync()] == [False]


def test_the_twin_raises_at_the_end_and_from_check(sync_harness: testing.SyncHarness) -> None:
    steps: list[bool] = []

    def work() -> None:
        with app.lock_sync("report") as lock:
            sync_harness.clock.advance(27)
            with pytest.raises(LockLost):
                lock.check()
            steps.append(lock.lost)

    with pytest.raises(LockLost, match=TOO_LATE):
        work()
    assert steps == [True]


def test_the_twin_tells_of_an_error_of_the_body_and_of_the_loss(sync_harness: testing.SyncHarness) -> None:
    with pytest.raises(ZeroDivisionError), app.lock_sync("report"):
        raise ZeroDivisionError

    def work() -> None:
        with app.lock_sync("report"):
            sync_harness.clock.advance(30)
            raise ZeroDivisionError

    with pytest.raises(LockLost) as caught:
        work()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_an_interrupt_just_after_it_was_got_gives_it_back(sync_harness: testing.SyncHarness) -> None:
    real, calls = app._core.sync, 0

    def interrupted(work: Coroutine[Any, Any, Any]) -> Any:
        nonlocal calls
        found, calls = real(work), calls + 1
        if calls == 1:
            raise KeyboardInterrupt
        return found

    with patch.object(app._core, "sync", interrupted), pytest.raises(KeyboardInterrupt):
        app.lock_sync("report").__enter__()
    assert [one.held for one in app.locks_sync()] == [False]


def test_a_forked_child_does_not_release_it(sync_harness: testing.SyncHarness) -> None:
    with app.lock_sync("report") as lock:
        if (child := os.fork()) == 0:
            try:
                os._exit(lock.lost)
            finally:
                os._exit(9)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
        lock.check()
    assert not lock.lost


# -- processes -------------------------------------------------------------------------------------------------------
HOLDER = """
import json, sys, time
import rota

app = rota.App(sys.argv[1])
with app.lock_sync("report", ttl="1s") as lock:
    print(json.dumps(lock.fence), flush=True)
    time.sleep(600)
"""


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'rota.db'}"
        return
    with migrated_database() as url:
        yield url


def test_the_lock_of_a_killed_process_goes_to_the_next_after_its_ttl(place: str) -> None:
    with rota.App(place) as mine, subprocess.Popen(
        [sys.executable, "-c", HOLDER, place], stdout=subprocess.PIPE, text=True
    ) as process:  # fmt: skip
        assert process.stdout is not None
        fence = json.loads(process.stdout.readline())
        with pytest.raises(LockTaken), mine.lock_sync("report", wait="1500ms"):
            pass  # it is renewed
        process.send_signal(signal.SIGKILL)
        process.wait(LONG)
        killed = time.monotonic()
        with mine.lock_sync("report", wait=LONG) as lock:
            waited = time.monotonic() - killed
            assert lock.fence > fence
        assert waited < 5
