"""Jobs that wait for others, through the Python interface."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

import rota
from rota.errors import InvalidInput, KeyConflict, NotFound, WaitTimeout
from rota.handles.workflow_builder import WorkflowBuilder
from rota.model.lifecycle import State
from rota.testing import Harness, harness
from tests.node.running import LONG, running
from tests.store.postgres.backends import migrated_database

app = rota.App("sqlite:///never-made.db")


@app.task
async def number(n: int) -> int:
    return n


@app.task
async def total(ctx: rota.Context) -> int:
    return sum(parent.result for parent in ctx.parents if isinstance(parent.result, int))


@app.task
async def parents(ctx: rota.Context) -> list[list[object]]:
    return sorted([parent.task, parent.state, parent.need, parent.edge, parent.result] for parent in ctx.parents)


@app.task
async def boom() -> None:
    raise rota.Fatal("no luck")


@app.task
async def grow(ctx: rota.Context, count: int) -> None:
    async with app.workflow(of=ctx) as flow:
        added = [flow.add(number, n=n, after=ctx.job.id) for n in range(count)]
        flow.add(total, after=added)


@app.task
async def flaky(ctx: rota.Context) -> str:
    if ctx.attempt == 1:
        raise rota.Fatal("not yet")
    return "now"


@app.task
async def lonely(ctx: rota.Context) -> None:
    async with app.workflow(of=ctx) as flow:
        flow.add(number, n=1)


async def order_all(flow: WorkflowBuilder, *jobs: dict[str, Any]) -> None:
    async with flow:
        for job in jobs:
            flow.add(number, **job)


async def change_my_mind(flow: WorkflowBuilder) -> None:
    async with flow:
        flow.add(number, 1)
        raise RuntimeError("changed my mind")


async def states(flow: rota.Workflow) -> list[State]:
    return [job.state for job in await flow.jobs()]


# -- putting one together --------------------------------------------------------------------------------------------
async def test_children_run_after_their_parents_and_get_their_results() -> None:
    async with harness(app) as rota_test:
        async with app.workflow("sums") as flow:
            rows = [flow.add(number, n=n) for n in (1, 2, 3)]
            summed = flow.add(total, after=rows)
            last = flow.add(parents, after=[(summed, "finish"), rows[0]])
        assert await states(flow) == [*["ready"] * 3, *["blocked"] * 2]
        await rota_test.drain()
        assert await summed.result() == 6
        assert await last.result() == [
            ["number", "succeeded", "success", "met", 1],
            ["total", "succeeded", "finish", "met", 6],
        ]
        info = await flow.info()
        assert (info.id, info.name, info.counts) == (flow.id, "sums", {State.SUCCEEDED: 5})


async def test_what_needs_success_is_skipped_and_what_needs_failure_runs() -> None:
    async with harness(app) as rota_test:
        async with app.workflow() as flow:
            bad = flow.add(boom)
            skipped = flow.add(number, 1, after=bad)
            flow.add(number, 2, after=skipped)
            flow.add(number, 3, after=bad, on="failure")
            flow.add(number, 4, after={skipped: "finish"})
            flow.add(number, 5, after=(bad, "finish"))
            flow.add(["true"], after=flow.add(number, 6), on="failure", name="not needed")
        await rota_test.drain()
        ends = ["failed", "skipped", "skipped", *["succeeded"] * 4, "skipped"]
        assert await states(flow) == ends
        assert (await skipped.info()).reason == f"its parent {bad.id} (boom) failed"


async def test_single_orders_may_wait_for_jobs_too() -> None:
    async with harness(app) as rota_test:
        first = await number.submit(n=7)
        second = await total.options(after=first).submit()
        third = await app.submit_command(["true"], after=[second.id, first])
        many = await number.submit_many([{"n": 1}, {"n": 2}], after=third, on="finish")
        assert {(await job.info()).state for job in (second, third, *many)} == {State.BLOCKED}
        await rota_test.drain()
        assert await second.result() == 7
        late = await total.options(after=[first, second]).submit()  # both have ended
        await rota_test.run_due()
        assert await late.result() == 14


async def test_a_time_of_its_own_counts_as_well() -> None:
    async with harness(app) as rota_test:
        first = await number.options(delay="1h").submit(n=1)
        later = await number.options(after=first, delay="2h").submit(n=2)
        expiring = await number.options(after=first, expires="10m").submit(n=3)
        await rota_test.advance("11m")
        # It was due at once, and gives up after ten minutes although it only waited for its parent.
        info = await expiring.info()
        assert (info.state, info.reason) == (State.CANCELLED, "expired")
        await rota_test.advance("1h")
        assert (await later.info()).state is State.SCHEDULED
        await rota_test.advance("1h")
        assert (await later.info()).state is State.SUCCEEDED


async def test_a_command_in_a_workflow_takes_what_submit_command_takes() -> None:
    async with harness(app, allow_commands=True) as rota_test:
        async with app.workflow() as flow:
            first = flow.add(["sh", "-c", "echo $NAME; pwd"], env={"NAME": "you"}, cwd="/", name="greet", priority=1)
            flow.add(["sh", "-c", "exit 3"], fatal_exit_codes=[3], after=first)
        await rota_test.drain()
        assert await first.logs() == "you\n/\n"
        assert [(job.task, job.state) for job in await flow.jobs()] == [("greet", "succeeded"), ("sh", "failed")]


async def test_nothing_is_ordered_if_the_block_fails() -> None:
    async with harness(app):
        flow = app.workflow()
        with pytest.raises(RuntimeError, match="changed my mind"):
            await change_my_mind(flow)
        with pytest.raises(NotFound, match="no workflow"):
            await flow.info()
        flow = app.workflow()
        with pytest.raises(NotFound, match="no parent job 'nobody'"):
            await order_all(flow, {"n": 1}, {"n": 2, "after": "nobody"})
        with pytest.raises(NotFound, match="no workflow"):
            await flow.jobs()


@pytest.mark.parametrize(
    ("arguments", "options", "said"),
    [
        ((number, 1), {"after": 5}, "a job or its id, a list of them, or pairs"),
        ((number, 1), {"on": "finish"}, "it together with after="),
        ((number, 1), {"after": "x", "on": "never"}, "one of success, finish, failure"),
        ((number, 1), {"after": {"x": "never"}}, "one of success, finish, failure"),
        ((number, 1), {"after": [("x", "finish"), "x"]}, "each parent once, with one need"),
        ((number, 1), {"nothing": 1}, "nothing"),
        ((number, "x"), {}, "must be int, not 'x'"),
        ((["true"], 1), {}, "a command has its arguments in its list"),
        (("true",), {}, "a command as a list of arguments"),
        (([],), {}, "it is empty"),
        ((["true"],), {"prority": 1}, "one of name, cwd, .* at, delay, priority"),
    ],
)
async def test_what_add_refuses(arguments: tuple[Any, ...], options: dict[str, Any], said: str) -> None:
    async with harness(app):
        async with app.workflow() as flow:
            flow.add(number, 0)
            with pytest.raises(InvalidInput, match=said):
                flow.add(*arguments, **options)
        assert len(await flow.jobs()) == 1  # the others of the block are not concerned


async def test_blocks_are_for_adding() -> None:
    async with harness(app):
        flow = app.workflow()
        with pytest.raises(InvalidInput, match="inside `async with"):
            flow.add(number, 1)
        async with flow:
            flow.add(number, 1)
        with pytest.raises(InvalidInput, match="inside `async with"):
            flow.add(number, 2)
        for name in ("a\nb", "x" * 201, 7):
            with pytest.raises(InvalidInput, match="workflow name"):
                app.workflow(name)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="a workflow, its id, or a job of it"):
            async with app.workflow(of=7):  # type: ignore[arg-type]
                pass


async def test_an_order_has_a_largest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.handles.workflow_builder.LARGEST", 2)
    async with harness(app):
        with pytest.raises(InvalidInput, match="at most 2; a job of it may add more"):
            await order_all(app.workflow(), {"n": 1}, {"n": 2}, {"n": 3})


async def test_a_key_that_was_used_otherwise_refuses_the_whole_order() -> None:
    async with harness(app):
        await number.options(key="k").submit(n=1)
        flow = app.workflow()
        with pytest.raises(KeyConflict):
            await order_all(flow, {"n": 5}, {"n": 2, "key": "k"})
        with pytest.raises(NotFound):
            await flow.info()


# -- adding later ----------------------------------------------------------------------------------------------------
async def test_a_task_adds_to_its_own_workflow() -> None:
    async with harness(app) as rota_test:
        async with app.workflow("grows") as flow:
            grower = flow.add(grow, count=4)
        await rota_test.drain()
        assert (await grower.info()).state is State.SUCCEEDED, (await grower.info()).error
        assert [job.task for job in await flow.jobs()] == ["grow", *["number"] * 4, "total"]
        (last,) = [job for job in await flow.jobs() if job.task == "total"]
        assert await rota.Job(app, last.id).result() == 6


@pytest.mark.parametrize("way", ["workflow", "id", "end of the id", "name", "job"])
async def test_a_workflow_can_be_named_in_several_ways(way: str) -> None:
    async with harness(app):
        async with app.workflow("first one") as flow:
            job = flow.add(number, 1)
        ways: dict[str, Any] = {
            "workflow": flow, "id": flow.id, "end of the id": flow.id[-10:], "name": "first one", "job": job,
        }  # fmt: skip
        async with app.workflow(of=ways[way]) as more:
            more.add(number, 2, after=job)
        assert more.id == flow.id
        assert len(await flow.jobs()) == 2


async def test_a_job_without_a_workflow_has_none_to_add_to() -> None:
    async with harness(app) as rota_test:
        job = await lonely.options(retry=0).submit()
        await rota_test.drain()
        error = (await job.info()).error
        assert error
        assert "a job that belongs to one" in error.message


# -- changing its course ---------------------------------------------------------------------------------------------
async def failed(rota_test: Harness) -> tuple[rota.Workflow, list[rota.Job[Any]]]:
    async with app.workflow() as flow:
        first = flow.add(number, 1)
        second = flow.add(flaky, after=first)
        third = flow.add(parents, after=second)
        beside = flow.add(boom, after=first)
    await rota_test.drain()
    assert await states(flow) == ["succeeded", "failed", "skipped", "failed"]
    return flow, [first, second, third, beside]


async def test_retry_runs_what_failed_and_what_was_skipped_because_of_it() -> None:
    async with harness(app) as rota_test:
        flow, jobs = await failed(rota_test)
        assert await flow.retry() == 2
        await rota_test.drain()
        assert await states(flow) == ["succeeded", "succeeded", "succeeded", "failed"]
        assert await jobs[2].result() == [["flaky", "succeeded", "success", "met", "now"]]
        assert [(await job.info()).replays for job in jobs] == [0, 1, 0, 1]


async def test_retry_from_one_job_on_leaves_the_others() -> None:
    async with harness(app) as rota_test:
        flow, jobs = await failed(rota_test)
        assert await flow.retry(jobs[1]) == 1
        assert await flow.retry(jobs[0].id) == 1  # what failed below it and does not run yet
        with pytest.raises(InvalidInput, match="a job of workflow"):
            await flow.retry("nobody")


async def test_replay_runs_all_of_it_again() -> None:
    async with harness(app) as rota_test:
        async with app.workflow() as flow:
            first, second = flow.add(number, 1), flow.add(number, 2)
            third = flow.add(total, after=[first, second])
        with pytest.raises(InvalidInput, match=r"a workflow whose jobs have ended; .* is ready"):
            await flow.replay()
        await rota_test.drain()
        assert await flow.replay() == 3
        assert await states(flow) == ["scheduled", "scheduled", "blocked"]
        await rota_test.drain()
        assert await flow.replay(third) == 1
        await rota_test.drain()
        assert await third.result() == 3
        assert [(await job.info()).replays for job in (first, second, third)] == [1, 1, 2]


async def test_cancel_ends_what_has_not_ended() -> None:
    async with harness(app) as rota_test:
        async with app.workflow() as flow:
            first = flow.add(number, 1)
            second = flow.add(number, 2, after=first, delay="1h")
            flow.add(number, 3, after=second, on="finish")
        await rota_test.run_due()
        assert await flow.cancel("too late") == 2
        assert await states(flow) == ["succeeded", "cancelled", "cancelled"]
        assert (await second.info()).reason == "too late"
        assert await flow.cancel() == 0


async def test_wait_has_a_limit() -> None:
    async with harness(app) as rota_test:
        async with app.workflow() as flow:
            flow.add(number, 1)
        with pytest.raises(WaitTimeout, match=f"workflow {flow.id} is still running"):
            await flow.wait("1ms")
        await rota_test.drain()
        assert (await flow.wait(5)).counts == {State.SUCCEEDED: 1}


async def test_drawings() -> None:
    async with harness(app) as rota_test:
        flow, jobs = await failed(rota_test)
        drawn = (await flow.draw()).splitlines()
        assert drawn[0].startswith(f"number  {jobs[0].id[-8:]}  succeeded")
        assert drawn[1].startswith(f"├─ flaky  {jobs[1].id[-8:]}  failed  not yet")
        assert "digraph workflow {" in await flow.draw("graphviz")
        assert "flowchart TD" in await flow.draw("mermaid")
        with pytest.raises(InvalidInput, match="tree, graphviz or mermaid"):
            await flow.draw("svg")


# -- on real stores --------------------------------------------------------------------------------------------------
@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'rota.db'}"
    else:
        with migrated_database() as url:
            yield url


def real(address: str) -> tuple[rota.App, dict[str, rota.Task[..., Any]]]:
    """The same functions, in an app of its own."""
    own = rota.App(address, kill_grace="500ms", queues="default:8")
    return own, {task.name: own.task(task.function) for task in (number, total, parents, boom, flaky)}


async def test_a_workflow_on_a_node(address: str) -> None:
    own, tasks = real(address)
    async with running(own):
        async with own.workflow("real") as flow:
            rows = [flow.add(tasks["number"], n=n) for n in range(20)]
            summed = flow.add(tasks["total"], after=rows)
            second = flow.add(tasks["flaky"], after=summed)
            last = flow.add(tasks["parents"], after=second)
            flow.add(["true"], after=last, on="finish")
        info = await flow.wait(LONG)
        assert info.counts == {State.SUCCEEDED: 22, State.FAILED: 1, State.SKIPPED: 1}
        assert await summed.result() == 190
        assert await flow.retry() == 1
        assert (await flow.wait(LONG)).counts == {State.SUCCEEDED: 24}
        assert await last.result() == [["flaky", "succeeded", "success", "met", "now"]]
        assert await flow.replay(summed) == 4
        assert (await flow.wait(LONG)).counts == {State.SUCCEEDED: 24}
        found = rota.Workflow(own, await (await own._core.client()).workflow("real"))
        assert (await found.draw()).count("\n") == 23
        assert (await found.info()).name == "real"


async def test_sync_functions_on_a_node_add_to_their_workflow(tmp_path: Path) -> None:
    own, tasks = real(f"sqlite:///{tmp_path / 'rota.db'}")

    @own.task
    def more(ctx: rota.Context) -> None:
        with own.workflow(of=ctx) as flow:
            flow.add(tasks["total"], after=[flow.add(tasks["number"], n=n, after=ctx.job.id) for n in range(4)])

    async with running(own):
        async with own.workflow("grows") as flow:
            flow.add(more)
        assert (await flow.wait(LONG)).counts == {State.SUCCEEDED: 6}
        assert await rota.Job(own, (await flow.jobs())[-1].id).result() == 6


async def test_cancel_and_refusals_on_a_store(address: str) -> None:
    own, tasks = real(address)
    async with own:
        async with own.workflow() as flow:
            first = flow.add(tasks["number"], n=1, delay="1h")
            flow.add(tasks["number"], n=2, after=first)
        assert await flow.cancel("too late") == 2
        assert await states(flow) == ["cancelled", "cancelled"]
        for wrong in ("nobody", "00000000-0000-7000-8000-000000000000"):
            with pytest.raises(NotFound, match="no parent job"):
                await tasks["number"].submit(n=1, after=wrong)
            with pytest.raises(NotFound, match="no workflow"):
                await rota.Workflow(own, wrong).jobs()
        skipped = await tasks["number"].submit(n=3, after=first)
        assert (await skipped.info()).state is State.SKIPPED


def test_the_sync_face(address: str) -> None:
    own, tasks = real(address)
    with own.workflow("sync") as flow:
        first = flow.add(tasks["number"], n=1, delay="1h")
        flow.add(tasks["number"], n=2, after=first)
    assert flow.info_sync().counts == {State.SCHEDULED: 1, State.BLOCKED: 1}
    assert flow.cancel_sync("enough") == 2
    assert flow.wait_sync(LONG).counts == {State.CANCELLED: 2}
    assert flow.retry_sync() == 2
    other = own.workflow()
    with pytest.raises(NotFound, match="no parent job"), other:
        other.add(tasks["number"], n=1, after="00000000-0000-7000-8000-000000000000")
    with pytest.raises(NotFound):
        other.info_sync()
    own.close_sync()


async def test_the_sync_face_inside_a_loop_says_what_to_do_instead() -> None:
    with pytest.raises(InvalidInput, match="the async method, with await"), app.workflow():
        pass


async def test_a_child_in_the_callers_own_transaction() -> None:
    with migrated_database() as url:
        own, tasks = real(url)
        async with running(own):
            connection = await asyncpg.connect(url)
            first = await tasks["number"].submit(n=5)
            assert await first.result(LONG) == 5
            async with connection.transaction():
                child = await tasks["total"].within(connection).submit(after=first)
                grandchild = await tasks["total"].within(connection).submit(after=child)
            assert await child.result(LONG) == 5
            assert await grandchild.result(LONG) == 5
            with pytest.raises(NotFound, match="no parent job"):
                async with connection.transaction():
                    await tasks["total"].within(connection).submit(after="00000000-0000-7000-8000-000000000000")
            await connection.close()
