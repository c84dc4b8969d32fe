"""Handles of jobs: what becomes of an order, asked in either face."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

import rota
from rota import testing
from rota.errors import JobFailed, NotFound, WaitTimeout
from rota.model.lifecycle import State
from rota.store.values import Cancelling

app = rota.App("sqlite:///never-made.db", user="me")


@app.task
async def double(ctx: rota.Context, n: int) -> int:
    ctx.log("doubling", n=n)
    return 2 * n


@app.task
async def fail() -> None:
    raise rota.Fatal("no use")


@pytest.fixture
async def harness() -> AsyncIterator[testing.Harness]:
    async with testing.harness(app) as harness:
        yield harness


async def test_the_result_is_what_its_task_returned(harness: testing.Harness) -> None:
    job = await double.submit(n=3)
    await harness.run_due()
    assert await job.result() == 6
    assert (await job.wait()).state is State.SUCCEEDED
    assert await job.logs() == "doubling n=3\n"
    assert [(chunk.stream, chunk.body) async for chunk in job.output()] == [("log", b"doubling n=3\n")]


async def test_the_result_of_one_that_failed_is_an_error_with_its_reason(harness: testing.Harness) -> None:
    job = await fail.submit()
    await harness.run_due()
    with pytest.raises(JobFailed, match="no use"):
        await job.result()
    assert (await job.info()).state is State.FAILED


async def test_the_result_of_one_that_was_cancelled_is_an_error_too(harness: testing.Harness) -> None:
    job = await double.options(delay="1h").submit(n=1)
    assert await job.cancel("not wanted") is Cancelling.CANCELLED
    with pytest.raises(JobFailed, match="not wanted"):
        await job.result()
    assert await job.retry()
    await harness.run_due()
    assert await job.result() == 2


async def test_a_wait_ends_after_its_time(harness: testing.Harness) -> None:
    job = await double.options(delay="1h").submit(n=1)
    with pytest.raises(WaitTimeout):
        await job.wait(timeout="1ms")


async def test_it_can_be_hurried_reprioritised_and_explained(harness: testing.Harness) -> None:
    job = await double.options(delay="1h").submit(n=1)
    assert await job.reprioritise(1)
    assert (await job.info()).priority == 1
    assert (await job.explain()).reasons
    assert await job.retry(), "at once"
    await harness.run_due()
    assert await job.result() == 2
    assert not await job.reprioritise(2), "it no longer waits"


async def test_a_handle_is_nothing_but_an_id(harness: testing.Harness) -> None:
    job = await double.submit(n=1)
    again = rota.Job(app, job.id)
    await harness.run_due()
    assert await again.result() == 2
    assert repr(again) == f"Job('{job.id}')"
    with pytest.raises(NotFound):
        await rota.Job(app, "0193ffff-0000-7000-8000-000000000000").info()


async def test_the_sync_face_says_the_same(tmp_path_factory: pytest.TempPathFactory) -> None:
    ordinary = rota.App(f"sqlite:///{tmp_path_factory.mktemp('sync') / 'rota.db'}", user="me")

    @ordinary.task
    def later() -> None: ...

    def ordinary_code() -> None:
        with ordinary:
            job = later.options(delay="1h").submit_sync()
            assert job.info_sync().state is State.SCHEDULED
            assert job.reprioritise_sync(1)
            assert job.explain_sync().reasons
            assert job.retry_sync()
            assert job.logs_sync() == ""
            assert job.cancel_sync() is Cancelling.CANCELLED
            assert job.wait_sync().state is State.CANCELLED
            with pytest.raises(JobFailed):
                job.result_sync()

    await asyncio.to_thread(ordinary_code)


def test_output_for_ordinary_code_comes_page_by_page_and_is_followed_to_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rota.clients.jobs.PAGE", 1)
    ordinary = rota.App()

    @ordinary.task
    def talk(ctx: rota.Context) -> None:
        for number in range(3):
            ctx.log(f"{number} " + "x" * 70_000)

    with testing.harness(ordinary) as stage:
        job = talk.submit_sync()
        assert list(job.output_sync()) == []
        stage.drain()
        chunks = list(job.output_sync())
        assert len(chunks) > 1
        assert b"".join(chunk.body for chunk in chunks).decode() == job.logs_sync()
        assert [line[0] for line in job.logs_sync().splitlines()] == ["0", "1", "2"]
        assert list(job.output_sync(follow=True)) == chunks
        assert next(job.output_sync(follow=True)) == chunks[0]


def test_workflows_for_ordinary_code() -> None:
    ordinary = rota.App()

    @ordinary.task
    def part() -> None: ...

    with testing.harness(ordinary):
        with ordinary.workflow() as flow:
            flow.add(part, after=flow.add(part))
        assert flow.cancel_sync() == 2
        assert [job.state for job in flow.jobs_sync()] == [State.CANCELLED] * 2
        assert flow.draw_sync("mermaid").startswith("flowchart")
        assert flow.replay_sync() == 2
