"""Orders of single jobs as JSON: the same job as Python makes of the same options, and one clear refusal."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rota import orders
from rota.errors import InvalidInput, UnknownTask
from rota.model.graph import Edge, Need
from rota.model.job import NewJob, Spec
from rota.model.options import Options, read_options
from rota.model.retry import Retry
from rota.model.task import TaskInfo
from rota.model.times import SECOND
from rota.wire_orders.entries import OrderEntry
from rota.wire_orders.jobs import read_order, read_orders

LIMIT = 1 << 20
WELCOME = TaskInfo(
    name="welcome", parameters=("user_id", "text"), required=("user_id",), types={"user_id": ("integer",)},
    queue="mail", retry=Retry(5, "1s..1m"), exclusive="user:{user_id}",
)  # fmt: skip


class Known:
    def get(self, name: str) -> TaskInfo:
        if name != "welcome":
            raise UnknownTask(name, "no node has offered it")
        return WELCOME


def entry(order: Any) -> OrderEntry:
    return msgspec.json.decode(msgspec.json.encode(order), type=OrderEntry)


def job(order: Any) -> NewJob:
    return read_order(entry(order), LIMIT, Known()).job("1")


def test_a_task_has_its_own_options_unless_the_order_has_others() -> None:
    made = job({"task": "welcome", "args": {"user_id": 7}, "key": "w-7", "retries": 2})
    assert (made.task, made.spec, made.args, made.key) == ("welcome", Spec.function("welcome"), '{"user_id":7}', "w-7")
    assert (made.queue, made.retry) == ("mail", Retry(2, "1s..1m"))
    assert [key.name for key in made.requirements.keys] == ["user:7"]


def test_a_command_with_the_words_of_the_command_line() -> None:
    made = job({"command": ["true"], "name": "ping", "queue": "default", "in": "10s", "retries": 2, "cwd": "/tmp"})
    spec, task = orders.command(LIMIT, ["true"], "ping", {"cwd": "/tmp"})
    assert (made.spec, made.task, made.delay, made.retry.retries) == (spec, task, 10 * SECOND, 2)
    assert job({"command": ["/bin/true"]}).task == "true"


def test_an_http_call() -> None:
    made = job({"http": {"method": "POST", "url": "https://example.com/x", "json": {"a": 1}, "expect": [200, 404]}})
    call = orders.http(LIMIT, "POST", "https://example.com/x", {"json": {"a": 1}, "expect": [200, 404]})
    assert (made.spec, made.task) == (call.spec, "example.com")


def test_parents_and_results_are_ids_of_jobs() -> None:
    made = job({"task": "welcome", "args": {"user_id": 1}, "after": {"A1": "finish"}, "results": {"text": "B2"}})
    assert made.after == (Edge("a1", Need.FINISH), Edge("b2", Need.SUCCESS, (("text",),)))
    assert made.args == '{"user_id":1,"text":null}'


def test_every_option_is_read_by_the_reader_of_python() -> None:
    given = {"priority": 2, "timeout": "30s", "labels": ["a"], "limits": {"db": 5}, "full": "skip", "alone": "queue:q"}
    assert read_order(entry({"command": ["x"], **given}), LIMIT, Known()).options == read_options(Options(), given)


@pytest.mark.parametrize(
    ("order", "what"),
    [
        ({}, "task, command and http"),
        ({"task": "welcome", "command": ["x"]}, "task, command and http"),
        ({"task": "nobody"}, "task"),
        ({"task": "welcome", "args": {}}, "arguments of task 'welcome'"),
        ({"task": "welcome", "args": {"user_id": "7"}}, "arguments of task 'welcome'"),
        ({"task": "welcome", "args": {"user_id": 7}, "name": "n"}, "name"),
        ({"task": "welcome", "args": {"user_id": 7}, "cwd": "/tmp"}, "cwd"),
        ({"task": "welcome", "args": {"user_id": 7}, "results": {"user_id": "a"}}, "results"),
        ({"command": ["x"], "args": {}}, "args"),
        ({"command": []}, "command"),
        ({"command": ["x"], "in": "1s", "delay": "1s"}, "delay and in"),
        ({"command": ["x"], "at": "2090-01-01T00:00:00Z", "in": "1s"}, "at and in"),
        ({"command": ["x"], "in": "soon"}, "in"),
        ({"command": ["x"], "delay": "soon"}, "delay"),
        ({"command": ["x"], "priority": 10}, "priority"),
        ({"command": ["x"], "results": {"a": "b"}}, "results"),
        ({"http": {"method": "POST", "url": "ftp://x"}}, "url"),
        ({"http": {"method": "POST", "url": "http://x"}, "env": {"A": "b"}}, "env"),
    ],
)
def test_refusals_name_the_field(order: dict[str, Any], what: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        job(order)
    assert refused.value.what == what


def test_a_list_names_the_place_of_a_bad_order() -> None:
    wanted = [entry({"command": ["x"]}), entry({"command": ["x"], "queue": "no queue"})]
    with pytest.raises(InvalidInput, match=r"^jobs\[1\]: queue: ") as refused:
        read_orders(wanted, LIMIT, Known())
    assert refused.value.what == "jobs[1].queue"
