"""Stubs: tasks that are ordered by name, without the code of the worker."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import rota
from rota.errors import InvalidInput, UnknownTask
from tests.node.running import LONG, make_app, running


@dataclass
class Receipt:
    user_id: int
    text: str


def worker(folder: Path) -> rota.App:
    app = make_app(folder, queues="default:2,mail:2")

    @app.task(name="mail.welcome", queue="mail", retry=7, aliases=["old.welcome"])
    async def welcome(user_id: int, text: str = "welcome") -> Receipt:
        return Receipt(user_id, text)

    @app.task(name="mail.hello")
    async def hello(name: str, key: str) -> str:
        return f"{name} {key}"

    @app.task(name="mail.any")
    async def collect(**fields: str) -> dict[str, str]:
        return fields

    return app


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[rota.App]:
    """An app without tasks, beside a node that has one."""
    async with running(worker(tmp_path)):
        app = make_app(tmp_path)
        yield app
        await app.close()


async def test_it_is_ordered_by_name_with_the_options_of_its_task(shop: rota.App) -> None:
    welcome = shop.stub("mail.welcome")
    job = await welcome.submit(user_id=7)
    assert await job.result(LONG) == {"user_id": 7, "text": "welcome"}
    info = await job.info()
    assert (info.task, info.queue, info.retry.retries) == ("mail.welcome", "mail", 7)
    again = await welcome.options(retry=1, delay="1h").submit_many([{"user_id": 1}, {"user_id": 2}], priority=0)
    infos = [await one.info() for one in again]
    assert [(one.queue, one.retry.retries, one.priority) for one in infos] == [("mail", 1, 0)] * 2
    for one in again:
        await one.cancel()
    assert repr(welcome) == "<Stub of task 'mail.welcome'>"


async def test_a_signature_makes_it_typed(shop: rota.App) -> None:
    @shop.stub("mail.welcome")
    def welcome(user_id: int, text: str = "") -> Receipt:
        raise NotImplementedError

    job = await welcome.submit(7, text="hi")
    assert await job.result(LONG) == Receipt(7, "hi")
    assert welcome.arguments(7) == {"user_id": 7}
    open_ = await shop.stub("mail.welcome").load()
    with pytest.raises(InvalidInput, match=r"arguments of task 'mail.welcome': 'user_id' must be integer, not 'x'"):
        open_.arguments(user_id="x")
    handle = await shop.job(job.id, task=welcome)
    assert await handle.result() == Receipt(7, "hi")
    assert len(shop._core.catalogue) == 0, "no node offers it"
    with pytest.raises(InvalidInput, match=r"arguments of task 'mail.welcome': .*user_id"):
        await welcome.submit("x")  # type: ignore[arg-type]


async def test_arguments_with_the_names_of_options_are_the_tasks(shop: rota.App) -> None:
    hello = shop.stub("mail.hello")
    job = await hello.submit(name="you", key="k", queue="mail")
    assert await job.result(LONG) == "you k"
    assert (await job.info()).queue == "mail"
    assert (await hello.submit(name="you", key="k")).id != job.id, "a key of the order would make them one"
    job = await shop.stub("mail.any").submit(name="you", queue="q")
    assert await job.result(LONG) == {"name": "you", "queue": "q"}


async def test_a_task_that_was_renamed_runs_under_its_old_name(shop: rota.App) -> None:
    job = await shop.stub("old.welcome").submit(user_id=7)
    assert await job.result(LONG) == {"user_id": 7, "text": "welcome"}
    assert (await job.info()).task == "old.welcome"


async def test_it_is_scheduled_and_added_to_workflows(shop: rota.App) -> None:
    welcome = shop.stub("mail.welcome")
    async with shop.workflow() as flow:
        with pytest.raises(InvalidInput, match=r"stub: 'mail.welcome' is not valid; expected one that is loaded"):
            flow.add(welcome, user_id=7)
        await welcome.load()
        job = flow.add(welcome, user_id=7)
    assert await job.result(LONG) == {"user_id": 7, "text": "welcome"}
    await shop.schedule("weekly", shop.stub("mail.welcome"), cron="0 3 * * 1", args={"user_id": 7})
    fired = await rota.Schedule(shop, "weekly").fire()
    assert fired is not None
    assert (await fired.wait(LONG)).queue == "mail"


async def test_it_takes_results_of_jobs_and_a_name(shop: rota.App) -> None:
    welcome = await shop.stub("mail.welcome").load()
    async with shop.workflow() as flow:
        first = flow.add(welcome.options(name="first"), user_id=7)
        second = flow.add(welcome, user_id=8, text=first)
        with pytest.raises(InvalidInput, match="'nobody' is unknown"):
            flow.add(welcome, user_id=8, nobody=first)
    info = await second.wait(LONG)
    assert (info.state, (await first.info()).name) == ("failed", "first")
    assert "'text' must be str, not {" in str(info.error), "a receipt is no text"


async def test_what_is_wrong_is_refused_at_the_call(shop: rota.App) -> None:
    welcome = shop.stub("mail.welcome")
    wrong: list[tuple[dict[str, Any], str]] = [
        ({}, "arguments of task 'mail.welcome': 'user_id' is missing"),
        ({"user_id": 7, "txt": ""}, "arguments of task 'mail.welcome': 'txt' is unknown"),
        ({"user_id": "x"}, "arguments of task 'mail.welcome': 'user_id' must be integer, not 'x'"),
    ]
    for arguments, problem in wrong:
        with pytest.raises(InvalidInput, match=problem):
            await welcome.submit(**arguments)
    with pytest.raises(UnknownTask, match=r"unknown task 'mail.welcme'; no node has offered it"):
        await shop.stub("mail.welcme").submit(user_id=7)
    with pytest.raises(InvalidInput, match=r"stub of task 'mail.welcome': 7 is not valid; expected a function"):
        welcome(7)  # type: ignore[call-overload]
    with pytest.raises(InvalidInput, match=r"stub of task 'mail.welcome': 'called' is not valid; expected submit"):
        welcome(lambda user_id: None)(7)
    with pytest.raises(InvalidInput, match=r"task name: '' is not valid"):
        shop.stub("")
    with pytest.raises(InvalidInput, match=r"delay: 'soon' is not valid"):
        await welcome.options(delay="soon").submit(user_id=7)


def test_it_works_without_a_loop(tmp_path: Path) -> None:
    app = worker(tmp_path)
    with app:
        job = app.stub("mail.welcome").options(delay="1h").submit_sync(user_id=7)
        assert job.info_sync().queue == "mail"
