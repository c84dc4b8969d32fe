"""Hooks and middleware: their order, what they see, what their errors do. Run by the harness, where functions run."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import rota
from rota.errors import InvalidInput, JobFailed, StoreError, TooLarge
from rota.model.job import JobInfo
from rota.tasks.hooks import EVENTS, AttemptEnd, Submission
from rota.testing import harness, run

TENANT: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="none")


@pytest.fixture
def app() -> rota.App:
    return rota.App("sqlite:///:memory:")


@pytest.fixture
def seen() -> list[str]:
    return []


def add_task(app: rota.App, seen: list[str], kind: str) -> Any:
    if kind == "async":

        @app.task(name="work", retry=0)
        async def work_async(x: int = 1) -> int:
            seen.append("work")
            return 10 // x

        return work_async

    @app.task(name="work", retry=0)
    def work(x: int = 1) -> int:
        seen.append("work")
        return 10 // x

    return work


# -- registering ------------------------------------------------------------------------------------------------------
def test_unknown_names_are_refused_with_all_that_there_are(app: rota.App) -> None:
    with pytest.raises(
        InvalidInput, match=r"event: 'attempt.befor' is not valid; expected one of submit.before, submit"
    ):
        app.on("attempt.befor")
    with pytest.raises(InvalidInput, match="around: 'process' is not valid; expected one of submit, attempt"):
        app.around("process")


@pytest.mark.parametrize("event", EVENTS)
def test_what_is_no_hook_is_refused_where_it_is_registered(app: rota.App, event: str) -> None:
    takes = r"a function that takes \(" + ", ".join(EVENTS[event]) + r"\)"
    with pytest.raises(InvalidInput, match=takes):
        app.on(event)(lambda: None)
    with pytest.raises(InvalidInput, match="a function"):
        app.on(event)(7)  # type: ignore[type-var]

    def yields(*_: Any) -> Iterator[None]:
        yield

    with pytest.raises(InvalidInput, match=r"does not yield; see app\.around"):
        app.on(event)(yields)


def test_a_middleware_yields(app: rota.App) -> None:
    with pytest.raises(InvalidInput, match="a generator function with one yield"):
        app.around("attempt")(lambda ctx: None)


def test_the_harness_is_a_node_that_starts_and_stops(app: rota.App, seen: list[str]) -> None:
    app.on("process.start")(lambda process: seen.append(f"start {process.kind}"))
    app.on("process.stop")(lambda process: seen.append("stop"))
    run(app, add_task(app, seen, "sync"))
    assert seen == ["start node", "work", "stop"]


# -- attempts ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_hooks_and_middleware_run_in_order_and_out_in_reverse(app: rota.App, seen: list[str], kind: str) -> None:
    @app.on("attempt.before")
    def first(ctx: rota.Context) -> None:
        seen.append(f"before 1 {ctx.job.task} {ctx.attempt}")

    @app.on("attempt.before")
    async def second(ctx: rota.Context) -> None:
        await asyncio.sleep(0)
        seen.append("before 2")

    @app.around("attempt")
    def outer(ctx: rota.Context) -> Iterator[None]:
        seen.append("in 1")
        result = yield
        seen.append(f"out 1 {result}")

    @app.around("attempt")
    async def inner(ctx: rota.Context) -> AsyncIterator[None]:
        await asyncio.sleep(0)
        seen.append("in 2")
        yield
        await asyncio.sleep(0)
        seen.append("out 2")

    @app.on("attempt.after")
    def last(ctx: rota.Context, end: AttemptEnd) -> None:
        seen.append(f"after 1 {end.outcome} {end.error}")

    @app.on("attempt.after")
    async def last_but_one(ctx: rota.Context, end: AttemptEnd) -> None:
        seen.append("after 2")

    info = run(app, add_task(app, seen, kind))
    assert (info.state, info.result) == ("succeeded", 10)
    assert seen == [
        "before 1 work 1", "before 2", "in 1", "in 2", "work", "out 2", "out 1 10", "after 2", "after 1 succeeded None",
    ]  # fmt: skip


def problem(info: JobInfo) -> tuple[str, str]:
    assert info.error is not None
    return info.error.type, info.error.message


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_an_error_before_is_the_end_of_the_attempt(app: rota.App, seen: list[str], kind: str) -> None:
    app.on("attempt.before")(lambda ctx: seen.append("before"))
    app.on("attempt.before")(lambda ctx: 1 / 0)
    app.on("attempt.before")(lambda ctx: seen.append("never"))
    app.on("attempt.after")(lambda ctx, end: seen.append(f"{end.outcome} {type(end.error).__name__}"))
    info = run(app, add_task(app, seen, kind))
    assert problem(info) == ("builtins.ZeroDivisionError", "division by zero")
    assert seen == ["before", "failed ZeroDivisionError"]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_hook_may_choose_the_end(app: rota.App, seen: list[str], kind: str) -> None:
    @app.around("attempt")
    def closed(ctx: rota.Context) -> Iterator[None]:
        raise rota.Cancel("the tenant is gone")
        yield

    assert run(app, add_task(app, seen, kind)).reason == "the tenant is gone"
    assert seen == []


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_middleware_sees_the_error_and_may_replace_it(app: rota.App, seen: list[str], kind: str) -> None:
    @app.around("attempt")
    def outer(ctx: rota.Context) -> Iterator[None]:
        try:
            yield
        except ZeroDivisionError:
            raise rota.Fatal("no zeros") from None

    @app.around("attempt")
    async def inner(ctx: rota.Context) -> AsyncIterator[None]:
        try:
            yield
        finally:
            seen.append("closed")

    info = run(app, add_task(app, seen, kind), x=0)
    assert problem(info) == ("rota.signals.Fatal", "no zeros")
    assert seen == ["work", "closed"]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_middleware_that_only_looks_leaves_the_error_and_its_place(app: rota.App, seen: list[str], kind: str) -> None:
    @app.around("attempt")
    def one(ctx: rota.Context) -> Iterator[None]:
        try:
            yield
        finally:
            seen.append("out")

    info = run(app, add_task(app, seen, kind), x=0)
    assert problem(info) == ("builtins.ZeroDivisionError", "integer division or modulo by zero")
    assert info.error is not None
    assert info.error.trace is not None
    (place,) = [line for line in info.error.trace.splitlines() if line.startswith("  File")]
    assert place.endswith("in work" if kind == "sync" else "in work_async")
    assert seen == ["work", "out"]


def test_middleware_that_swallows_the_error_makes_a_success_without_a_result(app: rota.App, seen: list[str]) -> None:
    @app.around("attempt")
    def careless(ctx: rota.Context) -> Iterator[None]:
        with suppress(ZeroDivisionError):
            yield

    info = run(app, add_task(app, seen, "sync"), x=0)
    assert (info.state, info.result) == ("succeeded", None)


@pytest.mark.parametrize("yields", [0, 2])
def test_middleware_that_does_not_yield_once_fails_the_attempt(app: rota.App, seen: list[str], yields: int) -> None:
    @app.around("attempt")
    def wrong(ctx: rota.Context) -> Iterator[None]:
        for _ in range(yields):
            yield

    said = "did not yield" if yields == 0 else "yielded twice"
    kind, message, *_ = problem(run(app, add_task(app, seen, "sync")))
    assert (kind, said in message) == ("rota.errors.RotaError", True)


@pytest.mark.parametrize("name", [[], {}, None, 7])
def test_names_that_are_no_text_are_refused(app: rota.App, name: Any) -> None:
    for register in (app.on, app.around):
        with pytest.raises(InvalidInput, match="is not valid; expected one of"):
            register(name)


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_an_error_after_changes_nothing_and_is_in_the_output(app: rota.App, seen: list[str], kind: str) -> None:
    app.on("attempt.after")(lambda ctx, end: seen.append("runs all the same"))
    app.on("attempt.after")(lambda ctx, end: 1 / 0)
    task = add_task(app, seen, kind)
    async with harness(app) as rota_test:
        job = await task.submit()
        await rota_test.drain()
        assert await job.result() == 10
        logs = await job.logs()
        assert "hook attempt.after" in logs
        assert "ZeroDivisionError" in logs
    assert seen == ["work", "runs all the same"]


def test_the_outcome_that_hooks_see_knows_of_a_bad_result(app: rota.App, seen: list[str]) -> None:
    app.on("attempt.after")(lambda ctx, end: seen.append(end.outcome))

    @app.task(retry=0)
    def bad() -> object:
        return object()

    assert problem(run(app, bad))[0] == "rota.BadResult"
    assert seen == ["failed"]


# -- orders -----------------------------------------------------------------------------------------------------------
async def test_metadata_of_the_order_reaches_the_attempt(app: rota.App) -> None:
    @app.around("submit")
    async def tag(submission: Submission) -> AsyncIterator[None]:
        submission.meta["tenant"] = TENANT.get()
        yield

    @app.on("submit.before")
    def count(submission: Submission) -> None:
        submission.meta["tasks"] = list(submission.tasks)

    @app.task
    async def which(ctx: rota.Context) -> dict[str, Any]:
        return ctx.meta

    async with harness(app) as rota_test:
        TENANT.set("acme")
        job, many = await which.submit(), await which.submit_many([{}, {}])
        command = await app.submit_command(["true"])
        async with app.workflow() as flow:
            of_flow = flow.add(which)
        again = await which.options(key="k").submit()
        TENANT.set("other")
        assert (await which.options(key="k").submit()).id == again.id  # it is no part of the order
        await rota_test.drain()
        assert await job.result() == {"tenant": "acme", "tasks": ["which"]}
        assert [await one.result() for one in many] == [{"tenant": "acme", "tasks": ["which"] * 2}] * 2
        assert (await command.info()).meta == {"tenant": "acme", "tasks": ["true"]}
        assert await of_flow.result() == {"tenant": "acme", "tasks": ["which"]}
        assert (await again.info()).meta["tenant"] == "acme"


async def test_a_job_without_metadata_has_none(app: rota.App, seen: list[str]) -> None:
    task = add_task(app, seen, "sync")
    async with harness(app):
        assert (await (await task.submit()).info()).meta == {}


def test_sync_orders_run_hooks_in_the_callers_thread(app: rota.App, seen: list[str], tmp_path: Path) -> None:
    threads: list[int] = []

    @app.around("submit")
    def here(submission: Submission) -> Iterator[None]:
        threads.append(threading.get_ident())
        jobs = yield
        assert submission.jobs == jobs
        seen.append(f"ordered {len(submission.jobs)}")

    @app.on("submit.before")
    async def elsewhere(submission: Submission) -> None:
        submission.meta["tenant"] = TENANT.get()

    app.configure(store=f"sqlite:///{tmp_path}/a.db")
    task = add_task(app, seen, "sync")
    with app:
        TENANT.set("acme")
        job = task.submit_sync()
        with app.workflow() as flow:
            flow.add(task)
        assert job.info_sync().meta == {"tenant": "acme"}
    assert threads == [threading.get_ident()] * 2
    assert seen == ["ordered 1", "ordered 1"]


async def test_an_error_before_an_order_reaches_the_caller_and_nothing_is_ordered(
    app: rota.App, seen: list[str]
) -> None:
    @app.on("submit.before")
    def refuse(submission: Submission) -> None:
        raise PermissionError("not you")

    task = add_task(app, seen, "sync")
    async with harness(app):
        with pytest.raises(PermissionError, match="not you"):
            await task.submit()
        with pytest.raises(PermissionError):
            async with app.workflow() as flow:
                flow.add(task)
        assert await app.jobs().count() == 0


async def test_an_error_after_an_order_is_logged_and_the_caller_gets_its_jobs(
    app: rota.App, seen: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    app.on("submit.after")(lambda submission: 1 / 0)

    @app.around("submit")
    def late(submission: Submission) -> Iterator[None]:
        yield
        raise ValueError("too late")

    task = add_task(app, seen, "sync")
    async with harness(app) as rota_test:
        job = await task.submit()
        await rota_test.drain()
        assert await job.result() == 10
    said = [record.message for record in caplog.records if record.name == "rota.hooks"]
    assert [line.split(" failed")[1] for line in said] == ["; the jobs are ordered"] * 2


async def test_middleware_sees_that_an_order_failed(app: rota.App, seen: list[str]) -> None:
    @app.around("submit")
    def careless(submission: Submission) -> Iterator[None]:
        try:
            yield
        except StoreError as error:
            seen.append(type(error).__name__)

    app.on("submit.after")(lambda submission: seen.append("never"))
    task = add_task(app, seen, "sync")
    app.configure(store="sqlite:////nowhere/at/all.db")
    with pytest.raises(StoreError):
        await task.submit()
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("meta", "error"), [({"a": "x" * 5000}, TooLarge), ({"a": object()}, InvalidInput), ({7: 1}, InvalidInput)]
)
async def test_metadata_is_small_and_json(
    app: rota.App, seen: list[str], meta: dict[Any, Any], error: type[Exception]
) -> None:
    app.on("submit.before")(lambda submission: submission.meta.update(meta))
    task = add_task(app, seen, "sync")
    async with harness(app):
        with pytest.raises(error, match=r"submission\.meta"):
            await task.submit()


def test_hooks_of_one_app_are_not_those_of_another(app: rota.App, seen: list[str]) -> None:
    rota.App("sqlite:///:memory:").on("attempt.before")(lambda ctx: 1 / 0)
    assert run(app, add_task(app, seen, "sync")).result == 10


async def test_a_failure_is_told_to_whoever_waits(app: rota.App, seen: list[str]) -> None:
    app.on("attempt.before")(lambda ctx: 1 / 0)
    task = add_task(app, seen, "async")
    async with harness(app) as rota_test:
        job = await task.submit()
        await rota_test.drain()
        with pytest.raises(JobFailed, match="division by zero"):
            await job.result()
