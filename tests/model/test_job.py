"""A job on its way in, in a worker's hands, and as people see it."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.errors import InvalidInput
from rota.model.graph import Edge
from rota.model.job import (
    DEFAULT_QUEUE,
    AttemptInfo,
    Claimed,
    CommandSpec,
    FunctionSpec,
    JobInfo,
    Kind,
    NewJob,
    Ref,
    Spec,
    Verdict,
)
from rota.model.lifecycle import TERMINAL, State
from rota.model.outcome import Ending, Problem, Usage
from rota.model.rank import DEFAULT_PRIORITY
from rota.model.requirements import Requirements
from rota.model.retry import Retry
from rota.model.times import LATEST, LONGEST, MINUTE, SECOND, as_timedelta, aware, duration
from rota.views.jobs import AttemptView, JobView

WHEN = 1_798_790_400 * SECOND  # 2027-01-01T08:00:00Z

# What the operating system takes as an argument or a name: any text in UTF-8 without NUL.
words = st.text(st.characters(codec="utf-8", exclude_characters="\0"))
names = st.text(st.characters(codec="utf-8", exclude_characters="\0="), min_size=1)
argvs = st.builds(lambda head, rest: [head, *rest], words.filter(bool), st.lists(words, max_size=4))
environments = st.dictionaries(names, words, max_size=4)
folders = st.none() | words.map("/{}".format)
instants = st.integers(0, LATEST)
times = instants.map(aware)
spans = st.integers(0, LONGEST)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
problems = st.builds(Problem, words, words, st.none() | words)
attempts = st.builds(
    AttemptInfo,
    number=st.integers(1, 99),
    fence=st.integers(1, 99),
    node=words,
    started_at=times,
    finished_at=st.none() | times,
    outcome=st.none() | st.sampled_from(Ending),
    exit_code=st.none() | st.integers(-64, 255),
    error=st.none() | problems,
    usage=st.none() | st.builds(Usage, spans, spans, st.integers(0, 2**40), st.just(("process",))),
)
jobs = st.builds(
    JobInfo,
    id=st.uuids(version=4).map(str),
    owner=words,
    task=words,
    kind=st.sampled_from(Kind),
    spec=st.dictionaries(words, values, max_size=3),
    args=st.dictionaries(words, values, max_size=3),
    queue=words,
    priority=st.integers(0, 9),
    state=st.sampled_from(State),
    reason=st.none() | words,
    run_at=times,
    created_at=times,
    started_at=st.none() | times,
    finished_at=st.none() | times,
    expires_at=st.none() | times,
    timeout=st.none() | spans.map(as_timedelta),
    retry=st.sampled_from([Retry(), Retry(0), Retry(5, "30s", 0, {ValueError: "fatal"})]),
    node=st.none() | words,
    cancelling=st.booleans(),
    key=st.none() | words,
    attempts=st.lists(attempts, max_size=3),
    result=values,
    error=st.none() | problems,
)


def job(**changes: Any) -> JobInfo:
    plain: dict[str, Any] = {
        "id": "018cc251-f400-7000-8000-000000000000",
        "owner": "local",
        "task": "mail.welcome",
        "kind": Kind.FUNCTION,
        "spec": {"name": "mail.welcome"},
        "args": {"user_id": 7},
        "queue": "mail",
        "priority": 2,
        "state": State.READY,
        "run_at": aware(WHEN),
        "created_at": aware(WHEN - MINUTE),
    }
    return JobInfo(**plain | changes)


def order(**changes: Any) -> NewJob:
    plain: dict[str, Any] = {"id": "1", "task": "mail.welcome", "spec": Spec.function("mail.welcome")}
    return NewJob(**plain | changes)


@given(argvs, folders, environments)
def test_the_same_command_has_the_same_digest_in_whatever_order_its_environment_is_given(
    argv: list[str], cwd: str | None, env: dict[str, str]
) -> None:
    one = Spec.command(argv, cwd, env)
    other = Spec.command(list(argv), cwd, dict(reversed(env.items())))
    assert one == other
    assert len(one.digest) == 64


@given(argvs, folders, environments)
def test_a_command_can_be_read_back_from_its_specification(
    argv: list[str], cwd: str | None, env: dict[str, str]
) -> None:
    spec = Spec.command(argv, cwd, env)
    assert spec.kind is Kind.COMMAND
    assert msgspec.json.decode(spec.body, type=CommandSpec) == CommandSpec(argv, cwd, env)


commands = st.tuples(argvs, folders, environments)


@given(commands, commands)
def test_commands_share_a_digest_only_if_they_are_the_same(one: Any, other: Any) -> None:
    assert (Spec.command(*one).digest == Spec.command(*other).digest) == (one == other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Spec.command(["a", "b"]), Spec.command(["a b"])),
        (Spec.command(["a", ""]), Spec.command(["a"])),
        (Spec.command(["a", "b"]), Spec.command(["b", "a"])),
        (Spec.command(["a"]), Spec.command(["a"], cwd="/tmp")),
        (Spec.command(["a"], cwd="/"), Spec.command(["a"])),
        (Spec.command(["a"]), Spec.command(["a"], env={"A": ""})),
        (Spec.command(["a"], env={"A": "B"}), Spec.command(["a"], env={"B": "A"})),
        (Spec.function("a"), Spec.function("A")),
        (Spec.function("a"), Spec.command(["a"])),
    ],
)
def test_what_differs_has_another_digest(one: Spec, other: Spec) -> None:
    assert one.digest != other.digest


@given(words, words)
def test_functions_share_a_digest_only_if_they_share_the_name(one: str, other: str) -> None:
    assert (Spec.function(one).digest == Spec.function(other).digest) == (one == other)
    assert msgspec.json.decode(Spec.function(one).body, type=FunctionSpec).name == one


def test_the_kind_is_part_of_the_digest() -> None:
    body = FunctionSpec("a")
    one, other = Spec.of(Kind.FUNCTION, body), Spec.of(Kind.COMMAND, body)
    assert one.body == other.body
    assert one.digest != other.digest


def test_digests_are_the_same_in_every_process_and_release() -> None:
    # Stored digests are compared with new ones: whoever changes how they are made must migrate the stores.
    function = b'function\0{"name":"mail.welcome"}'
    command = b'command\0{"argv":["echo","hello"],"cwd":"/tmp","env":{"A":"1","B":"2"}}'
    assert Spec.function("mail.welcome").digest == sha256(function).hexdigest()
    assert Spec.command(["echo", "hello"], "/tmp", {"B": "2", "A": "1"}).digest == sha256(command).hexdigest()


def test_no_environment_and_an_empty_one_are_the_same() -> None:
    assert Spec.command(["a"]) == Spec.command(["a"], None, {}) == Spec.command(["a"], env=None)


def test_a_specification_does_not_change_with_the_list_it_was_made_from() -> None:
    argv = ["echo", "hello"]
    spec = Spec.command(argv)
    argv.append("world")
    assert spec == Spec.command(["echo", "hello"])


@pytest.mark.parametrize(
    "argv",
    ["echo hello", b"echo", None, 5, {"echo": 1}, {"echo"}, [], (), [""], ["", "a"], [None], [0]],
    ids=repr,
)
def test_what_is_no_list_of_arguments_is_refused(argv: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^command: "):
        Spec.command(argv)


@pytest.mark.parametrize("bad", ["nul\0", "\0", "\ud800", 5, None, b"a", ["a"], True], ids=repr)
def test_arguments_are_texts_that_a_process_can_be_given(bad: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^(command|env|cwd): .* expected texts "):
        Spec.command(["a", bad])
    with pytest.raises(InvalidInput, match=r"^(command|env|cwd): .* expected texts "):
        Spec.command(["a"], env={"A": bad})


@pytest.mark.parametrize("bad", ["/tmp\0", "/\udfff", 5, b"/tmp"], ids=repr)
def test_the_folder_is_a_text_that_a_process_can_be_given(bad: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^(command|env|cwd): .* expected texts "):
        Spec.command(["a"], cwd=bad)


@pytest.mark.parametrize("name", ["", "=", "A=B", "A=", "\0", "\ud800", 5, None], ids=repr)
def test_names_of_the_environment_can_be_set(name: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^(env|command): "):
        Spec.command(["a"], env={name: "x"})


@given(st.lists(st.integers(1, 255), max_size=4))
def test_fatal_exit_codes_are_part_of_the_command(codes: list[int]) -> None:
    spec = Spec.command(["a"], fatal_exit_codes=codes)
    assert msgspec.json.decode(spec.body, type=CommandSpec).fatal_exit_codes == sorted(set(codes))
    assert spec.digest == Spec.command(["a"], fatal_exit_codes=codes[::-1]).digest
    assert (spec.digest == Spec.command(["a"]).digest) == (not codes)


@pytest.mark.parametrize("code", [0, 256, -1, True, 1.0, "1", None], ids=repr)
def test_a_fatal_exit_code_is_one_that_a_failed_command_can_have(code: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^fatal exit code: .* a whole number from 1 to 255"):
        Spec.command(["a"], fatal_exit_codes=[3, code])


@pytest.mark.parametrize(
    "change",
    [
        {"task": "mail.goodbye"},
        {"spec": Spec.function("mail.goodbye")},
        {"spec": Spec.command(["mail.welcome"])},
        {"args": '{"user_id":7}'},
        {"queue": "mail"},
        {"priority": DEFAULT_PRIORITY + 1},
        {"at": WHEN},
        {"at": 0},
        {"delay": 1},
        {"retry": Retry(0)},
        {"retry": Retry(backoff="1s")},
        {"retry": Retry(jitter=0.5)},
        {"retry": Retry(rules={"ValueError": "fatal"})},
        {"timeout": 0},
        {"expires": 0},
        {"job_name": "first"},
        {"after": (Edge("p"),)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_whatever_is_ordered_is_part_of_the_content(change: dict[str, Any]) -> None:
    assert order(**change).content() != order().content()


def test_every_field_of_an_order_was_looked_at_for_its_content() -> None:
    in_content = {
        "task",
        "spec",
        "args",
        "queue",
        "priority",
        "at",
        "delay",
        "retry",
        "timeout",
        "expires",
        "after",
        "job_name",
        "requirements",
    }
    assert set(NewJob.__struct_fields__) - in_content == {"id", "key", "workflow", "meta"}


def test_a_repeated_order_gets_a_new_id_and_has_the_same_content() -> None:
    assert order(id="2", key="k").content() == order(id="1", key=None).content()


def test_results_of_parents_are_content_and_fresh_ids_are_not() -> None:
    def child(parent: str, *fills: tuple[str | int, ...]) -> str:
        return order(id="c", after=(Edge(parent, fills=fills),)).content({parent: 0, "c": 1})

    assert child("p", ("rows",)) == child("q", ("rows",))
    assert len({child("p"), child("p", ("rows",)), child("p", ("rows", 0)), child("p", ("rows",), ("n",))}) == 4


def test_the_same_number_in_another_place_is_other_content() -> None:
    contents = {order(**{field: 5 * SECOND}).content() for field in ("at", "delay", "timeout", "expires")}
    assert len(contents) == 4


def test_rules_in_another_order_are_the_same_content() -> None:
    one = Retry(rules={ValueError: "fatal", KeyError: "5s"})
    other = Retry(rules={KeyError: "5s", ValueError: "fatal"})
    assert order(retry=one).content() == order(retry=other).content()


@given(words, words, st.integers(0, 9), st.none() | instants, st.integers(0, LONGEST))
def test_content_is_a_function_of_the_order(args: str, queue: str, priority: int, at: int | None, delay: int) -> None:
    make = {"args": args, "queue": queue, "priority": priority, "at": at, "delay": delay}
    assert order(**make).content() == order(id="2", **make).content()
    assert order(**make).content() != order(**make | {"delay": delay + 1}).content()


def test_an_order_with_nothing_said_runs_now_in_the_default_queue() -> None:
    new = order()
    assert (new.queue, new.priority, new.at, new.delay) == (DEFAULT_QUEUE, DEFAULT_PRIORITY, None, 0)
    assert (new.args, new.timeout, new.expires, new.key) == ("{}", None, None, None)
    assert new.retry == Retry(3)


def test_a_claim_knows_the_name_of_its_writes_and_keeps_broken_texts_as_they_are() -> None:
    claimed = Claimed("j", 4, "local", "mail", "function", "mail.welcome", 2, 99, 3, 1, None, "not json", "{", "", None)
    assert claimed.ref == Ref("j", 4)
    assert (claimed.number, claimed.failures, claimed.started_at) == (3, 1, None)
    row = list(msgspec.structs.astuple(claimed))
    assert msgspec.convert(row, Claimed) == claimed, "a row of a store is a claim, column by column"


def test_attempts_are_told_apart_by_their_fence() -> None:
    assert len({Ref("j", 1), Ref("j", 2), Ref("k", 1), Ref("j", 1)}) == 3


def test_the_store_has_four_answers() -> None:
    assert [str(verdict) for verdict in Verdict] == ["applied", "already", "stale", "early"]


@pytest.mark.parametrize("state", State)
def test_a_job_has_ended_exactly_in_a_terminal_state(state: State) -> None:
    assert job(state=state).ended == (state in TERMINAL)


@given(jobs)
def test_every_job_can_be_shown_as_json_and_nothing_is_lost_on_the_way(info: JobInfo) -> None:
    wire = msgspec.to_builtins(JobView.of(info))
    shown = json.loads(json.dumps(wire, allow_nan=False))
    assert shown == wire
    assert set(shown) == {*JobInfo.__struct_fields__, *Requirements.__struct_fields__} - {"requirements"}
    for name in ("run_at", "created_at", "started_at", "finished_at", "expires_at"):
        moment = getattr(info, name)
        assert shown[name] is None if moment is None else datetime.fromisoformat(shown[name]) == moment
    for name in (
        "id",
        "owner",
        "task",
        "kind",
        "spec",
        "args",
        "queue",
        "priority",
        "state",
        "result",
        "key",
    ):
        assert shown[name] == getattr(info, name)
    assert (
        shown["timeout"] is None if info.timeout is None else as_timedelta(duration(shown["timeout"])) == info.timeout
    )
    assert [entry["number"] for entry in shown["attempts"]] == [entry.number for entry in info.attempts]


@given(jobs)
def test_a_job_is_the_same_after_a_way_through_json(info: JobInfo) -> None:
    assert msgspec.json.decode(msgspec.json.encode(info), type=JobInfo) == info


@given(attempts)
def test_every_attempt_can_be_shown_as_json(attempt: AttemptInfo) -> None:
    shown = msgspec.json.decode(msgspec.json.encode(AttemptView.of(attempt)))
    wanted = {"number", "node", "started_at", "finished_at", "outcome", "exit_code", "error"}
    assert wanted <= set(shown)
    assert datetime.fromisoformat(shown["started_at"]) == attempt.started_at
    for name in ("number", "fence", "node", "outcome", "exit_code"):
        assert shown[name] == getattr(attempt, name)
    assert (shown["finished_at"] is None) == (attempt.finished_at is None)
    assert (shown["error"] is None) == (attempt.error is None)
    if attempt.error:
        assert msgspec.convert(shown["error"], Problem) == attempt.error


def test_a_finished_job_as_people_see_it() -> None:
    problem = Problem("builtins.ValueError", "no such user", "Traceback ...")
    info = job(
        state=State.FAILED,
        reason="no such user",
        started_at=WHEN,
        finished_at=WHEN + SECOND // 4,
        timeout=timedelta(seconds=90),
        attempts=[AttemptInfo(1, 1, "node-1", aware(WHEN), aware(WHEN + SECOND // 4), Ending.FAILED, 1, problem)],
        error=problem,
    )
    shown = msgspec.json.decode(msgspec.json.encode(JobView.of(info)))
    wanted = {
        "id": "018cc251-f400-7000-8000-000000000000",
        "task": "mail.welcome",
        "queue": "mail",
        "priority": 2,
        "state": "failed",
        "kind": "function",
        "reason": "no such user",
        "run_at": "2027-01-01T08:00:00.000000+00:00",
        "created_at": "2027-01-01T07:59:00.000000+00:00",
        "started_at": "2027-01-01T08:00:00.000000+00:00",
        "finished_at": "2027-01-01T08:00:00.250000+00:00",
        "timeout": "1m30s",
        "attempts": [
            {
                "number": 1,
                "fence": 1,
                "node": "node-1",
                "started_at": "2027-01-01T08:00:00.000000+00:00",
                "finished_at": "2027-01-01T08:00:00.250000+00:00",
                "outcome": "failed",
                "exit_code": 1,
                "error": {"type": "builtins.ValueError", "message": "no such user", "trace": "Traceback ..."},
                "usage": None,
            }
        ],
        "result": None,
        "error": {"type": "builtins.ValueError", "message": "no such user", "trace": "Traceback ..."},
    }
    assert {name: shown[name] for name in wanted} == wanted


def test_a_new_job_shows_what_is_not_there_as_null() -> None:
    shown = msgspec.to_builtins(JobView.of(job()))
    absent = ("started_at", "finished_at", "expires_at", "timeout", "node", "key", "result", "error", "reason")
    for name in absent:
        assert shown[name] is None
    assert shown["attempts"] == []


def test_showing_a_job_changes_nothing_of_it() -> None:
    info = job(attempts=[AttemptInfo(1, 1, "node-1", aware(WHEN))], result={"a": [1]})
    before = msgspec.structs.asdict(info)
    JobView.of(info).attempts.clear()
    assert msgspec.structs.asdict(info) == before
