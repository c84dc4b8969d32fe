"""`@app.task` and the decorators like it at run time. `tests/typing` has what type checkers see of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import rota
from rota.errors import InvalidInput
from rota.handles.task import AsyncTask, SyncTask
from rota.tasks.direct import direct_context


def test_a_function_becomes_a_task_with_and_without_options() -> None:
    app = rota.App()

    @app.task
    def plain(n: int) -> int:
        return 2 * n

    @app.task(name="mail.send", queue="mail")
    async def sent() -> None: ...

    @app.task()
    def empty() -> None: ...

    assert (type(plain), type(sent), type(empty)) == (SyncTask, AsyncTask, SyncTask)
    assert (plain.name, sent.name, empty.name) == ("plain", "mail.send", "empty")
    assert (plain(4), plain.function(4), plain.__name__) == (8, 8, "plain")
    assert plain.arguments(4) == plain.arguments(n=4) == {"n": 4}
    assert (repr(plain), repr(sent)) == ("<Task 'plain' (n)>", "<Task 'mail.send' ()>")


def test_a_call_needs_no_context(capsys: pytest.CaptureFixture[str]) -> None:
    app = rota.App()

    @app.task
    def logged(ctx: rota.Context, n: int) -> int:
        ctx.progress(0.5)
        ctx.save(n)
        ctx.log("doubling", n=n)
        return 2 * n

    @app.task
    async def last(n: int, ctx: rota.Context) -> str:
        await ctx.save(n)
        return f"{n} {ctx.job.task} {ctx.attempt}"

    assert (logged(4), logged(n=4)) == (8, 8)
    assert capsys.readouterr().out == "doubling n=4\ndoubling n=4\n"
    assert asyncio.run(last(4)) == "4 last 1"  # type: ignore[call-arg]
    given = direct_context("other")
    assert logged.function(given, 4) == logged(ctx=given, n=4) == 8  # type: ignore[call-arg]
    assert asyncio.run(last(5, given)) == "5 other 1"
    with pytest.raises(InvalidInput, match="progress"):
        given.progress(2)


def test_a_task_may_be_scheduled_in_the_same_breath() -> None:
    app = rota.App(name="shop")

    @app.every("90s")
    def swept() -> None: ...

    @app.cron("0 3 * * *", tz="Europe/Berlin")
    @app.task(queue="mail")
    async def reminded() -> None: ...

    assert (type(swept), type(reminded)) == (SyncTask, AsyncTask)


@pytest.mark.parametrize("wrong", [5, "sh", int, ["ls"]])
def test_what_is_no_function_is_refused(wrong: Any) -> None:
    app = rota.App(name="shop")
    for decorate in (app.task, app.task(queue="mail"), app.every("90s")):
        with pytest.raises(InvalidInput, match=r"task: .* expected a function"):
            decorate(wrong)


def test_options_come_before_the_function() -> None:
    app = rota.App()
    with pytest.raises(InvalidInput, match=r"options: .'queue'. is not valid; expected a function alone"):
        app.task(lambda: None, queue="mail")  # type: ignore[call-overload]
    with pytest.raises(InvalidInput, match=r"option: 'prority' is not valid; expected one of name, aliases, isolation"):
        app.task(prority=3)(lambda: None)  # type: ignore[call-overload]
    with pytest.raises(InvalidInput, match=r"task: 'one' is not valid; expected a function; @app.cron"):
        app.task(app.task(name="one")(lambda: None))


@pytest.mark.parametrize("wrong", ["old", 7, [""], [7], ["old", "old"], ["new"]])
def test_aliases_are_a_list_of_other_names(wrong: Any) -> None:
    with pytest.raises(InvalidInput, match=r"aliases: .* expected|task name: .* expected"):
        rota.App().task(name="new", aliases=wrong)(lambda: None)
