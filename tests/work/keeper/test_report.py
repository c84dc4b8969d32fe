"""Reports of commands, true and forged. Nothing that anyone writes may raise in the loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pytest

from rota.work.keeper.report import LOST, Exit, Report

LIMIT = 20.0
STARTED = b"started 77 session,no_new_privs\n"


class Wire:
    def __init__(self) -> None:
        self.pipe, self.writer = os.pipe()
        self.doubts = 0
        self.unfinished: set[Report] = set()

    def report(self) -> Report:
        report = Report(self.pipe, self.unfinished)
        report.doubted = self.doubt
        return report

    def doubt(self) -> None:
        self.doubts += 1

    def say(self, *texts: bytes) -> None:
        for text in texts:
            os.write(self.writer, text)

    def end(self) -> None:
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1


@pytest.fixture
def wire() -> Iterator[Wire]:
    wire = Wire()
    yield wire
    wire.end()


async def ended(report: Report) -> Exit:
    async with asyncio.timeout(LIMIT):
        return await report.exit


async def test_a_true_one_in_pieces(wire: Wire) -> None:
    report = wire.report()
    wire.say(STARTED[:5])
    await asyncio.sleep(0)
    wire.say(STARTED[5:])
    assert await report.started is None
    assert (report.pid, report.isolation) == (77, ("session", "no_new_privs"))
    wire.say(b"exit 256 1e-05 4096 oom\n")
    wire.end()
    assert await ended(report) == Exit(1, None, 1e-05, 4096, lost=False, out_of_memory=True)
    assert (wire.doubts, wire.unfinished) == (0, set())


async def test_an_end_counts_only_when_the_pipe_is_closed(wire: Wire) -> None:
    report = wire.report()
    wire.say(STARTED, b"exit 0 0.0 0 -\n")
    await report.started
    done, _ = await asyncio.wait({report.exit}, timeout=0.05)
    assert not done
    wire.end()
    assert (await ended(report)).code == 0


@pytest.mark.parametrize(
    "garbage",
    [
        b"\n",
        b"hello\n",
        b"\xff\xfe\x00\n",
        b"exit\n",
        b"exit 0 0.0 0\n",
        b"exit 0 0.0 0 - -\n",
        b"exit -1 0.0 0 -\n",
        b"exit 99999 0.0 0 -\n",
        b"exit 0 nan 0 -\n",
        b"exit 0 1e999 0 -\n",
        b"exit 0 0.0 99999999999999999999999 -\n",
        b"started 1 x\n",
        b"failed 2 program\n",
        b"failed x y\n",
        b"x" * 5000,
        b"exit 0 0.0 0 -\nexit 0 0.0 0 -\n",
        b"exit 0 0.0 0 -\nx",
    ],
)
async def test_garbage_is_no_end(wire: Wire, garbage: bytes) -> None:
    report = wire.report()
    wire.say(STARTED, garbage, b"exit 0 0.0 0 -\n")
    wire.end()
    assert await ended(report) == LOST
    assert report.pid == 77
    assert wire.doubts == 1


@pytest.mark.parametrize("garbage", [b"exit 0 0.0 0 -\n", b"started x y\n", b"started 5\n", b"what\n", b""])
async def test_garbage_before_the_start(wire: Wire, garbage: bytes) -> None:
    report = wire.report()
    wire.say(garbage)
    wire.end()
    assert await ended(report) == LOST
    assert await report.started is None


async def test_a_flood_takes_no_memory(wire: Wire) -> None:
    report = wire.report()
    os.set_blocking(wire.writer, False)
    wire.say(STARTED)
    for _ in range(200):
        try:
            wire.say(b"y" * 4096)
        except BlockingIOError:
            await asyncio.sleep(0)
    assert len(report._rest) <= 4096
    wire.end()
    assert await ended(report) == LOST
    assert wire.doubts == 1
