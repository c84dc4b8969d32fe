"""Reads of one loop share the way to the thread and back."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator

import pytest

from rota.store.sqlite.threads import Threads


@pytest.fixture
def threads() -> Iterator[Threads]:
    made = Threads(shared=False)
    yield made
    made.stop()


def _held(entered: threading.Event, release: threading.Event) -> Callable[[], str]:
    def call() -> str:
        entered.set()
        assert release.wait(10)
        return "held"

    return call


def _noted(name: str, ran: list[str]) -> Callable[[], str]:
    def call() -> str:
        ran.append(name)
        return name

    return call


async def test_reads_that_arrive_meanwhile_are_answered_in_their_order(threads: Threads) -> None:
    entered, release, ran = threading.Event(), threading.Event(), list[str]()
    first = threads.run(False, _held(entered, release))
    await asyncio.to_thread(entered.wait, 10)

    others = [threads.run(False, _noted(name, ran)) for name in "abc"]
    release.set()
    assert await asyncio.gather(first, *others) == ["held", "a", "b", "c"]
    assert ran == ["a", "b", "c"]


async def test_one_that_fails_fails_alone(threads: Threads) -> None:
    def broken() -> None:
        raise LookupError("no such row")

    answers = await asyncio.gather(
        threads.run(False, lambda: 1), threads.run(False, broken), threads.run(False, lambda: 2), return_exceptions=True
    )
    assert answers[0] == 1
    assert isinstance(answers[1], LookupError)
    assert answers[2] == 2


async def test_a_slow_read_does_not_keep_the_answers_before_it(threads: Threads) -> None:
    gate, release, slow = threading.Event(), threading.Event(), threading.Event()
    first = threads.run(False, _held(gate, release))
    await asyncio.to_thread(gate.wait, 10)
    quick = threads.run(False, lambda: threading.Event().wait(0.01))  # longer than answers wait for each other
    last_release = threading.Event()
    last = threads.run(False, _held(slow, last_release))
    release.set()
    assert await first == "held"
    assert await quick is False
    assert not last.done()
    last_release.set()
    assert await last == "held"


async def test_a_caller_that_has_gone_is_left_out(threads: Threads) -> None:
    entered, release, ran = threading.Event(), threading.Event(), list[str]()
    first = threads.run(False, _held(entered, release))
    await asyncio.to_thread(entered.wait, 10)
    gone, stays = (threads.run(False, _noted(name, ran)) for name in ("gone", "stays"))
    gone.cancel()
    release.set()
    await asyncio.gather(first, stays)
    assert ran == ["stays"]


async def test_ended_threads_are_an_error_of_each_read(threads: Threads) -> None:
    threads.stop()
    with pytest.raises(RuntimeError, match="shutdown"):
        await threads.run(False, lambda: 1)


def test_each_loop_has_its_own_hops(threads: Threads) -> None:
    async def one() -> int:
        return await threads.run(False, lambda: 7)

    assert [asyncio.run(one()) for _ in range(3)] == [7, 7, 7]
