"""Which secrets an attempt of a function has, and what becomes of too many."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

import rota
from rota.clock import SystemClock
from rota.errors import InvalidInput
from rota.logs.masking import MaskedOutput
from rota.logs.sink import Sink
from rota.model.job import Claimed, Ref, Spec
from rota.model.outcome import Succeeded
from rota.model.secrets import MOST_VALUES
from rota.work.attempt import Attempt
from rota.work.executors.function import FunctionExecutor
from rota.work.functions.in_node import InNode
from tests.work.books import shut_book

app = rota.App("sqlite:///never-made.db")


@app.task(secrets=["password", "SHOP_TOKEN"])
async def named(password: object, other: object = None) -> None: ...


@app.task
async def plain(password: object, other: object = None) -> None: ...


@app.task
async def sees(ctx: rota.Context, password: object, other: object = None) -> None: ...


async def ran(task: str, secrets: tuple[str, ...] = (), **args: Any) -> Attempt:
    spec = Spec.function(task).with_secrets(secrets).body
    body = msgspec.json.encode(args).decode()
    claimed = Claimed("job", 1, "local", "default", "function", task, 5, 0, 1, 0, 0, spec, body, "{}", None)
    sink = Sink(Ref("job", 1), 1_000, SystemClock().now, lambda _: None)
    attempt = Attempt(claimed, sink, shut_book(), SystemClock())
    executor = FunctionExecutor(app._core.catalogue, InNode(1_000), 1.0)
    async with asyncio.timeout(20):
        assert isinstance(await executor.execute(attempt), Succeeded)
    return attempt


async def test_those_of_its_task_of_its_order_and_of_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "of the node")
    attempt = await ran("named", ("other",), password="hunter2", other="tiger99")
    assert attempt.mask is not None
    assert attempt.mask.text("hunter2 tiger99 of the node") == "*** *** ***"
    attempt = await ran("plain", ("other",), password="hunter2", other="tiger99")
    assert attempt.mask is not None
    assert attempt.mask.text("hunter2 tiger99 of the node") == "hunter2 *** of the node"


async def test_without_any_nothing_stands_before_the_sink() -> None:
    attempt = await ran("plain", password="hunter2")
    assert (attempt.mask, attempt.output) == (None, attempt.sink)
    attempt = await ran("sees", password="hunter2")
    assert isinstance(attempt.output, MaskedOutput)
    assert not attempt.mask, "it may learn some"


async def test_too_many_are_refused_and_not_left_as_they_are() -> None:
    with pytest.raises(InvalidInput, match="at most 1,000"):
        await ran("named", password=[f"value-{number}" for number in range(MOST_VALUES + 1)])
