"""The node's side of a pool process, with the far side played by the test."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import cast

import msgspec
import pytest

import rota
from rota.clock import SystemClock
from rota.logs.shipper import Sink
from rota.model.job import Claimed, Ref
from rota.model.outcome import Crashed, Outcome, Succeeded
from rota.work.attempt import Attempt
from rota.work.functions import wire
from rota.work.functions.assignment import Assignment
from rota.work.functions.fork_server_client import ForkServerClient, Gone
from rota.work.functions.pool import Pool
from rota.work.functions.process_client import PoolProcess
from rota.work.output import Drain
from tests.work.books import shut_book
from tests.work.functions.nodes import until

app = rota.App("sqlite:///:memory:")


@app.task
def task() -> None: ...


class FarSide:
    """A fork server that hands its process to the test, and the pool that owns it."""

    largest_frame = 1 << 20
    says_started = False

    def __init__(self) -> None:
        self.drain = Drain()
        self.killed = self.ended = 0
        self.back: list[Assignment] = []
        self.strayed: list[bytes] = []

    def fork(self, fds: Sequence[int], born: Callable[[], None], gone: Callable[[Gone], None]) -> str:
        channel, _out, _err, orders, _tally = map(os.dup, fds)
        self.channel, self.orders = socket.socket(fileno=channel), socket.socket(fileno=orders)
        for fd in (_out, _err, _tally):
            os.close(fd)
        self.born, self.gone = born, gone
        return "1"

    def kill(self, name: str) -> None:
        self.killed += 1

    def start_succeeded(self, kind: str) -> None: ...

    def employ(self, process: PoolProcess) -> None: ...

    def done(self, process: PoolProcess, wall: int) -> None:
        self.ended += 1

    def lost(self, process: PoolProcess) -> None: ...

    def put_back(self, assignments: list[Assignment]) -> None:
        self.back += assignments

    def stray(self, body: bytes) -> None:
        self.strayed.append(body)

    def take(self) -> wire.Order:
        return wire.decode_order(self.orders.recv(wire.LARGEST_MESSAGE)[wire.HEAD :])

    def end(self, key: int, outcome: Outcome = Succeeded()) -> None:  # noqa: B008 - a value
        self.channel.sendall(wire.frame(wire.CallEnd(key, outcome, 1)))


@pytest.fixture
async def far() -> AsyncIterator[FarSide]:
    far = FarSide()
    yield far
    far.channel.close()
    far.orders.close()


def started(far: FarSide) -> PoolProcess:
    process = PoolProcess(cast(Pool, far), cast(ForkServerClient, far))
    far.born()
    return process


def assignment() -> Assignment:
    claimed = Claimed("job", 1, "local", "default", "function", "task", 5, 0, 1, 0, 0, "{}", "{}", "{}", None)
    sink = Sink(Ref("job", 1), 100, SystemClock().now, lambda _: None)
    return Assignment(Attempt(claimed, sink, shut_book(), SystemClock()), app._core.catalogue.get("task"), (), 1.0)


async def test_orders_ahead_end_in_their_order(far: FarSide) -> None:
    process, given = started(far), [assignment(), assignment()]
    for one in given:
        assert process.add(one)
    for one in given:
        assert far.take().key == one.key
        far.end(one.key)
        assert await one.future == Succeeded()
    far.gone(Gone(0))


async def test_the_end_of_an_order_that_has_not_begun_is_nonsense(far: FarSide) -> None:
    """A function could write it, and end a job that is not its own."""
    process, first, second = started(far), assignment(), assignment()
    process.add(first)
    process.add(second)
    assert far.take().key == first.key
    far.end(second.key)
    await until(lambda: far.killed == 1)
    far.gone(Gone(9))
    assert isinstance(await first.future, Crashed)
    assert (far.back, second.future.done()) == ([second], False)


async def test_a_second_end_is_nonsense(far: FarSide) -> None:
    process, first = started(far), assignment()
    process.add(first)
    far.take()
    far.end(first.key)
    far.end(first.key)
    await until(lambda: far.killed == 1)
    assert (await first.future, far.ended) == (Succeeded(), 1)
    far.gone(Gone(9))


async def test_words_of_an_attempt_that_is_over_are_nobodys(far: FarSide) -> None:
    process, first, second = started(far), assignment(), assignment()
    process.add(first)
    far.take()
    far.end(first.key)
    await first.future
    process.add(second)
    far.channel.sendall(wire.frame(wire.OutputChunk(first.key, "log", b"late")))
    far.channel.sendall(wire.frame(wire.SaveRequest(first.key, 0, "[]")))
    await until(lambda: bool(far.strayed))
    far.channel.settimeout(0)
    answers = wire.Frames(1 << 20, wire.decode_request)
    found: list[wire.ToProcess] = []

    def answered() -> bool:
        found.extend(answers.feed(wire.arrived(far.channel) or b""))
        return bool(found)

    await until(answered)
    assert (far.strayed, found, second.attempt.sink.written) == ([b"late"], [wire.SaveAnswer(0, wire.STALE)], 0)
    far.gone(Gone(9))


async def test_orders_that_were_not_received_are_taken_back(far: FarSide) -> None:
    process, given = started(far), [assignment() for _ in range(3)]
    for one in given:
        process.add(one)
    far.take()
    process.recall()
    assert sorted(one.key for one in far.back) == [one.key for one in given[1:]]
    assert list(process.assignments) == [given[0].key]
    far.gone(Gone(9))
    assert isinstance(await given[0].future, Crashed)


class Preempted:
    """The socket of untouched orders. After its first receive the node is preempted and the process goes on."""

    def __init__(self, real: socket.socket, process: Callable[[], None]) -> None:
        self._real, self._process = real, [process]

    def recv(self, size: int, flags: int = 0) -> bytes:
        data = self._real.recv(size, flags)
        if self._process:
            self._process.pop()()
        return data

    def close(self) -> None:
        self._real.close()


async def test_an_order_that_the_process_receives_meanwhile_is_not_put_back(far: FarSide) -> None:
    process, given = started(far), [assignment() for _ in range(3)]
    for one in given:
        assert process.add(one)
    assert far.take().key == given[0].key
    ran: list[int] = []

    def goes_on() -> None:
        far.end(given[0].key)
        ran.append(far.take().key)

    process._far = cast("socket.socket", Preempted(process._far, goes_on))
    process.recall()
    await until(lambda: given[0].future.done())
    assert ran == [given[2].key]
    assert [one.key for one in far.back] == [given[1].key]
    assert list(process.assignments) == ran


async def test_a_large_order_is_neither_torn_nor_followed(far: FarSide) -> None:
    process, large, small = started(far), assignment(), assignment()
    large.order = msgspec.structs.replace(large.order, args="x" * 3 * wire.LARGEST_MESSAGE)
    assert process.add(large)
    await until(lambda: not process._large)
    assert not process.add(small)
    assert far.orders.recv(wire.LARGEST_MESSAGE)  # the process has received the first message
    process.recall()
    assert (far.back, list(process.assignments)) == ([], [large.key])


async def test_nothing_is_saved_for_an_order_that_has_not_begun(far: FarSide) -> None:
    """The shut book would fail at a save; the answer is that the attempt is over."""
    process, first, second = started(far), assignment(), assignment()
    for one in (first, second):
        assert process.add(one)
    assert far.take().key == first.key
    far.channel.sendall(wire.frame(wire.SaveRequest(second.key, 7, "[]")))
    far.end(first.key)
    assert await first.future == Succeeded()
    far.channel.setblocking(False)
    answers: list[bytes] = []

    def answered() -> bool:
        with suppress(BlockingIOError):
            answers.append(far.channel.recv(1 << 16))
        return bool(answers)

    await until(answered)
    assert answers[0] == wire.frame(wire.SaveAnswer(7, wire.STALE))
    assert list(process.assignments) == [second.key]
