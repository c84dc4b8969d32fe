"""What all tests share: time that stands still until it is moved, chance that repeats, a store in memory."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Generator
from pathlib import Path

import pytest

from rota.clock import Chance, ManualClock
from tests import sampling
from tests.contracts.world import World
from tests.store.backends import Backend
from tests.store.sqlite.backends import SqliteMemory

# Nodes of tests open no port, unless a test is about that.
os.environ.setdefault("ROTA_ROLES", "control,worker")


# A job of a shell in the background ignores Ctrl-C, and so would every program that a test starts and ends with it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The login and keys of whoever runs the tests are not theirs.
for folder in ("config", "state"):
    name = f"XDG_{folder.upper()}_HOME"
    os.environ[name] = tempfile.mkdtemp(prefix=f"rota-test-{folder}-")
    atexit.register(shutil.rmtree, os.environ[name], ignore_errors=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--store", metavar="MODULE:BACKEND", help="run the contracts on this backend alone (docs/contributing.md)"
    )


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def chance() -> Chance:
    return Chance(1)


@pytest.fixture
async def world(
    request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock, chance: Chance
) -> AsyncIterator[World]:
    """A store in memory, or where else a test wants it, and the world around it."""
    kind: type[Backend] = getattr(request, "param", SqliteMemory)
    backend = kind(tmp_path, clock)
    store = backend.store(Chance(2))
    await backend.prepare(store)
    await store.open()
    yield World(store, backend, clock, chance)
    await store.close()
    backend.close()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Thousands of tests stay for good: to look for garbage among them takes a third of the time of collecting them,
    and some of the time of each test."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    sampling.leave_to_the_slow(items)
