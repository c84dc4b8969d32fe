"""What a schedule orders each time: times filled in, and nothing read back that can't be ordered."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rota.errors import InvalidInput
from rota.model.job import NewJob, Spec
from rota.model.requirements import Requirements
from rota.model.retry import Retry
from rota.model.times import HOUR, SECOND, instant
from rota.model.trigger.template import Template, from_json, to_json

NOON = instant("2027-01-01T12:00:00+00:00")
LATER = NOON + 90 * SECOND
FIRE, RUN = "2027-01-01T13:00:00+01:00", "2027-01-01T13:01:30+01:00"


def job(template: Template, at: int | None = None) -> NewJob:
    return template.job("id", at, "Europe/Berlin", NOON, LATER)


def function(args: str = "{}", **changes: Any) -> Template:
    return Template(task="t", spec=Spec.function("t"), args=args, **changes)


def test_all_options_reach_the_job() -> None:
    retry = Retry(5, "1s..1m", 0.2)
    template = function(queue="mail", priority=2, retry=retry, timeout=HOUR, expires=2 * HOUR)
    assert job(template, LATER) == NewJob(
        "id", "t", Spec.function("t"), at=LATER, queue="mail", priority=2, retry=retry, timeout=HOUR, expires=2 * HOUR
    )


def test_a_flow_reaches_the_job_and_is_checked_when_it_is_read() -> None:
    text = to_json(function(requirements=Requirements(flow="bulk")))
    assert job(from_json(text)).requirements.flow == "bulk"
    with pytest.raises(InvalidInput, match="expected an order as JSON"):
        from_json(text.replace("bulk", "\\u0000"))


def test_times_are_filled_in_wherever_a_text_names_them() -> None:
    args = '{"a": "{fire_time}", "b": ["x {scheduled_for} y", {"c": "{fire_time}/{scheduled_for}"}], "n": 7}'
    filled = msgspec.json.decode(job(function(args)).args)
    assert filled == {"a": FIRE, "b": [f"x {RUN} y", {"c": f"{FIRE}/{RUN}"}], "n": 7}


def test_other_braces_and_names_of_arguments_are_left_alone() -> None:
    args = '{"{fire_time}": "{other} {} {{fire_time}}", "b": "{fire_time"}'
    filled = msgspec.json.decode(job(function(args)).args)
    assert filled == {"{fire_time}": f"{{other}} {{}} {{{FIRE}}}", "b": "{fire_time"}


@pytest.mark.parametrize("args", ["{}", '{"a":1}', '{ "odd" :  "spaces" }', '{"n": 12345678901234567890123}'])
def test_arguments_without_times_stay_to_the_letter(args: str) -> None:
    assert job(function(args)).args == args


def test_a_command_has_times_in_its_arguments_and_its_environment() -> None:
    spec = Spec.command(["report", "--day={fire_time}", "{scheduled_for}"], "/tmp", {"AT": "{fire_time}"}, [3])
    made = job(Template(task="report", spec=spec))
    assert made.spec == Spec.command(["report", f"--day={FIRE}", RUN], "/tmp", {"AT": FIRE}, [3])
    plain = Spec.command(["report"])
    assert job(Template(task="report", spec=plain)).spec is plain


def test_what_was_written_is_read_back() -> None:
    template = function('{"a": "{fire_time}"}', queue="q", retry=Retry(1), timeout=5, expires=6)
    assert from_json(to_json(template)) == template


BROKEN: dict[str, dict[str, Any]] = {
    "no task": {"task": None},
    "an empty task": {"task": ""},
    "no specification": {"spec": None},
    "an unknown kind": {"spec": {"kind": "prayer", "body": "{}", "digest": ""}},
    "a command that is none": {"spec": {"kind": "command", "body": "{}", "digest": ""}},
    "a command of numbers": {"spec": {"kind": "command", "body": '{"argv": [1]}', "digest": ""}},
    "a call of nothing": {"spec": {"kind": "http", "body": '{"method": "GET", "url": "x"}', "digest": ""}},
    "a call that is none": {"spec": {"kind": "http", "body": "{}", "digest": ""}},
    "arguments that are no JSON": {"args": "{"},
    "arguments that are no object": {"args": "[]"},
    "a text for a priority": {"priority": "high"},
    "a priority beyond all": {"priority": 10},
    "a negative priority": {"priority": -1},
    "an empty queue": {"queue": ""},
    "a queue with a NUL": {"queue": "a\0b"},
    "a task with a NUL": {"task": "a\0b"},
    "a retry that is refused": {"retry": {"retries": -1}},
    "a timeout that no store can hold": {"timeout": 10**20},
    "an expiry that no store can hold": {"expires": 10**20},
    "a negative timeout": {"timeout": -1},
}


@pytest.mark.parametrize("what", BROKEN)
def test_what_can_t_be_ordered_is_refused(what: str) -> None:
    text = msgspec.json.decode(to_json(function()), type=dict[str, Any]) | BROKEN[what]
    with pytest.raises(InvalidInput, match=r"of the schedule|priority"):
        from_json(msgspec.json.encode(text).decode())


@pytest.mark.parametrize("text", ["", "null", "[]", "7", "{", "[" * 100_000, '{"task": "t"}'])
def test_garbage_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="order of the schedule"):
        from_json(text)


def test_the_times_of_a_fire_in_an_http_call() -> None:
    headers = {"X-At": "{fire_time}", "X-Other": "{x}"}
    spec = Spec.http("POST", "https://a/{scheduled_for}?at={fire_time}", headers, '{"at": "{fire_time}"}')
    job = Template(task="a", spec=spec).job("id", None, "Europe/Berlin", 1_800_000_000_000_000, 1_800_000_001_000_000)
    made = msgspec.json.decode(job.spec.body)
    assert made["url"] == "https://a/2027-01-15T09:00:01%2B01:00?at=2027-01-15T09:00:00%2B01:00"
    assert made["headers"]["X-At"] == "2027-01-15T09:00:00+01:00"
    assert made["headers"]["X-Other"] == "{x}"
    assert made["body"] == '{"at": "2027-01-15T09:00:00+01:00"}'
    assert job.spec == Spec.http(made["method"], made["url"], made["headers"], made["body"])


def test_binary_bodies_are_left_alone() -> None:
    spec = Spec.http("POST", "https://a/{fire_time}", body=b"{fire_time}")
    job = Template(task="a", spec=spec).job("id", None, "UTC", 0, 0)
    assert msgspec.json.decode(job.spec.body)["body"] == msgspec.json.decode(spec.body)["body"]


def test_secrets_of_a_broken_order_are_not_shown() -> None:
    spec = Spec.http("GET", "https://a/", {"Authorization": "s3cret"})
    text = to_json(Template(task="", spec=spec))
    assert "s3cret" in text
    with pytest.raises(InvalidInput) as caught:
        from_json(text)
    assert "s3cret" not in str(caught.value)
