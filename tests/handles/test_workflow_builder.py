"""Workflows while they are put together: results as arguments, names, and jobs that come last."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import rota
from rota.errors import InvalidInput, KeyConflict, NotFound, NotSerialisable
from rota.model.lifecycle import State
from rota.testing import harness
from tests.node.running import LONG, running
from tests.store.postgres.backends import migrated_database

app = rota.App("sqlite:///never-made.db")


class Row(msgspec.Struct):
    n: int
    tags: list[str] = []


@app.task
async def extract(n: int) -> list[Row]:
    return [Row(one) for one in range(n)]


@app.task
async def count(rows: list[Row]) -> int:
    return len(rows)


@app.task
async def total(parts: list[int], more: dict[str, int] | None = None, plus: int = 0) -> int:
    return sum(parts) + sum((more or {}).values()) + plus


@app.task
async def anything(ctx: rota.Context, value: Any) -> list[Any]:
    return [value, [parent.name for parent in ctx.parents]]


@app.task
async def nothing() -> None: ...


@app.task(retry=0)
async def number_at(ctx: rota.Context, value: list[int]) -> int:
    return value[ctx.attempt - 1]


@app.task(retry=0)
async def boom(message: str = "no luck") -> int:
    raise rota.Fatal(message)


@app.task
async def named(name: str) -> str:
    return name


@app.task(retry=0)
async def alarm(ctx: rota.Context, to: str = "me") -> list[str]:
    return [to, *sorted(parent.name or parent.task for parent in ctx.parents if parent.state == "failed")]


@app.task(exclusive="table:{table.name}", flow="{owner}")
async def limited(table: dict[str, Any], owner: Any = "x") -> str:
    return f"{table} {owner}"


async def states(flow: rota.Workflow) -> list[State]:
    return [job.state for job in await flow.jobs()]


async def test_a_workflow_of_nothing_is_refused() -> None:
    async with harness(app):
        with pytest.raises(InvalidInput, match="workflow: 'none' is not valid; expected at least one job"):
            async with app.workflow("none"):
                pass


# -- results as arguments --------------------------------------------------------------------------------------------
async def test_a_job_as_an_argument_becomes_its_result() -> None:
    async with harness(app) as rota_test:
        async with app.workflow() as flow:
            rows = flow.add(extract, n=3)
            counted = flow.add(count, rows=rows)
            positional = flow.add(count, rows)
            summed = flow.add(total, parts=[counted, 10, positional], more={"a": counted, "b": 100}, plus=counted)
            empty = flow.add(anything, value=flow.add(nothing))
        assert await states(flow) == ["ready", *["blocked"] * 3, "ready", "blocked"]
        await rota_test.drain()
        assert await states(flow) == ["succeeded"] * 6
        assert await counted.result() == 3
        assert await summed.result() == 3 + 10 + 3 + 103 + 3
        assert await empty.result() == [None, [""]]
        info = await summed.info()
        assert info.args == {"parts": [None, 10, None], "more": {"a": None, "b": 100}, "plus": None}


@pytest.mark.parametrize(
    "value", [{"$job": "x"}, [["value"], None], {"fills": [["value"]]}, [None, {"id": "x"}], "Job('x')", None]
)
async def test_a_value_that_looks_like_a_place_is_a_value(value: Any) -> None:
    async with harness(app) as rota_test:
        async with app.workflow() as flow:
            first = flow.add(count, rows=[])
            kept = flow.add(anything, value=[value, first])
            apart = flow.add(anything, value=value, after=first)
        await rota_test.drain()
        assert (await kept.result())[0] == [value, 0]
        assert (await apart.result())[0] == value


async def test_a_single_order_takes_results_of_jobs_that_are_there() -> None:
    async with harness(app) as rota_test:
        rows = await extract.submit(n=2)
        early = await count.submit(rows=rows)  # type: ignore[arg-type]
        await rota_test.drain()
        late = await count.options(key="late").submit(rows)  # type: ignore[arg-type]
        again = await count.options(key="late").submit(rows)  # type: ignore[arg-type]
        assert again.id == late.id
        await rota_test.drain()
        assert [await early.result(), await late.result()] == [2, 2]
        with pytest.raises(NotFound, match="no parent job"):
            await count.submit(rows=rota.Job(app, "0" * 8))  # type: ignore[arg-type]


async def test_a_result_that_does_not_fit_fails_at_once_with_a_clear_line() -> None:
    async with harness(app) as rota_test:
        async with app.workflow() as flow:
            text = flow.add(named, name="text")
            wrong = flow.add(count, rows=text)
        await rota_test.drain()
        info = await wrong.info()
        assert (info.state, info.failures, len(info.attempts)) == ("failed", 0, 1)
        assert info.error is not None
        assert "arguments of task 'count': 'rows' must be array, not 'text'" in info.error.message


async def test_a_child_is_skipped_if_the_result_will_never_be_there() -> None:
    async with harness(app) as rota_test:
        async with app.workflow() as flow:
            summed = flow.add(total, parts=[flow.add(boom)])
        await rota_test.drain()
        assert (await summed.info()).state == "skipped"


async def test_a_rerun_takes_the_newest_result() -> None:
    async with harness(app) as rota_test:
        async with app.workflow() as flow:
            first = flow.add(number_at, value=[1, 20])
            second = flow.add(total, parts=[first])
        await rota_test.drain()
        assert await second.result() == 1
        await flow.replay()
        await rota_test.drain()
        assert await second.result() == 20


async def test_a_parent_that_is_gone_or_runs_again() -> None:
    async with harness(app) as rota_test:
        client = await app._core.client()
        first = await number_at.submit(value=[1])
        held = await total.options(delay="1h", retry=rota.Retry(2, "1m", jitter=0)).submit([first])  # type: ignore[list-item]
        gone = await total.options(delay="1h").submit([first])  # type: ignore[list-item]
        await rota_test.drain()
        assert await held.result() == 1
        await client.rerun([held.id])
        await client.rerun([first.id])  # it fails this time: it has no second number
        await rota_test.drain()
        assert (await first.info()).state == "failed"
        await client.purge([first.id])
        await client.rerun([gone.id])
        await rota_test.drain()
        info = await gone.info()
        assert info.state in ("failed", "skipped")
        assert first.id in (info.reason or "")


async def test_orders_with_keys_are_the_same_though_their_ids_are_fresh() -> None:
    async with harness(app) as rota_test:
        flows = []
        for _ in range(2):
            async with app.workflow("keyed") as flow:
                rows = flow.add(extract.options(key="rows"), n=2)
                summed = flow.add(total.options(key="sum"), parts=[flow.add(count.options(key="count"), rows=rows)])
            flows.append((flow.id, summed.id))
        assert flows[0] == flows[1]
        await rota_test.drain()
        assert await summed.result() == 2
        with pytest.raises(KeyConflict):
            async with app.workflow("keyed") as flow:
                flow.add(total.options(key="sum"), parts=[], plus=flow.add(count.options(key="count"), rows=[]))


async def test_two_jobs_with_one_key_are_one_parent_with_both_places() -> None:
    async with harness(app) as rota_test:
        async with app.workflow() as flow:
            one, two = (flow.add(count.options(key="k"), rows=[]) for _ in range(2))
            both = flow.add(anything, value=[one, two])
        await rota_test.drain()
        assert (await both.result())[0] == [0, 0]


@pytest.mark.parametrize("need", ["finish", "failure", "fine", "trouble"])
async def test_a_result_needs_success(need: Any) -> None:
    async with harness(app) as rota_test:
        async with app.workflow() as flow:
            rows = flow.add(extract, n=1)
            with pytest.raises(InvalidInput, match=f"with need {need}.*need success, or no need: its result is"):
                flow.add(count, rows=rows, after=rows, on=need)
            agreed = flow.add(count, rows=rows, after=[rows, flow.add(nothing)])
        await rota_test.drain()
        assert await agreed.result() == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"table": "JOB"}, "'table.name' is the result of a job"),
        ({"table": {"name": "JOB"}}, "'table.name' is the result of a job"),
        ({"table": {"name": {"x": "JOB"}}}, "'table.name' is the result of a job"),
        ({"table": {"name": "a"}, "owner": "JOB"}, "flow: .*'owner' is the result of a job"),
    ],
)
async def test_keys_and_flows_must_be_known_when_a_job_is_ordered(given: Any, said: str) -> None:
    def with_job(value: Any, job: rota.Job[Any]) -> Any:
        if isinstance(value, dict):
            return {key: with_job(part, job) for key, part in value.items()}
        return job if value == "JOB" else value

    async with harness(app) as rota_test:
        async with app.workflow() as flow:
            job = flow.add(nothing)
            with pytest.raises(InvalidInput, match=said):
                flow.add(limited, **with_job(given, job))
            fine = flow.add(limited, table={"name": "a", "rows": job}, owner="x")
        await rota_test.drain()
        assert await fine.result() == "{'name': 'a', 'rows': None} x"


async def test_where_a_job_is_no_argument() -> None:
    async with harness(app):
        job = await extract.submit(n=1)
        said = r"Job\('.*stands for its result in task\.submit\(\.\.\.\) and workflow\.add\(task, \.\.\.\) only"
        with pytest.raises(NotSerialisable, match=said):
            await count.submit_many([{"rows": job}])
        with pytest.raises(NotSerialisable, match=said):
            await app.schedule("n", count, args={"rows": job}, every="1h")
        with pytest.raises(NotSerialisable, match=said):
            app.http("POST", "https://example.com", json={"rows": [job]})
        for command in (["echo", job], ["echo", [job]]):
            with pytest.raises(InvalidInput, match=said):
                await app.submit_command(command)  # type: ignore[arg-type]
        with pytest.raises(NotSerialisable, match="JSON can carry"):
            await count.submit(rows=object())  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match=r"'plus' must be int, not 'x'"):
            await total.submit(parts=[job], plus="x")  # type: ignore[list-item,arg-type]
        with pytest.raises(InvalidInput, match="'rows' is unknown"):
            await total.submit(parts=[job], rows=1)  # type: ignore[list-item,call-arg]


# -- names -----------------------------------------------------------------------------------------------------------
async def test_names_of_jobs_in_their_workflow() -> None:
    async with harness(app) as rota_test:
        async with app.workflow() as flow:
            first = flow.add(extract, n=1, name="first part")
            mine = flow.add(named, name="the function's own")
            both = flow.add(named.options(name="for people"), name="the function's own")
            flow.add(["true"], name="a command")
            last = flow.add(anything, value=1, after=[first, both])
        await rota_test.drain()
        assert [job.name for job in await flow.jobs()] == ["first part", "", "for people", "", ""]
        assert [job.task for job in await flow.jobs()][3] == "a command"
        assert await mine.result() == await both.result() == "the function's own"
        assert (await last.result())[1] == ["first part", "for people"]
        assert (await first.info()).name == "first part"


async def test_a_name_is_for_jobs_of_workflows() -> None:
    async with harness(app):
        with pytest.raises(InvalidInput, match=r"name: 'x' is not valid; expected it for a job of a workflow"):
            await extract.options(name="x").submit(n=1)
        with pytest.raises(InvalidInput, match="after and name"):
            await app.schedule("n", extract.options(name="x"), args={"n": 1}, every="1h")
        async with app.workflow() as flow:
            flow.add(nothing)
            for wrong in ("", "a\nb", "x" * 201, 7):
                with pytest.raises(InvalidInput, match="name: "):
                    flow.add(extract, n=1, name=wrong)


# -- jobs that come last ---------------------------------------------------------------------------------------------
async def test_the_alarm_of_a_workflow_that_failed() -> None:
    async with harness(app) as rota_test:
        async with app.workflow("bad", on_failure=(alarm, {"to": "you"}), on_success=nothing) as flow:
            first = flow.add(boom)
            flow.add(total, parts=[first])
            flow.add(nothing)
            handled = flow.add(boom, name="handled")
            flow.add(nothing, after=handled, on="finish")
        await rota_test.drain()
        assert await states(flow) == [
            "failed", "skipped", "succeeded", "failed", "succeeded", "succeeded", "skipped",
        ]  # fmt: skip
        told = (await flow.jobs())[5]
        assert await rota.Job(app, told.id).result() == ["you", "boom", "handled"]
        info = await flow.info()
        assert (info.state, info.succeeded) == ("failed", False)


async def test_the_report_of_a_workflow_that_succeeded() -> None:
    async with harness(app) as rota_test:
        async with app.workflow("good") as flow:
            rows = flow.add(extract, n=4)
            flow.add(alarm, after=rows, on="failure")
            flow.add(nothing, after=flow.add(alarm, after=rows, on="trouble"))
            warned = flow.on_failure(alarm)
            told = flow.on_success(total, parts=[flow.add(count, rows=rows)], name="report")
        await rota_test.drain()
        assert await states(flow) == ["succeeded", *["skipped"] * 3, "succeeded", "skipped", "succeeded"]
        assert await told.result() == 4
        assert ((await warned.info()).reason, (await told.info()).name) == ("nothing before it failed", "report")
        info = await flow.info()
        assert (info.state, info.succeeded, info.unneeded) == ("succeeded", True, 4)


async def test_a_cancelled_workflow_neither_alarms_nor_reports() -> None:
    async with harness(app) as rota_test:
        async with app.workflow(on_failure=["false"], on_success=app.http("POST", "https://example.com")) as flow:
            first = flow.add(extract, n=1, delay="1h")
        await first.cancel()
        await rota_test.drain()
        assert await states(flow) == ["cancelled", "skipped", "skipped"]
        assert (await flow.info()).state == "cancelled"


async def test_a_retry_of_the_workflow_arms_its_alarm_again() -> None:
    async with harness(app) as rota_test:
        async with app.workflow(on_failure=alarm, on_success=nothing) as flow:
            first = flow.add(boom)
        for tries in (1, 2):
            await rota_test.drain()
            assert await states(flow) == ["failed", "succeeded", "skipped"]
            assert [len((await rota.Job(app, job.id).info()).attempts) for job in await flow.jobs()] == [
                tries, tries, 0,
            ]  # fmt: skip
            assert await flow.retry(first if tries == 2 else None) == 1
            assert await states(flow) == ["scheduled", "blocked", "blocked"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"on_failure": 7}, "a list of arguments"),
        ({"on_failure": (alarm, 7)}, r"on_failure: .* a task, or a task and its arguments"),
        ({"on_success": (alarm,)}, r"on_success: .* a task, or a task and its arguments"),
        ({"on_failure": (alarm, {"nobody": 1})}, "'nobody' is unknown"),
        ({"on_failure": (alarm, {"after": "x"})}, "no after=: it comes after all other jobs"),
        ({"on_failure": named}, "'name' is missing"),
    ],
)
def test_hooks_that_can_t_run_are_refused_at_the_call(given: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        app.workflow("n", **given)


async def test_jobs_that_come_last_have_others_before_them() -> None:
    async with harness(app) as rota_test:
        async with app.workflow() as flow:
            flow.add(nothing)
        with pytest.raises(InvalidInput, match="at least one job besides those of on_failure and on_success"):
            async with app.workflow(of=flow, on_failure=alarm):
                pass
        with pytest.raises(InvalidInput, match=r"circle: count \(1\) -> nothing \(2\) -> count \(1\)"):
            async with app.workflow() as circle:
                circle.add(count, rows=circle.on_success(nothing))
        async with app.workflow() as flow:
            flow.add(nothing)
            rows = flow.on_success(extract, n=2)
            counted = flow.on_success(count, rows=rows)
        await rota_test.drain()
        assert await counted.result() == 2
        with pytest.raises(InvalidInput, match="on_failure: 'outside of its block'"):
            flow.on_failure(nothing)


async def test_jobs_that_come_last_count_for_the_largest_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.handles.workflow_builder.LARGEST", 2)
    async with harness(app), app.workflow(on_failure=alarm) as flow:
        flow.add(nothing)
        with pytest.raises(InvalidInput, match="at most 2; a job of it may add more"):
            flow.on_success(nothing)


async def test_an_alarm_takes_no_results() -> None:
    async with harness(app), app.workflow() as flow:
        first = flow.add(count, rows=[])
        with pytest.raises(InvalidInput, match=r"on_failure: .*that job may have failed"):
            flow.on_failure(total, parts=[first])


# -- on real stores --------------------------------------------------------------------------------------------------
@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'rota.db'}"
    else:
        with migrated_database() as url:
            yield url


def plain_sum(parts: list[int], table: dict[str, int]) -> int:
    return sum(parts) + sum(table.values())


def plain_boom(parts: list[int]) -> None:
    raise rota.Fatal(str(parts))


def plain_alarm(ctx: rota.Context) -> list[str]:
    return [parent.task for parent in ctx.parents if parent.state == "failed"]


@pytest.mark.sampled
@pytest.mark.parametrize("bad", [False, True])
async def test_results_and_alarms_on_a_node(address: str, bad: bool) -> None:
    own = rota.App(address, kill_grace="500ms", queues="default:8")
    add, fail, warn = own.task(plain_sum), own.task(plain_boom), own.task(plain_alarm)
    async with running(own):
        async with own.workflow("real", on_failure=warn) as flow:
            parts = [flow.add(add, parts=[n], table={}, name=f"part {n}") for n in range(10)]
            whole = flow.add(add, parts=parts, table={"first": parts[0], "fixed": 1000})
            if bad:
                flow.add(add, parts=[flow.add(fail, parts=parts)], table={})
        info = await flow.wait(LONG)
        assert await whole.result() == 45 + 1000
        warned = (await flow.jobs())[-1]
        if bad:
            assert info.counts == {State.SUCCEEDED: 12, State.FAILED: 1, State.SKIPPED: 1}
            assert await rota.Job(own, warned.id).result() == ["plain_boom"]
        else:
            assert (info.counts, info.unneeded) == ({State.SUCCEEDED: 11, State.SKIPPED: 1}, 1)
        assert info.succeeded is not bad
