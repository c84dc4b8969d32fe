"""Jobs and callers that misbehave: the node, its other jobs and everyone's reads are untouched."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import rota
from rota import orders
from rota.errors import InvalidInput, NotFound
from rota.model.job import Spec
from rota.model.lifecycle import State
from rota.model.task import TaskInfo
from rota.store.values import JobFilter
from tests.node.running import LONG, make_app, running


async def test_a_sub_task_that_exits_does_not_end_the_other_functions(tmp_path: Path) -> None:
    app = make_app(tmp_path)

    @app.task(retry=0)
    async def reckless() -> None:
        async def leave() -> None:
            sys.exit(3)

        task = asyncio.create_task(leave())
        await asyncio.sleep(0.05)
        assert task.done()

    @app.task(retry=0)
    async def stops_the_loop() -> None:
        asyncio.get_running_loop().stop()

    @app.task
    async def fine() -> str:
        return "fine"

    async with running(app):
        for task in (reckless, stops_the_loop):
            job = await task.submit()
            assert await (await fine.submit()).result(LONG) == "fine"
            assert (await job.wait(LONG)).ended


async def test_a_function_that_exits_fails_and_nothing_else(tmp_path: Path) -> None:
    app = make_app(tmp_path)

    @app.task(retry=0)
    def leaves() -> None:
        sys.exit("good-bye")

    async with running(app):
        info = await (await leaves.submit()).wait(LONG)
    assert info.error is not None
    assert (info.state, info.error.type) == (State.FAILED, "builtins.SystemExit")


async def test_results_that_json_can_not_carry_or_nobody_can_read(tmp_path: Path) -> None:
    app = make_app(tmp_path)

    @app.task(retry=0)
    async def not_a_number() -> float:
        return float("nan")

    @app.task(retry=0)
    async def deep() -> Any:
        nested: Any = []
        for _ in range(900):
            nested = [nested]
        return nested

    async with running(app):
        info = await (await not_a_number.submit()).wait(LONG)
        assert info.error is not None
        assert (info.state, info.error.type) == (State.FAILED, "rota.BadResult")
        assert (await (await deep.submit()).wait(LONG)).ended
        assert len(await (await app._core.client()).find(JobFilter())) == 2


async def test_two_apps_on_one_queue_leave_each_others_functions_alone(tmp_path: Path) -> None:
    mail, shop = make_app(tmp_path), make_app(tmp_path)

    @mail.task
    async def send() -> str:
        return "sent"

    @shop.task
    async def sell() -> str:
        return "sold"

    async with running(mail), running(shop):
        jobs = [await task.submit() for _ in range(5) for task in (send, sell)]
        assert [await job.result(LONG) for job in jobs] == ["sent", "sold"] * 5


async def test_a_process_may_change_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    app = rota.App("sqlite:///rota.db")

    @app.task
    async def nothing() -> None: ...

    job = await nothing.submit()
    os.chdir(tmp_path / "elsewhere")
    assert (await job.info()).state is State.READY
    assert list((tmp_path / "elsewhere").iterdir()) == []
    await app.close()


async def test_waiting_for_what_has_ended_or_is_gone(tmp_path: Path) -> None:
    app = make_app(tmp_path)

    @app.task
    async def nothing() -> None: ...

    ended, purged = await nothing.submit(), await nothing.submit()
    await ended.cancel()
    assert (await ended.wait(0)).state is State.CANCELLED
    waiting = asyncio.create_task(purged.wait("20s"))
    await asyncio.sleep(0)
    await purged.cancel()
    await (await app._core.client()).purge([purged.id])
    with suppress(NotFound):  # if it looked after the purge; what counts is that it does not wait for ever
        assert (await waiting).state is State.CANCELLED
    await app.close()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "'name' is missing"),
        ({"name": "a", "nam": 1}, "'nam' is unknown"),
        ({"name": 3}, "'name' must be string"),
        ({"name": "a", "times": "many"}, "'times' must be integer"),
        ({"name": "a", "times": True}, "'times' must be integer"),
    ],
)
async def test_orders_by_name_are_checked_where_the_code_is_not(
    tmp_path: Path, arguments: dict[str, Any], problem: str
) -> None:
    offering, ordering = make_app(tmp_path), make_app(tmp_path)

    @offering.task
    async def greet(name: str, times: int = 1, tags: list[str] | None = None) -> None: ...

    info: TaskInfo = offering._core.catalogue.infos()[0]
    with pytest.raises(InvalidInput, match=problem):
        orders.named(1_000, info, arguments)
    body, options = orders.named(1_000, info, {"name": "a", "times": 2, "tags": ["x"]})
    (job,) = await ordering._core.submit_orders(Spec.function(info.name), info.name, [body], options)
    assert (await job.info()).args == {"name": "a", "times": 2, "tags": ["x"]}
    await ordering.close()
