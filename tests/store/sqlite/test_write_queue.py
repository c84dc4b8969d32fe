"""The queue before SQLite's write lock: one process at a time, in turn, and never in the way."""

from __future__ import annotations

import asyncio
import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rota.clock import Chance, ManualClock
from rota.model.lifecycle import State
from rota.model.principal import LOCAL
from rota.store.sqlite import SqliteStore, database
from rota.store.sqlite.write_queue import WriteQueue
from tests.contracts.world import World

LIMIT = 20.0


@contextmanager
def holding(path: Path) -> Iterator[None]:
    """Somebody else, perhaps stopped, holds this lock."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def is_held(path: Path) -> bool:
    try:
        with holding(path):
            return False
    except BlockingIOError:
        return True


def test_one_at_a_time(tmp_path: Path) -> None:
    inside = most = 0

    def work() -> None:
        nonlocal inside, most
        queue = WriteQueue(tmp_path, LIMIT)
        for _ in range(50):
            with queue.turn():
                inside += 1
                most = max(most, inside)
                inside -= 1
        queue.close()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    assert (inside, most) == (0, 1)


def test_whoever_has_just_written_is_not_first_in_line_again(tmp_path: Path) -> None:
    mine, other = WriteQueue(tmp_path, LIMIT), WriteQueue(tmp_path, LIMIT)
    order: list[str] = []

    def wait() -> None:
        with other.turn():
            order.append("other")

    with mine.turn():
        order.append("mine")
        waiter = threading.Thread(target=wait)
        waiter.start()
        while not is_held(tmp_path / "line"):
            assert waiter.is_alive()
    with mine.turn():
        order.append("mine again")
    waiter.join(LIMIT)
    assert order == ["mine", "other", "mine again"]
    mine.close()
    other.close()


def test_an_error_inside_frees_the_turn(tmp_path: Path) -> None:
    queue = WriteQueue(tmp_path, LIMIT)
    with pytest.raises(ZeroDivisionError), queue.turn():
        _ = 1 / 0
    assert not is_held(tmp_path / "line")
    assert not is_held(tmp_path / "turn")
    queue.close()


@pytest.fixture
async def hasty(world: World, path: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> SqliteStore:
    """A store that waits for others only for a moment."""
    monkeypatch.setattr(database, "BUSY_MS", 100)
    store = SqliteStore(path, clock, Chance(9))
    await store.open()
    return store


@pytest.mark.parametrize("lock", ["line", "turn"])
async def test_a_process_that_is_stopped_in_the_queue_holds_up_nobody(
    world: World, hasty: SqliteStore, path: str, lock: str
) -> None:
    """Under load most processes stand in line at any moment, and any of them may be stopped there (SIGSTOP, a paused
    container). It holds no lock of SQLite's: the others must go on, or none of them could take its work over."""
    with holding(Path(f"{path}-rota") / lock):
        async with asyncio.timeout(LIMIT):
            for _ in range(3):
                job = world.job()
                await hasty.submit(LOCAL, [[job]])
                assert await world.state(job.id) is State.READY
    await hasty.close()
