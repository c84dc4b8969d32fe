"""What a running task says and asks, through whatever reporter carries it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import pytest

from rota.errors import InvalidInput, NotSerialisable, Stale, TooLarge
from rota.tasks.context import Context, RunningJob

JOB = RunningJob("0193-job", "t", "default", 5, "me")


class Wire:
    """A reporter that keeps what it is told; the test answers for the store."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.masked: list[str] = []
        self.told: list[tuple[float | None, str]] = []
        self.saves: list[tuple[str, Future[None]]] = []
        self.asked = threading.Event()

    def log(self, line: str) -> None:
        self.lines.append(line)

    def progress(self, fraction: float | None, text: str) -> None:
        self.told.append((fraction, text))

    def mask(self, values: Sequence[str]) -> None:
        self.masked += values

    def save(self, body: str) -> Future[None]:
        done: Future[None] = Future()
        self.saves.append((body, done))
        self.asked.set()
        return done


def context(wire: Wire, **given: Any) -> Context:
    return Context(JOB, 2, 7, wire, **given)


def test_lines_and_progress_go_to_the_reporter() -> None:
    wire = Wire()
    ctx = context(wire)
    ctx.log("loading", rows=3, name="x")
    ctx.log(42)
    ctx.progress(0.5, "half")
    ctx.progress(None)
    assert wire.lines == ["loading rows=3 name='x'", "42"]
    assert wire.told == [(0.5, "half"), (None, "")]


def test_the_state_of_an_earlier_attempt_is_read() -> None:
    assert context(Wire()).state is None
    assert context(Wire(), state='{"page": 3}').state == {"page": 3}


@pytest.mark.parametrize("state", ["{", "", "[" * 100_000])
def test_a_state_that_someone_broke_is_told_and_not_taken_for_none(state: str) -> None:
    with pytest.raises(InvalidInput, match="saved state"):
        context(Wire(), state=state)


def test_it_is_cancelled_once_it_was_told() -> None:
    ctx = context(Wire())
    assert not ctx.cancelled
    ctx._cancel()
    assert ctx.cancelled


async def test_async_code_awaits_until_its_state_is_safe() -> None:
    wire = Wire()
    saving = asyncio.ensure_future(context(wire).save([1, 2]))
    ((body, done),) = wire.saves
    assert body == "[1,2]"
    await asyncio.sleep(0)
    assert not saving.done()
    done.set_result(None)
    await saving


async def test_async_code_hears_that_its_attempt_is_over() -> None:
    wire = Wire()
    saving = asyncio.ensure_future(context(wire).save(1))
    wire.saves[0][1].set_exception(Stale())
    with pytest.raises(Stale):
        await saving


async def test_sync_code_returns_when_its_state_is_safe() -> None:
    wire = Wire()
    saving = asyncio.create_task(asyncio.to_thread(context(wire).save, 1))
    await asyncio.to_thread(wire.asked.wait, 20)
    assert not saving.done()
    wire.saves[0][1].set_result(None)
    await (await saving)  # an `await` too many does no harm


async def test_sync_code_hears_that_its_attempt_is_over() -> None:
    wire = Wire()
    saving = asyncio.create_task(asyncio.to_thread(context(wire).save, 1))
    await asyncio.to_thread(wire.asked.wait, 20)
    wire.saves[0][1].set_exception(Stale())
    with pytest.raises(Stale):
        await saving


async def test_an_error_of_the_reporter_that_is_a_timeout_is_no_reason_to_wait_on() -> None:
    wire = Wire()
    saving = asyncio.create_task(asyncio.to_thread(context(wire).save, 1))
    await asyncio.to_thread(wire.asked.wait, 20)
    wire.saves[0][1].set_exception(TimeoutError("of the store"))
    with pytest.raises(TimeoutError, match="of the store"):
        await saving


def test_what_can_t_be_kept_is_refused_before_anyone_is_asked() -> None:
    wire = Wire()
    with pytest.raises(NotSerialisable):
        context(wire).save(object())
    with pytest.raises(TooLarge):
        context(wire, max_state=10).save("x" * 10)
    assert not wire.saves
