"""NodeLocks that show who lives, and pipes that wake sleepers, without a store around them."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.store.base import Topic
from rota.store.sqlite import SqliteStore
from rota.store.sqlite.node_locks import NodeLocks
from rota.store.sqlite.wakeups import Wakeups
from tests.contracts.world import World

LIMIT = 20.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "rota.db-rota"


@pytest.fixture
def mine(folder: Path) -> Iterator[NodeLocks]:
    locks = NodeLocks(folder)
    yield locks
    for incarnation in list(locks._held):
        locks.drop(incarnation)


@pytest.fixture
def others(folder: Path) -> NodeLocks:
    return NodeLocks(folder)


# -- locks ------------------------------------------------------------------------------------------------------------


def test_whoever_holds_a_lock_is_not_gone(mine: NodeLocks, others: NodeLocks) -> None:
    mine.hold("a")
    assert not mine.gone("a")
    assert not others.gone("a")
    assert len(mine.descriptors("a")) == 1


def test_a_missing_file_says_nothing(folder: Path, others: NodeLocks) -> None:
    assert not others.gone("nobody")
    folder.mkdir()
    assert not others.gone("nobody")
    assert others.descriptors("nobody") == []


def test_a_file_that_nobody_holds_says_that_its_process_has_ended(mine: NodeLocks, others: NodeLocks) -> None:
    mine.hold("a")
    os.close(mine._held.pop("a"))  # as the kernel does when a process ends
    assert others.gone("a")
    assert mine.gone("a")
    assert others.gone("a"), "asking changes nothing"


def test_a_copy_of_the_descriptor_keeps_the_lock(mine: NodeLocks, others: NodeLocks) -> None:
    """A keeper and its children inherit it: the node is gone when the last of them is."""
    mine.hold("a")
    (descriptor,) = mine.descriptors("a")
    inherited = os.dup(descriptor)
    os.close(mine._held.pop("a"))
    assert not others.gone("a")
    os.close(inherited)
    assert others.gone("a")


def test_letting_go_in_an_orderly_way_leaves_nothing(folder: Path, mine: NodeLocks, others: NodeLocks) -> None:
    mine.hold("a")
    mine.drop("a")
    assert list(folder.iterdir()) == []
    assert not others.gone("a"), "who left has said so in the store"
    mine.drop("a")


def test_what_was_taken_over_is_forgotten(folder: Path, mine: NodeLocks, others: NodeLocks) -> None:
    mine.hold("a")
    os.close(mine._held.pop("a"))
    others.forget("a")
    others.forget("a")
    assert list(folder.iterdir()) == []


def test_two_that_look_at_once_do_not_disturb_the_holder(mine: NodeLocks, others: NodeLocks, folder: Path) -> None:
    mine.hold("a")
    third = NodeLocks(folder)
    for _ in range(100):
        assert not others.gone("a")
        assert not third.gone("a")


def test_the_lock_is_not_inherited_by_accident(mine: NodeLocks) -> None:
    mine.hold("a")
    (descriptor,) = mine.descriptors("a")
    assert not os.get_inheritable(descriptor), "those who are meant to have it are given it"


def test_nobody_else_may_look_into_the_folder(mine: NodeLocks, folder: Path) -> None:
    mine.hold("a")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


# -- pipes ------------------------------------------------------------------------------------------------------------


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


# -- both, in a store -------------------------------------------------------------------------------------------------


async def test_a_refused_registration_holds_no_lock(world: World, path: str) -> None:
    await world.node("box")
    with pytest.raises(ValueError, match="box"):
        await world.node("box")
    assert len(list(Path(f"{path}-rota").glob("*.lock"))) == 1


async def test_the_guards_of_a_node_are_its_lock(world: World, store: SqliteStore) -> None:
    actor = await world.node()
    (guard,) = store.guards(actor.incarnation)
    assert store.locks is not None
    assert [guard] == store.locks.descriptors(actor.incarnation)
    await actor.leave()
    assert not store.guards(actor.incarnation)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(guard)


async def test_closing_lets_go_of_everything(world: World, store: SqliteStore, path: str) -> None:
    """A store that is closed without good-byes must not look alive for as long as its process lives."""
    actor = await world.node()
    store.listen(frozenset({Topic.READY}), lambda: None)
    folder = Path(f"{path}-rota")
    assert not NodeLocks(folder).gone(actor.incarnation)
    await store.close()
    assert NodeLocks(folder).gone(actor.incarnation)
    assert not list(folder.glob("*.wake"))
