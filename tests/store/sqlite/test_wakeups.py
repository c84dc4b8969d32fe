"""Pipes that wake sleepers in other processes, without a store around them."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from rota.store.sqlite.wakeups import Wakeups
from rota.store.values import Topic

LIMIT = 20.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "rota.db-rota"


class Ear:
    def __init__(self, bell: Wakeups, *topics: Topic) -> None:
        self.rung = asyncio.Event()
        self.end = bell.hear(topics, self.rung.set)

    async def next(self) -> None:
        async with asyncio.timeout(LIMIT):
            await self.rung.wait()
        self.rung.clear()


async def test_a_ring_is_heard_by_those_whom_it_concerns(folder: Path) -> None:
    listener, ringer = Wakeups(folder, "a"), Wakeups(folder, "b")
    ready, both = Ear(listener, Topic.READY), Ear(listener, Topic.DUE, Topic.READY)
    ringer.ring([Topic.DUE])
    await both.next()
    assert not ready.rung.is_set()
    ringer.ring([Topic.READY, Topic.NEWS])
    await both.next()
    await ready.next()
    ready.end()
    both.end()
    assert list(folder.iterdir()) == []


async def test_one_does_not_ring_oneself(folder: Path) -> None:
    """Listeners of the same store are woken directly."""
    bell, other = Wakeups(folder, "a"), Wakeups(folder, "b")
    ear = Ear(bell, Topic.READY)
    bell.ring([Topic.READY])
    other.ring([Topic.READY])
    await ear.next()
    await asyncio.sleep(0)
    assert not ear.rung.is_set()
    ear.end()


async def test_rings_without_end_do_not_block_the_ringer(folder: Path) -> None:
    listener, ringer = Wakeups(folder, "a"), Wakeups(folder, "b")
    ear = Ear(listener, Topic.READY)
    for _ in range(70_000):  # more than a pipe holds
        ringer._touch(next(iter(listener._open)))
    await ear.next()
    ear.end()


async def test_many_rings_are_answered_by_few_wakes(folder: Path) -> None:
    listener, ringer = Wakeups(folder, "a"), Wakeups(folder, "b")
    wakes: list[int] = []
    end = listener.hear([Topic.READY], lambda: wakes.append(1))
    for _ in range(1_000):
        ringer.ring([Topic.READY])
    done = asyncio.Event()
    stop = listener.hear([Topic.NEWS], done.set)
    ringer.ring([Topic.NEWS])
    async with asyncio.timeout(LIMIT):
        await done.wait()
    assert 1 <= len(wakes) <= 3
    end()
    stop()


async def test_ending_twice_or_after_the_loop_does_no_harm(folder: Path) -> None:
    ear = Ear(Wakeups(folder, "a"), Topic.READY)
    ear.end()
    ear.end()


def test_a_listener_may_be_ended_after_its_loop(folder: Path) -> None:
    bell = Wakeups(folder, "a")

    async def hear() -> Ear:
        return Ear(bell, Topic.READY)

    ear = asyncio.run(hear())
    ear.end()
    assert list(folder.iterdir()) == []


def test_ringing_where_nobody_ever_listened_does_no_harm(folder: Path) -> None:
    Wakeups(folder, "a").ring([Topic.READY])
    assert not folder.exists()


async def test_a_pipe_that_nobody_reads_is_removed(folder: Path) -> None:
    folder.mkdir()
    os.mkfifo(folder / "dead-0.r.wake")
    os.mkfifo(folder / "dead-1.n.wake")
    Wakeups(folder, "a").ring([Topic.READY])
    assert [entry.name for entry in folder.iterdir()] == ["dead-1.n.wake"], "the other one when it is rung"


async def test_a_pipe_is_not_taken_for_dead_while_it_is_being_made(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the making of the pipe and its opening, another process may ring."""
    listener, ringer = Wakeups(folder, "a"), Wakeups(folder, "b")
    make = os.mkfifo

    def make_and_be_rung(path: Path, mode: int = 0o600) -> None:
        make(path, mode)
        ringer.ring([Topic.READY])

    monkeypatch.setattr(os, "mkfifo", make_and_be_rung)
    ear = Ear(listener, Topic.READY)
    ringer.ring([Topic.READY])
    await ear.next()
    ear.end()


async def test_strange_files_in_the_folder_do_no_harm(folder: Path) -> None:
    folder.mkdir()
    for name in (".wake", "x.wake", "no-topics..wake", "readme.txt", "a.r.wake.old"):
        (folder / name).write_text("")
    (folder / "folder.r.wake").mkdir()
    ear = Ear(Wakeups(folder, "mine"), Topic.READY)
    Wakeups(folder, "other").ring(list(Topic))
    await ear.next()
    ear.end()
