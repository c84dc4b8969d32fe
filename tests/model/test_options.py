"""The table of options, held against all that is written by hand: structs, readers, signatures; and every option given
in each way that there is."""

from __future__ import annotations

import argparse
import inspect
import typing
from enum import StrEnum
from typing import Any

import msgspec
import pytest

from rota.cli.parser import build
from rota.cli.reference import options, verbs
from rota.cli.submit import about_command, order_options
from rota.config import Settings
from rota.errors import InvalidInput
from rota.handles import keywords
from rota.model import resources
from rota.model.graph import Need
from rota.model.job import CommandSpec, NewJob, Spec, shared
from rota.model.limits import Policy
from rota.model.option_table import (
    CALL_NAMES,
    CALLS,
    COMMAND_NAMES,
    COMMANDS,
    JOBS,
    NAME,
    ORDER_NAMES,
    SCHEDULE_NAMES,
    TASK_NAMES,
    Option,
    names,
)
from rota.model.options import NAMED_ORDER, READERS, Drained, Options, TaskOptions, new_job, read_options, requirements
from rota.model.retry import Retry
from rota.model.task import TaskInfo
from rota.model.trigger import reading
from rota.model.trigger.policies import CatchUp, Fold, Gap, Missed, Overlap
from rota.model.trigger.template import Template
from rota.tasks.catalogue import Isolation
from rota.wire_orders.entries import HttpEntry, JobEntry, OrderEntry
from rota.wire_orders.jobs import options_of

EVERY = (*JOBS, NAME, *COMMANDS, *CALLS)
VERBS = {verb.prog.removeprefix("rota "): verb for verb in verbs(build())}
# Each option in Python, as words of the command line, and as fields of a workflow file.
GIVEN: dict[str, tuple[dict[str, Any], list[str], dict[str, Any]]] = {
    "at": ({"at": "2090-01-01T00:00:00Z"}, ["--at", "2090-01-01T00:00:00Z"], {"at": "2090-01-01T00:00:00Z"}),
    "delay": ({"delay": 90}, ["--in", "90s"], {"delay": "90s"}),
    "priority": ({"priority": 2}, ["--priority", "2"], {"priority": 2}),
    "queue": ({"queue": "mail"}, ["--queue", "mail"], {"queue": "mail"}),
    "retry": (
        {"retry": Retry(7, "1s..1m")},
        ["--retries", "7", "--backoff", "1s..1m"],
        {"retries": 7, "backoff": "1s..1m"},
    ),
    "timeout": ({"timeout": "5m"}, ["--timeout", "5m"], {"timeout": 300}),
    "expires": ({"expires": "1h"}, ["--expires", "1h"], {"expires": "1h"}),
    "key": ({"key": "k"}, ["--key", "k"], {"key": "k"}),
    "secrets": ({"secrets": ["a", "b"]}, ["--secret", "b", "--secret", "a"], {"secrets": ["a", "b"]}),
    "labels": ({"labels": ["a", "b"]}, ["--label", "a", "--label", "b"], {"labels": ["a", "b"]}),
    "flow": ({"flow": "bulk mail"}, ["--flow", "bulk mail"], {"flow": "bulk mail"}),
    "exclusive": ({"exclusive": "u:{n}"}, ["--exclusive", "u:{n}"], {"exclusive": "u:{n}"}),
    "rate": ({"rate": "60/1m"}, ["--rate", "60/1m"], {"rate": "60/1m"}),
    "limits": ({"limits": {"db": 5, "x": None}}, ["--limit", "db=5", "--limit", "x"], {"limits": {"db": 5, "x": None}}),
    "full": ({"full": "skip", "rate": "1/s"}, ["--full", "skip", "--rate", "1/s"], {"full": "skip", "rate": "1/s"}),
    "alone": ({"alone": "queue:mail"}, ["--alone", "queue:mail"], {"alone": "queue:mail"}),
    "drain": ({"drain": "1m", "alone": "all"}, ["--drain", "1m", "--alone", "all"], {"drain": 60, "alone": "all"}),
    "drained": (
        {"drained": "cancel", "alone": "all"},
        ["--drained", "cancel", "--alone", "all"],
        {"drained": "cancel", "alone": "all"},
    ),
}


# -- the table and what is written by hand ---------------------------------------------------------------------------
def test_names_are_unique_and_parts_have_a_whole() -> None:
    assert len({one.name for one in EVERY}) == len(EVERY)
    whole = {one.name for one in EVERY if not one.part_of}
    assert all(one.part_of in whole for one in EVERY if one.part_of)
    assert all(one.metavar for one in EVERY if one.part_of)


def test_every_option_has_a_reader_and_a_value() -> None:
    assert set(READERS) == set(NAMED_ORDER) - {"after", "on"}  # which are read together
    assert set(Options.__struct_fields__) == {*ORDER_NAMES, "job_name"} - {"on"}
    assert set(TaskOptions.__struct_fields__) == set(TASK_NAMES)
    assert set(TASK_NAMES) < set(SCHEDULE_NAMES) < set(ORDER_NAMES)


@pytest.mark.parametrize("option", [one for one in JOBS if one.default and one.name in READERS], ids=lambda o: o.name)
def test_the_default_that_is_told_is_the_one_that_counts(option: Option) -> None:
    told: Any = int(option.default) if option.kind == "whole" else option.default
    assert READERS[option.name](told) == getattr(Options(), option.name)


def test_signatures_take_the_options() -> None:
    assert set(keywords.JobKeywords.__annotations__) == set(TASK_NAMES)
    assert set(keywords.AllSettingKeywords.__annotations__) == set(Settings.__struct_fields__)
    assert set(keywords.TaskKeywords.__annotations__) == {*TASK_NAMES, "name", "aliases", "isolation"}
    assert set(keywords.FireKeywords.__annotations__) == set(SCHEDULE_NAMES)
    assert set(keywords.OrderKeywords.__annotations__) == set(NAMED_ORDER)
    assert set(keywords.CommandOrderKeywords.__annotations__) == {*ORDER_NAMES, *COMMAND_NAMES}
    assert set(keywords.CallKeywords.__annotations__) == set(CALL_NAMES)
    assert set(keywords.CallOrderKeywords.__annotations__) == {*ORDER_NAMES, *CALL_NAMES}
    assert set(keywords.DeclaredKeywords.__annotations__) == {*SCHEDULE_NAMES, *reading.NAMES} - set(reading.KINDS)
    assert set(keywords.ScheduleKeywords.__annotations__) == {*SCHEDULE_NAMES, *reading.NAMES, *names(COMMANDS)}
    assert set(inspect.signature(Spec.command).parameters) == {"argv", *names(COMMANDS)}
    assert set(CommandSpec.__struct_fields__) == {"argv", *names(COMMANDS)}
    assert set(resources.READERS) == {one.name for one in COMMANDS if one.part_of == "resources"}


@pytest.mark.parametrize(
    ("place", "name", "words"),
    [
        (keywords.JobKeywords, "full", Policy), (keywords.JobKeywords, "drained", Drained),
        (keywords.TaskKeywords, "isolation", Isolation), (keywords.OrderKeywords, "on", Need),
        (keywords.DeclaredKeywords, "gap", Gap), (keywords.DeclaredKeywords, "fold", Fold),
        (keywords.DeclaredKeywords, "overlap", Overlap), (keywords.DeclaredKeywords, "catch_up", Missed),
    ],
)  # fmt: skip
def test_editors_are_told_the_words_that_an_option_takes(place: Any, name: str, words: type[StrEnum]) -> None:
    hint = eval(place.__annotations__[name].__forward_arg__, vars(keywords) | {"CatchUp": CatchUp})
    (literal,) = (part for part in typing.get_args(hint) if typing.get_origin(part) is typing.Literal)
    assert list(typing.get_args(literal)) == list(words)


def test_the_same_fields_reach_jobs_templates_and_tasks() -> None:
    chosen = read_options(Options(), {"queue": "mail", "priority": 2, "timeout": "5s", "expires": "1h", "retry": 7})
    job = new_job("1", Spec.function("t"), "t", "{}", chosen)
    assert shared(job, Options) == shared(chosen, NewJob)
    assert set(shared(chosen, Template)) == set(Template.__struct_fields__) - {"task", "spec", "args", "requirements"}


def test_a_task_keeps_its_options_as_json() -> None:
    given = {name: value for name in TASK_NAMES for value in [GIVEN[name][0][name]]}
    chosen = read_options(Options(), given)
    info = TaskInfo("t", **shared(chosen, TaskInfo))
    again = msgspec.json.decode(msgspec.json.encode(info), type=TaskInfo)
    assert again == info
    assert Options(**shared(again, Options)) == chosen


# -- each way to give them -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", sorted(set(ORDER_NAMES) - {"after", "on"}))
def test_an_option_means_the_same_however_it_is_given(name: str) -> None:
    python, words, fields = GIVEN[name]
    chosen = read_options(Options(), python)
    assert chosen != Options()
    args = build().parse_args(["submit", *words, "t"])
    assert read_options(Options(), order_options(args, Retry())) == chosen
    job = msgspec.json.decode(msgspec.json.encode({"name": "j", **fields}), type=JobEntry)
    assert options_of(job, Options()) == chosen
    if name in SCHEDULE_NAMES:
        words = ["--job-limit" if word == "--limit" else word for word in words]
        args = build().parse_args(["schedule", "add", *words, "n", "@daily", "t"])
        assert read_options(Options(), order_options(args, Retry()), SCHEDULE_NAMES) == chosen


@pytest.mark.parametrize(
    ("verb", "table", "place"),
    [
        ("run", JOBS, "order"), ("submit", JOBS, "order"), ("schedule add", JOBS, "schedule"),
        ("schedule import crontab", JOBS, "schedule"), ("run", COMMANDS, "order"), ("submit", CALLS, "order"),
        ("schedule add", (NAME, *COMMANDS, *CALLS), "schedule"),
    ],
)  # fmt: skip
def test_verbs_take_the_flags_of_their_place_and_no_others(verb: str, table: tuple[Option, ...], place: Any) -> None:
    taken = {action.dest: action for action in options(VERBS[verb])}
    for one in table:
        if one.metavar and place in one.places and not (one.functions and verb == "run"):
            assert taken[one.name].option_strings == [one.flag_at(place)]
            assert str(taken[one.name].help).startswith(one.help)
        else:
            assert one.name not in taken or one.name in ("json",)


def test_a_command_is_told_all_that_can_be_said_of_it() -> None:
    args = build().parse_args(["submit", "t"])
    assert set(about_command(args)) == set(COMMAND_NAMES)


def test_orders_as_json_have_the_fields_of_the_table() -> None:
    fields = {one.name for one in (*JOBS, *COMMANDS) if one.json is not None}
    for entry in (JobEntry, OrderEntry):
        assert set(entry.__struct_encode_fields__) == {"name", "task", "args", "command", "http", "in", *fields}
    assert set(HttpEntry.__struct_fields__) == {"method", "url", *(one.name for one in CALLS if one.json is not None)}


# -- what is refused -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"prority": 1}, "option: 'prority' is not valid; expected one of at, delay, priority, queue, "),
        ({"at": "2090-01-01T00:00:00Z", "delay": 1}, "at and delay: 'both' is not valid; expected one of them"),
        ({"on": "finish"}, "on: 'finish' is not valid; expected it together with after=, "),
        ({"drain": "1m"}, "drain: '1m' is not valid; expected it together with alone=, "),
        ({"drained": "cancel"}, "drained: 'cancel' is not valid; expected it together with alone=, "),
        ({"full": "skip"}, "full: 'skip' is not valid; expected it together with exclusive=, rate= or limits="),
        ({"full": "x", "rate": "1/s"}, "full: 'x' is not valid; expected one of wait, skip, replace"),
        ({"drained": "x", "alone": "all"}, "drained: 'x' is not valid; expected one of yield, cancel"),
        ({"timeout": 0}, "timeout: 0 is not valid; expected a duration longer than 0s"),
        ({"retry": True}, "retry: True is not valid; expected a number of retries or rota.Retry"),
        ({"key": ""}, "key: '' is not valid; expected a text of 1 to 255 printable characters"),
        ({"queue": "a b"}, "queue: 'a b' is not valid; expected letters, digits and -_.@, at most 100"),
        ({"exclusive": ""}, "exclusive: '' is not valid; expected a key such as user:{user_id}"),
        ({"limits": ["db"]}, "limits: ['db'] is not valid; expected keys and their bounds such as "),
        ({"flow": ""}, "flow: '' is not valid; expected 1 to 200 printable characters without blanks around them"),
        ({"flow": 7}, "flow: 7 is not valid; expected 1 to 200 printable characters"),
        ({"flow": "a\0"}, "flow: 'a\\x00' is not valid; expected 1 to 200 printable characters"),
        ({"flow": "x" * 201}, "flow: 'xxxx"),
        ({"flow": "user:{"}, "key: 'user:{' is not valid; expected "),
        ({"after": 7}, "after: 7 is not valid; expected a job or its id, "),
    ],
)
def test_what_is_wrong_is_told_in_one_line(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_options(Options(), given)
    assert str(refused.value).startswith(problem)
    assert "\n" not in str(refused.value)


def test_arguments_are_filled_into_keys_and_flows() -> None:
    options = read_options(Options(), {"exclusive": "user:{user_id}", "flow": "of:{user_id}"})
    found = requirements("mail", '{"user_id": 7}', options)
    assert ([key.name for key in found.keys], found.flow) == (["user:7"], "of:7")
    with pytest.raises(InvalidInput, match="user_id"):
        requirements("mail", "{}", options)


def test_a_place_refuses_the_options_of_others() -> None:
    for place, allowed in (("task", TASK_NAMES), ("schedule", SCHEDULE_NAMES)):
        for name in set(ORDER_NAMES) - set(allowed):
            with pytest.raises(InvalidInput, match=f"option: '{name}'"):
                read_options(Options(), {name: None}, allowed)
        assert "key" not in allowed, place


def test_none_counts_as_not_given() -> None:
    assert read_options(Options(), dict.fromkeys(ORDER_NAMES)) == Options()


def test_the_namespace_of_argparse_needs_no_option_of_another_place() -> None:
    args: argparse.Namespace = build().parse_args(["schedule", "import", "crontab", "-"])
    assert set(order_options(args, Retry())) == set(SCHEDULE_NAMES)
