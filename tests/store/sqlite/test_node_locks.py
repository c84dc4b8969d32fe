"""Locks that show which nodes live: alone, and as a store uses them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.store.sqlite import SqliteStore
from rota.store.sqlite.node_locks import NodeLocks
from rota.store.values import Topic
from tests.contracts.world import World


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


# -- in a store --------------------------------------------------------------------------------------------------------
async def test_a_refused_registration_holds_no_lock(world: World, path: str) -> None:
    await world.node("box")
    with pytest.raises(ValueError, match="box"):
        await world.node("box")
    assert len(list(Path(f"{path}-rota").glob("*.lock"))) == 1


async def test_the_guards_of_a_node_are_its_lock(world: World, store: SqliteStore) -> None:
    actor = await world.node()
    (guard,) = store.guards(actor.incarnation)
    assert store.node_locks is not None
    assert [guard] == store.node_locks.descriptors(actor.incarnation)
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
