"""What type checkers must accept, and the types that they must see. Never run: `test_checkers.py` hands it to them."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

import rota

app = rota.App(name="typing")
other = rota.App("sqlite:///a.db", lease=timedelta(seconds=10), queues={"mail": 8}, max_args="2MiB", roles=["control"])
other.configure(store="sqlite:///b.db", grace="5s")


@dataclass
class Invoice:
    number: int
    total: float


@app.task
async def hello(name: str) -> str:
    return f"hello, {name}"


@app.task(name="add", queue="sums", priority=2, retry=rota.Retry(3), timeout=timedelta(seconds=5), limits={"db": 5})
def add(a: int, b: int = 2) -> int:
    return a + b


@app.task
def logged(ctx: rota.Context, n: int) -> list[int]:
    ctx.log("working", n=n)
    return [n]


@app.task(isolation="inline")
async def crawled(ctx: rota.Context, *, pages: int = 1) -> Invoice:
    for page in range(ctx.state or 0, pages):
        ctx.progress(page / pages)
        await ctx.save(page)
    return Invoice(1, 2.0)


@app.task
def nothing() -> None: ...


@app.task
def anything(payload: Any) -> bool:
    return bool(payload)


@app.task
async def anything_async(payload: object) -> bool:
    return bool(payload)


@app.cron("0 3 * * *", tz="Europe/Berlin", overlap="skip", args={"name": "you"})
@app.task(labels=["nightly"])
async def reminded(name: str) -> str:
    return name


@app.every("90s", jitter=5, catch_up="none")
def swept(ctx: rota.Context) -> int:
    return ctx.attempt


@app.stub("mail.welcome")
def stubbed(user_id: int) -> Invoice:
    raise NotImplementedError


@app.stub("mail.welcome")
async def stubbed_async(user_id: int) -> Invoice:
    raise NotImplementedError


@app.task(name="renamed", aliases=["old"])
def renamed() -> None: ...


async def stubs() -> None:
    assert_type(await (await stubbed.submit(user_id=7)).result(), Invoice)
    assert_type(await stubbed_async.options(delay="5m").submit(7), rota.Job[Invoice])
    assert_type(await app.stub("any").submit(anything=7), rota.Job[Any])
    assert_type(await app.job("id", task=stubbed), rota.Job[Invoice])
    assert_type(await app.job("id", task=hello), rota.Job[str])
    assert_type(await app.job("id"), rota.Job[Any])
    assert_type(app.job_sync("id", task=add).result_sync(), int)


async def calls() -> None:
    coroutine: Coroutine[Any, Any, str] = hello("you")
    assert_type(await coroutine, str)
    assert_type(await hello("you"), str)
    assert_type(add(1), int)
    assert_type(add(a=1, b=2), int)
    assert_type(logged(3), list[int])
    assert_type(await crawled(pages=3), Invoice)
    assert_type(nothing(), None)
    assert_type(anything(1), bool)
    assert_type(await reminded("you"), str)
    assert_type(swept(), int)
    assert_type(add.name, str)


async def orders() -> None:
    assert_type(await hello.submit("you"), rota.Job[str])
    assert_type(await hello.submit(name="you"), rota.Job[str])
    assert_type(await (await hello.submit("you")).result(), str)
    assert_type(await (await add.submit(1)).result(timeout=5), int)
    assert_type(await (await logged.submit(3)).result(), list[int])
    assert_type(await (await crawled.submit(pages=3)).result("1m"), Invoice)
    assert_type(await (await nothing.submit()).result(), None)
    assert_type(await (await anything.submit({"any": ["thing"]})).result(), bool)
    assert_type(await add.submit_many([{"a": 1}, add.arguments(2, b=3)], queue="sums"), list[rota.Job[int]])
    again = hello.options(
        at=datetime(2027, 1, 1, tzinfo=UTC), priority=0, key="k", retry=3, rate="60/1m", full="skip", labels=["a", "b"]
    )
    assert_type(await again.submit("you"), rota.Job[str])
    first = await hello.options(delay="90s").submit("you")
    await add.options(after=first).submit(1)
    await add.options(after=[first, (first, "finish")], on="finish").submit(1)
    await add.options(after={first.id: "failure"}, delay=None).submit(1)
    command = await app.submit_command(["ls"], cwd="/", env={"A": "b"}, fatal_exit_codes=[2], delay="5m", name="list")
    assert_type(command, rota.Job[Any])
    await app.submit_http("POST", "https://example.com", json={"a": 1}, expect=[200, "3xx"], retry=3)


def without_a_loop() -> None:
    assert_type(hello.submit_sync("you").result_sync(), str)
    assert_type(add.submit_many_sync([add.arguments(1)]), list[rota.Job[int]])
    assert_type(app.submit_command_sync(["ls"], queue="mail"), rota.Job[Any])


async def schedules() -> None:
    await app.schedule("a", add, cron="0 3 * * *", tz="Europe/Berlin", args=add.arguments(1), overlap="skip", retry=5)
    await app.schedule("b", ["ls", "-l"], every=timedelta(hours=1), cwd="/", jitter="10m")
    nightly = await app.schedule("c", app.http("GET", "https://example.com"), at=["2027-01-01T00:00:00Z"], limit=1)
    assert_type(await nightly.next(3), list[datetime])


async def reads(job: rota.Job[str], nightly: rota.Schedule) -> None:
    info = await job.info()
    assert_type(info.run_at, datetime)
    assert_type(info.run_at - info.created_at, timedelta)
    assert_type(info.started_at, datetime | None)
    assert_type(info.timeout, timedelta | None)
    for attempt in info.attempts:
        assert_type(attempt.started_at, datetime)
        if attempt.usage is not None:
            assert_type(attempt.usage.wall + attempt.usage.cpu, timedelta)
    assert_type((await nightly.info()).next_at, datetime | None)
    assert_type((await nightly.pause()).created_at, datetime)
    assert_type([fire.at for fire in await nightly.history()], list[datetime])
    assert_type((await nightly.backfill("2027-01-01T00:00:00Z", info.run_at)).first, datetime | None)
    assert_type([one.next_at for one in await app.schedules()], list[datetime | None])
    admissions = await app.admissions()
    assert_type([gate.until for gate in await admissions.gates()], list[datetime | None])
    assert_type([queue.oldest for queue in await admissions.queues()], list[datetime | None])
    assert_type([flow.used for flow in await admissions.flows()], list[timedelta])


async def searches() -> None:
    query = app.jobs("state:failed took>5m", sort="-took", task=hello)
    assert_type(query, rota.JobQuery)
    assert_type([info async for info in query], list[rota.JobInfo])
    assert_type(await app.dead("error~timeout", sort="task", queue="mail").counted(), rota.JobCount)
    assert_type((await app.dead().facets()).fields, dict[str, list[rota.Facet]])
    assert_type(app.jobs("*").facets_sync(), rota.Facets)
    assert_type(app.jobs().counted_sync().exact, bool)


def asked() -> None:
    raise rota.Snooze(timedelta(hours=1)) from rota.RetryAfter("1m", "busy")


async def workflows() -> None:
    async with app.workflow("nightly") as flow:
        first = flow.add(add, 1, b=2)
        assert_type(first, rota.Job[int])
        assert_type(flow.add(hello.options(after=first), name="you"), rota.Job[str])
        assert_type(flow.add(["rm", "-rf", "scratch"], after=first, on="finish"), rota.Job[Any])
        assert_type(flow.add(add, first, b=first, name="sum"), rota.Job[int])
        assert_type(flow.on_failure(hello, name="you"), rota.Job[str])
        assert_type(flow.on_success(["true"]), rota.Job[Any])
    app.workflow("nightly", on_failure=(hello, {"name": "you"}), on_success=app.http("GET", "https://example.com"))
    app.workflow("nightly", on_failure=hello, on_success=["mail", "me"])


def any_task(task: rota.Task[..., Any]) -> str:
    return task.name


def a_task_of_this_kind(task: rota.Task[[str], str]) -> rota.Job[str]:
    return task.submit_sync("you")


async def given_on() -> None:
    """Jobs and tasks are covariant: one of ints is one of objects."""
    number = await add.submit(1)
    wider: rota.Job[object] = number
    widest: rota.Job[Any] = number
    task: rota.Task[..., float] = add
    any_task(hello)
    any_task(logged)
    a_task_of_this_kind(hello)
    a_task_of_this_kind(reminded)
    print(wider, widest, task)
