"""Tasks: functions that are called as ever, and ordered as jobs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import pytest

import rota
from rota import testing
from rota.errors import InvalidInput, TooLarge

app = rota.App("sqlite:///never-made.db", user="me", max_args=200)


@app.task(queue="mail", priority=3, timeout="1m")
async def greet(name: str, times: int = 1) -> str:
    """Says hello."""
    return name * times


@app.task
def store(key: str) -> str:
    return key


@app.task
def collect(**fields: str) -> dict[str, str]:
    return fields


@pytest.fixture
async def harness() -> AsyncIterator[testing.Harness]:
    async with testing.harness(app, max_args=200) as harness:
        yield harness


async def test_it_can_be_called_as_ever_and_looks_like_the_function() -> None:
    assert await greet("a", times=2) == "aa"
    assert store("k") == "k"
    assert (greet.name, getattr(greet, "__name__", ""), greet.__doc__) == ("greet", "greet", "Says hello.")


async def test_an_order_has_the_options_of_its_task_unless_others_are_given(harness: testing.Harness) -> None:
    info = await (await greet.submit("a")).info()
    assert (info.queue, info.priority, info.timeout) == ("mail", 3, timedelta(minutes=1))
    info = await (await greet.options(priority=1, timeout="2s").submit("a")).info()
    assert (info.queue, info.priority, info.timeout) == ("mail", 1, timedelta(seconds=2))


async def test_options_may_be_given_apart_and_leave_the_task_as_it_is(harness: testing.Harness) -> None:
    urgent = greet.options(priority=0, queue="fast")
    info = await (await urgent.submit("a")).info()
    assert (info.queue, info.priority) == ("fast", 0)
    assert (await (await greet.submit("a")).info()).priority == 3
    assert (await (await urgent.options(priority=2).submit("a")).info()).queue == "fast"


async def test_a_parameter_with_the_name_of_an_option_is_the_functions(harness: testing.Harness) -> None:
    job = await store.options(key="once").submit(key="value")
    assert (await store.options(key="once").submit(key="value")).id == job.id
    await harness.run_due()
    assert await job.result() == "value"


async def test_a_function_that_takes_any_keyword_gets_them_all(harness: testing.Harness) -> None:
    jobs = [await collect.options(queue="mail").submit(key="k", queue="q") for _ in range(2)]
    assert jobs[0].id != jobs[1].id, "a key of its own would make them one"
    assert (await jobs[0].info()).queue == "mail"
    await harness.run_due()
    assert await jobs[1].result() == {"key": "k", "queue": "q"}


@pytest.mark.parametrize(
    "wrong",
    [{}, {"name": 1}, {"name": "a", "times": "x"}, {"name": "a", "unknown": 1}, {"name": "a", "priority": 77}],
)
async def test_wrong_arguments_are_refused_before_anything_is_written(
    harness: testing.Harness, wrong: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput):
        await greet.submit(**wrong)
    assert await (await app._core.client()).store.counts(app._core.who) == {}


async def test_many_are_checked_before_the_first_is_written(harness: testing.Harness) -> None:
    with pytest.raises(InvalidInput):
        await greet.submit_many([{"name": "a"}, {"name": 7}])
    with pytest.raises(TooLarge):
        await greet.submit_many([{"name": "a"}, {"name": "x" * 300}])
    with pytest.raises(InvalidInput, match="mapping"):
        await greet.submit_many(["a"])  # type: ignore[list-item]
    with pytest.raises(InvalidInput, match="list"):
        await greet.submit_many(7)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="key"):
        await greet.submit_many([{"name": "a"}, {"name": "b"}], key="one for all")
    assert await (await app._core.client()).store.counts(app._core.who) == {}
    jobs = await greet.submit_many([{"name": "a"}, {"name": "b", "times": 2}], priority=1)
    await harness.run_due()
    assert [await job.result() for job in jobs] == ["a", "bb"]
    assert {(await job.info()).priority for job in jobs} == {1}


async def test_orders_within_a_transaction_need_postgresql() -> None:
    with pytest.raises(InvalidInput, match="PostgreSQL"):
        await greet.within(object()).submit("a")
    with pytest.raises(InvalidInput, match="PostgreSQL"):
        greet.within(object()).submit_sync("a")


def test_arguments_may_have_fields_for_the_times_of_a_fire() -> None:
    app = rota.App()

    @app.task
    def report(day: datetime, title: str = "") -> None: ...

    given: Any = {"day": "{fire_time}", "title": "{fire_time} and {more}"}
    assert report.arguments(**given) == given
    with pytest.raises(InvalidInput, match="arguments of task 'report': 'day'"):
        report.arguments(**given | {"day": "{more}"})
