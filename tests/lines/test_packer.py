"""The process that packs segments does as the node would, and the node does if it can't."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rota.lines.packer import IDLE, NICE, Packer
from rota.lines.segment import pack
from rota.store.values import Chunk

JOB = "0199aaaa-0000-7000-8000-000000000001"
CHUNKS = [Chunk(JOB, 1, number, 5 + number, "stdout", b"line %d\xff\n" % number) for number in range(9)]


@pytest.fixture
def packer() -> Iterator[Packer]:
    made = Packer(os.environ)
    yield made
    made.close()


def pid_of(packer: Packer) -> int:
    assert packer._process is not None
    return packer._process.pid


async def test_it_packs_apart_from_the_node(packer: Packer) -> None:
    assert await packer.pack(CHUNKS) == pack(CHUNKS)
    first = pid_of(packer)
    assert os.getpriority(os.PRIO_PROCESS, first) == min(os.getpriority(os.PRIO_PROCESS, 0) + NICE, 19)
    assert await packer.pack(CHUNKS[:1]) == pack(CHUNKS[:1])
    assert pid_of(packer) == first, "by the same process"
    packer.close()
    assert not Path(f"/proc/{first}").exists()


async def test_a_killed_process_is_replaced(packer: Packer) -> None:
    await packer.pack(CHUNKS)
    first = pid_of(packer)
    os.kill(first, signal.SIGKILL)
    assert await packer.pack(CHUNKS) == pack(CHUNKS), "the node does it"
    assert packer._process is None
    assert await packer.pack(CHUNKS) == pack(CHUNKS)
    assert pid_of(packer) != first


async def test_the_node_packs_if_there_can_be_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    packer = Packer(os.environ)
    assert await packer.pack(CHUNKS) == pack(CHUNKS)


async def test_what_cannot_be_packed_is_an_error(packer: Packer) -> None:
    with pytest.raises(ValueError, match="at least one chunk"):
        await packer.pack([])
    assert await packer.pack(CHUNKS) == pack(CHUNKS)


async def test_calls_that_overlap_have_one_timer(packer: Packer, monkeypatch: pytest.MonkeyPatch) -> None:
    """An earlier one that was left over would end the process in the middle of its work."""
    loop = asyncio.get_running_loop()
    timers: list[asyncio.TimerHandle] = []

    def later(delay: float, call: Callable[[], object]) -> asyncio.TimerHandle:
        assert delay == IDLE
        timers.append(made := real(delay, call))
        return made

    real = loop.call_later
    monkeypatch.setattr(loop, "call_later", later)
    for _ in range(3):
        await asyncio.gather(*[packer.pack(CHUNKS) for _ in range(4)])
        assert sum(not one.cancelled() for one in timers) == 1
