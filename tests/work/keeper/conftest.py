"""A keeper, and commands to give it.

The proof that a tree is gone is mostly the same: all of it holds the writing end of a pipe, so the reading
end sees the end of file exactly when the last process has left.
"""

import os
from collections.abc import AsyncIterator, Iterator

import pytest

from rota.work.keeper.client import KeeperClient
from tests.work.keeper.shell import Pipe, Shell


@pytest.fixture
def out() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    pipe.close()


@pytest.fixture
def gate() -> Iterator[Pipe]:
    pipe = Pipe()
    os.set_blocking(pipe.reader, True)
    yield pipe
    pipe.close()


@pytest.fixture
def null() -> Iterator[int]:
    fd = os.open("/dev/null", os.O_RDWR)
    yield fd
    os.close(fd)


@pytest.fixture
async def keeper() -> AsyncIterator[KeeperClient]:
    keeper = KeeperClient()
    await keeper.start()
    yield keeper
    await keeper.close()


@pytest.fixture
def shell(keeper: KeeperClient, out: Pipe, null: int) -> Shell:
    return Shell(keeper, out, null)
