"""What type checkers must refuse: each line with `type: ignore`. Never run: `test_checkers.py` hands it to them.

mypy in strict mode complains of an ignored line that is right; pyright is told to leave the comments alone, and the
test compares the lines that it complains of.
"""

from __future__ import annotations

import rota

app = rota.App(name="typing")


@app.task
async def hello(name: str) -> str:
    return f"hello, {name}"


@app.task
def logged(ctx: rota.Context, n: int) -> list[int]:
    return [n]


async def orders(number: rota.Job[int]) -> None:
    await hello.submit(7)  # type: ignore[arg-type]
    await hello.submit()  # type: ignore[call-arg]
    await hello.submit("you", "me")  # type: ignore[call-arg]
    await hello.submit(nam="you")  # type: ignore[call-arg]
    await hello.submit("you", delay="90s")  # type: ignore[call-arg]
    await logged.submit(n="3")  # type: ignore[arg-type]
    hello.submit_sync(7)  # type: ignore[arg-type]
    hello.arguments(7)  # type: ignore[arg-type]
    await hello(7)  # type: ignore[arg-type]
    logged("3")  # type: ignore[arg-type]
    result: int = await (await hello.submit("you")).result()  # type: ignore[assignment]
    job: rota.Job[int] = await hello.submit("you")  # type: ignore[assignment]
    narrow: rota.Job[bool] = number  # type: ignore[assignment]
    task: rota.Task[[int], str] = hello  # type: ignore[assignment]
    print(result, job, narrow, task)


def options() -> None:
    rota.App(leese="10s")  # type: ignore[call-arg]
    rota.App(lease=[])  # type: ignore[arg-type]
    app.configure(stor="sqlite:///a.db")  # type: ignore[call-arg]
    hello.options(dely="90s")  # type: ignore[call-arg]
    hello.options(delay=[])  # type: ignore[arg-type]
    hello.options(priority="high")  # type: ignore[arg-type]
    hello.options(full="sometimes")  # type: ignore[arg-type]
    hello.options(after=7)  # type: ignore[arg-type]
    hello.options(isolation="thread")  # type: ignore[call-arg]
    app.task(prority=3)  # type: ignore[call-overload]
    app.task(delay="90s")  # type: ignore[call-overload]
    app.task(isolation="vm")  # type: ignore[call-overload]
    app.task("hello")  # type: ignore[call-overload]
    app.cron("0 3 * * *", overlap="never")  # type: ignore[arg-type]
    app.every("90s", delay="5s")  # type: ignore[call-arg]


@app.stub("mail.welcome")
def stubbed(user_id: int) -> str:
    raise NotImplementedError


async def stubs() -> None:
    await stubbed.submit("7")  # type: ignore[arg-type]
    app.stub(7)  # type: ignore[arg-type]
    app.task(aliases=7)  # type: ignore[call-overload]


async def others() -> None:
    await app.submit_command("ls")  # right: a text is a sequence of texts, so only a call tells
    await app.submit_command(["ls"], cwdd="/")  # type: ignore[call-arg]
    await app.submit_command([7])  # type: ignore[list-item]
    await app.submit_http("GET", "https://example.com", expect=2.5)  # type: ignore[arg-type]
    await app.schedule("a", hello, crn="0 3 * * *")  # type: ignore[call-arg]
    await app.schedule("a", 7, cron="0 3 * * *")  # type: ignore[arg-type]


async def times(job: rota.Job[str]) -> None:
    info = await job.info()
    late: int = info.run_at  # type: ignore[assignment]
    info.run_at - 7  # type: ignore[operator]
    limit: float | None = info.timeout  # type: ignore[assignment]
    rota.Snooze([])  # type: ignore[arg-type]
    app.jobs(7)  # type: ignore[arg-type]
    app.jobs("state:failed", "task:a")  # type: ignore[call-arg]
    app.jobs(sort=7)  # type: ignore[arg-type]
    app.dead(state="failed")  # type: ignore[call-arg]
    print(late, limit)
