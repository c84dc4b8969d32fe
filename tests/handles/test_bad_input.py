"""Wrong calls of the public surface: one error of rota's, at the call, that names the argument, the value and what is
right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import rota
from rota.testing import harness, run

app = rota.App("sqlite:///:memory:", name="shop")


@app.task
def add(a: int, b: int = 2) -> int:
    return a + b


other = rota.App("sqlite:///:memory:", name="office")


@other.task
def foreign() -> None: ...


task: Any = add
shop: Any = app  # unchecked, as calls of untyped code are


def untyped(value: Any) -> Any:
    return value


def flow_with(work: Any) -> None:
    with app.workflow() as flow:
        flow.add(work)


WRONG: list[tuple[Callable[[], Any], str]] = [
    (lambda: task.submit_sync(), r"arguments of task 'add': 'a' is missing; it takes a, b"),
    (lambda: task.submit_sync("x"), r"arguments of task 'add': 'a' must be int, not 'x'"),
    (lambda: task.submit_sync(1, 2, 3), r"arguments of task 'add': \[1, 2, 3\] .* at most 2 arguments \(a, b\)"),
    (lambda: task.submit_sync(1, a=2), r"arguments of task 'add': \['a'\] .* each argument once"),
    (lambda: task.submit_sync(1, c=2), r"arguments of task 'add': 'c' is unknown"),
    (lambda: task.submit_sync(a=object()), r"argument 'a' of task 'add': .*object is no JSON"),
    (lambda: task.arguments(1, 2, 3), r"arguments of task 'add': \[1, 2, 3\] .* at most 2 arguments"),
    (lambda: task.arguments("x"), r"arguments of task 'add': 'a' must be int, not 'x'"),
    (lambda: task.arguments(b=1), r"arguments of task 'add': 'a' is missing"),
    (lambda: shop.stub("mail")(add.function).arguments("x"), r"arguments of task 'mail': 'a' must be int, not 'x'"),
    (lambda: task.submit_many_sync(7), r"arguments: 7 .* a list with a mapping"),
    (lambda: task.submit_many_sync([7]), r"arguments\[0\]: 7 .* a mapping of names to values"),
    (lambda: task.submit_many_sync([{"a": 1}, {"a": 2}], key="k"), r"key: 'k' .* a key per job"),
    (lambda: task.options(key="k").submit_many_sync([{"a": 1}, {"a": 2}]), r"key: 'k' .* a key per job"),
    (lambda: task.options(dely=1), r"option: 'dely' .* one of at, delay, "),
    (lambda: task.options(delay="soon"), r"delay: 'soon' .* a duration such as 90s"),
    (lambda: task.options(at="tomorrow"), r"at: 'tomorrow' .* ISO 8601"),
    (lambda: task.options(priority=10), r"priority: 10 "),
    (lambda: task.options(on="finish"), r"on: 'finish' .* together with after="),
    (lambda: task.options(after=7), r"after: 7 .* a job or its id"),
    (lambda: task.within(None), r"within: None .* a connection"),
    (lambda: shop.stub("mail").within(None), r"within: None .* a connection"),
    (lambda: shop.submit_command_sync("ls"), r"command: 'ls' .* a list of arguments"),
    (lambda: shop.submit_command_sync(["ls"], cwdd="/"), r"option: 'cwdd' .* one of .*cwd"),
    (lambda: shop.submit_http_sync("GET", "ftp://a"), r"ftp://a"),
    (lambda: shop.http("GET", "http://a", jsn=1), r"option: 'jsn' .* one of headers, json"),
    (lambda: shop.stub(7), r"task name: 7 .* a name of up to 200"),
    (lambda: shop.cron(7), r"cron: 7 .* an expression"),
    (lambda: shop.every("90s", crn=1)(task), r"option: 'crn' .* one of"),
    (lambda: shop.schedule_sync("x", task, cron="61 * * * *", args={"a": 1}), r"61"),
    (lambda: shop.schedule_sync("x", task, args={"a": 1}), r"rule: None .* one of cron, every, rrule, at"),
    (lambda: shop.schedule_sync("x", foreign, every="1h"), r"task: <Task 'foreign' .* 'shop' .* 'office'"),
    (lambda: shop.schedule_sync("x", other.stub("n"), every="1h"), r"task: <Stub .* 'shop' .* 'office'"),
    (lambda: shop.every("1h")(foreign), r"task: <Task 'foreign' .* 'shop' .* 'office'"),
    (lambda: shop.schedule_sync("x", "add", every="1h"), r"task: 'add' .* a task, a command as a list .*app.http"),
    (lambda: shop.schedule_sync("x", 3, every="1h"), r"task: 3 .* a task, a command as a list .*app.http"),
    (lambda: shop.workflow(on_failure=foreign), r"task: <Task 'foreign' .* 'shop' .* 'office'"),
    (lambda: shop.workflow(on_failure=3), r"on_failure: 3 .* a task, a command as a list .*app.http"),
    (lambda: shop.workflow(on_success=(foreign, {})), r"task: <Task 'foreign' .* 'shop' .* 'office'"),
    (lambda: flow_with(foreign), r"task: <Task 'foreign' .* 'shop' .* 'office'"),
    (lambda: flow_with("add"), r"add: 'add' .* a task, a command as a list .*app.http"),
    (lambda: shop.job_sync("x", task="add"), r"task: 'add' .* a task of this app: a function below @app.task"),
    (lambda: shop.job_sync("x", task=foreign), r"task: <Task 'foreign' .* 'shop' .* 'office'"),
    (lambda: shop.job_sync(None), r"job id: None .* a text"),
    (lambda: shop.job_sync(3), r"job id: 3 .* a text"),
    (lambda: rota.Job(untyped("a"), "x"), r"app: 'a' .* a rota.App"),
    (lambda: rota.Job(app, untyped(3)), r"job id: 3 .* a text"),
    (lambda: rota.Workflow(untyped(3), "x"), r"app: 3 .* a rota.App"),
    (lambda: rota.Schedule(untyped(3), "x"), r"app: 3 .* a rota.App"),
    (lambda: rota.Schedule(app, "x").next_sync(untyped("x")), r"count: 'x' .* a whole number"),
    (lambda: run(app, untyped("add"), a=1), r"task: 'add' .* a task of this app"),
    (lambda: run(app, untyped(foreign)), r"task: <Task 'foreign' .* 'shop' .* 'office'"),
    (lambda: shop.stub("n").options(dely="x"), r"option: 'dely' .* one of at, delay, "),
    (lambda: shop.stub("n").options(delay="soon"), r"delay: 'soon' .* a duration such as 90s"),
    (lambda: shop.jobs(task="zzz").reprioritise_sync(99), r"priority: 99 .* from 0"),
    (lambda: shop.dead().purge_sync(), r"no condition.* at least one condition; app.jobs\(state='failed'\)"),
    (lambda: shop.dead(task=None).cancel_sync(), r"no condition.* at least one condition"),
    (lambda: shop.dead(state="ready"), r"state: 'ready' .* no second condition on state: the query has failed$"),
    (lambda: harness(app, eagr=True), r"option: 'eagr' .* one of now, seed, eager, .* a setting of rota.App"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "problem"), WRONG, ids=[problem[:40] for _, problem in WRONG])
def test_a_wrong_call_is_refused_where_it_is_made(call: Callable[[], Any], problem: str) -> None:
    with pytest.raises(rota.InvalidInput, match=problem) as refused:
        call()
    assert "\n" not in str(refused.value)
