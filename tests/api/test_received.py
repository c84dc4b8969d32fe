"""Values that a client sent: what the own readers make passes as it is, anything else is refused by its name."""

from __future__ import annotations

import random
from datetime import date
from typing import Any, get_type_hints

import msgspec
import pytest

from rota.api.call_checks import CHECKS, LARGEST_PAGE, Sender, check
from rota.api.received_schedules import MOST_STEPS
from rota.config import Settings
from rota.errors import InvalidInput, NotAllowed, RotaError, TooLarge
from rota.lines.words import Probe, probe_word
from rota.model.access import Grant, Permission, Role
from rota.model.access_keys import NewKey
from rota.model.feedback import Feedback
from rota.model.gates import Effect, Match
from rota.model.graph import Edge, Need
from rota.model.job import Kind, Membership, NewJob, Spec
from rota.model.limits import Key, Limit, Rate
from rota.model.options import Options, new_job, read_options
from rota.model.quotas import Quotas
from rota.model.task import TaskInfo
from rota.model.times import DAY, LATEST, LONGEST, MINUTE
from rota.model.trigger import schedule as timing
from rota.model.trigger import template as work
from rota.model.trigger.calendars import Calendar
from rota.model.trigger.policies import Overlap
from rota.model.trigger.reading import read_schedule
from rota.model.trigger.records import Advance, FireKind, NewFire, NewSchedule
from rota.model.trigger.skipped import Skipped, SkipReason
from rota.model.trigger.template import Template
from rota.remote.wire import calls
from rota.store.admission import NewGate
from rota.store.base import Store
from rota.store.log_store import RawScan, SegmentScan
from rota.store.values import JobFilter
from rota.store.verbs import NODE
from tests.remote.values import made

ID = "0198c0de-0000-7000-8000-000000000001"
OTHER = "0198c0de-0000-7000-8000-000000000002"
ADMIN = Sender(Grant(key="k", user="ann", role=Role.ADMIN), Settings(max_args=10_000))
MAIL = Spec.function("mail")
FULL = read_options(
    Options(),
    {
        "delay": "5m", "priority": 2, "queue": "mails", "key": "once", "timeout": "1m", "expires": "1h", "retry": 3,
        "labels": ["db", "nightly"], "limits": {"db": 5, "api:{to}": "60/1m"}, "alone": "queue:mails,label:db",
        "drain": "1m", "drained": "cancel", "flow": "f:{to}", "exclusive": "user:{to}", "after": [OTHER],
    },
)  # fmt: skip


def job(**changes: Any) -> NewJob:
    return NewJob(**{"id": ID, "task": "mail", "spec": MAIL, **changes})


def checked(verb: str, sender: Sender = ADMIN, /, **given: Any) -> dict[str, Any]:
    """The arguments after a journey over the wire and the checks."""
    call = calls()[verb]
    found = call.decode_arguments(call.encode_arguments((), given))
    check(verb, found, sender)
    return found


def submitted(one: NewJob, sender: Sender = ADMIN) -> NewJob:
    found: NewJob = checked("submit", sender, orders=[[one]])["orders"][0][0]
    return found


# -- orders ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "given",
    [
        job(),
        new_job(ID, MAIL, "mail", '{"to": "ann"}', FULL),
        new_job(ID, Spec.command(["echo", "hi"], cwd="/srv", env={"A": "b"}, user="nobody"), "echo", "{}", Options()),
        new_job(ID, Spec.http("POST", "https://example.com/", {"X": "y"}, b"\xff", "2xx,404"), "call", "{}", Options()),
        job(workflow=Membership(OTHER, "nightly"), job_name="first", after=(Edge(OTHER, Need.FINISH, (("to", 0),)),)),
        job(at=LATEST, meta='{"trace": "1"}'),
    ],
)
def test_an_order_of_an_own_client_arrives_as_it_is(given: NewJob) -> None:
    assert submitted(given) == given


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"id": "mine"}, "id"),
        ({"id": ID.upper()}, "id"),
        ({"id": "0198c0de-0000-4000-8000-000000000001"}, "id"),
        ({"task": ""}, "task"),
        ({"task": "other"}, "task"),
        ({"queue": "two words"}, "queue"),
        ({"priority": 10}, "priority"),
        ({"priority": -1}, "priority"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": LONGEST + 1}, "timeout"),
        ({"delay": -1}, "delay"),
        ({"delay": 10**30}, "delay"),
        ({"expires": 0}, "expires"),
        ({"at": LATEST + 1}, "at"),
        ({"at": -1}, "at"),
        ({"key": ""}, "key"),
        ({"key": "x" * 256}, "key"),
        ({"args": "[]"}, "arguments"),
        ({"args": "{"}, "arguments"),
        ({"args": '{"a": ' + "[" * 9_000}, "arguments"),
        ({"meta": "7"}, "metadata"),
        ({"after": (Edge("no id"),)}, "after"),
        ({"after": (Edge(OTHER, Need.SUCCESS, ((),)),)}, "after"),
        ({"after": (Edge(OTHER, Need.SUCCESS, ((0,),)),)}, "after"),
        ({"after": (Edge(OTHER, Need.SUCCESS, (("a", -1),)),)}, "after"),
        ({"after": (Edge(OTHER), Edge(OTHER, Need.FAILURE))}, "after"),
        ({"workflow": Membership("mine")}, "workflow"),
        ({"workflow": Membership(OTHER, "x" * 201)}, "workflow name"),
        ({"job_name": "x" * 201}, "name"),
        ({"spec": Spec(Kind.FUNCTION, "{}", "")}, "spec"),
        ({"spec": Spec(Kind.COMMAND, '{"argv": []}', ""), "task": "true"}, "command"),
        ({"spec": Spec(Kind.HTTP, '{"method": "GET", "url": "ftp://a"}', ""), "task": "true"}, "url"),
    ],
)
def test_an_order_that_no_reader_makes_is_refused(changes: dict[str, Any], what: str) -> None:
    with pytest.raises(InvalidInput) as wrong:
        submitted(job(**changes))
    assert wrong.value.what == what


@pytest.mark.parametrize(
    "requirements",
    [
        {"labels": ["two words"]},
        {"labels": [f"l{number}" for number in range(21)]},
        {"keys": [["", 1]]},
        {"keys": [["db", 0]]},
        {"keys": [["db", None, [0, 1]]]},
        {"flow": " "},
        {"alone": {"match": {"queue": "two words"}, "like": None, "drain": 1}},
        {"alone": {"match": {}, "like": None, "drain": -1}},
    ],
)
def test_requirements_that_no_reader_makes_are_refused(requirements: dict[str, Any]) -> None:
    body = msgspec.to_builtins(job()) | {"requirements": requirements}
    found = calls()["submit"].decode_arguments(msgspec.json.encode({"orders": [[body]]}))
    with pytest.raises(InvalidInput):
        check("submit", found, ADMIN)


def test_what_can_be_derived_is_derived_again() -> None:
    """The digest names the spec for everyone, and the pattern goes into SQL."""
    assert submitted(job(spec=Spec(Kind.FUNCTION, '{ "name":"mail" }', "0" * 64))).spec == MAIL
    keys = (Key("b", 3), Key("a"), Key("b", 1))
    needed = submitted(job(requirements=msgspec.convert({"keys": msgspec.to_builtins(keys)}, type(job().requirements))))
    assert needed.requirements.keys == (Key("a"), Key("b", 1))
    alone = {"alone": {"match": {"task": "mail.*"}, "like": "%", "drain": 5, "cancel": False}}
    found = submitted(job(requirements=msgspec.convert(alone, type(job().requirements)))).requirements.alone
    assert found is not None
    assert found.like == "mail.%"


@pytest.mark.parametrize("what", ["args", "meta"])
def test_large_values_are_refused(what: str) -> None:
    with pytest.raises(TooLarge):
        submitted(job(**{what: f'{{"a": "{"x" * 10_000}"}}'}))
    with pytest.raises(TooLarge):
        submitted(job(task="true", spec=Spec.command(["echo", "x" * 10_000])))


def test_orders_beyond_the_scope_of_the_key_are_refused() -> None:
    narrow = Sender(Grant(key="k", user="ann", role=Role.SUBMITTER, queues=("mails",), tasks=("mail*",)), Settings())
    submitted(job(queue="mails"), narrow)
    for other in (job(), job(queue="mails", task="true", spec=Spec.command(["true"]))):
        with pytest.raises(NotAllowed):
            submitted(other, narrow)


# -- schedules -------------------------------------------------------------------------------------------------------
def schedule(**changes: Any) -> NewSchedule:
    found = read_schedule("ann", "nightly", {"cron": "0 3 * * *"}, 0)
    new = NewSchedule(
        name="nightly", timing=timing.to_json(found), work=work.to_json(Template(task="mail", spec=MAIL)),
        overlap=Overlap.ALLOW, since=5, next_at=7,
    )  # fmt: skip
    return msgspec.structs.replace(new, **changes)


def test_a_schedule_of_an_own_client_arrives_as_it_is() -> None:
    assert checked("put_schedule", new=schedule(), revision=None)["new"] == schedule()


def test_its_owner_is_the_user_of_the_key() -> None:
    theirs = timing.to_json(read_schedule("bob", "nightly", {"cron": "0 3 * * *"}, 0))
    assert checked("put_schedule", new=schedule(timing=theirs), revision=None)["new"] == schedule()


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "other"},
        {"name": ""},
        {"timing": "{}"},
        {"timing": "no JSON"},
        {"work": "{}"},
        {"work": work.to_json(Template(task="", spec=MAIL))},
        {"work": work.to_json(Template(task="mail", spec=MAIL, args="[]"))},
        {"note": "x" * 1_001},
        {"since": -1},
        {"next_at": 10**18},
        {"app": ""},
    ],
)
def test_a_schedule_that_no_reader_makes_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        checked("put_schedule", new=schedule(**changes), revision=None)


def test_the_order_of_a_schedule_must_be_one_that_the_key_may_place() -> None:
    command = work.to_json(Template(task="true", spec=Spec.command(["true"])))
    plain = Sender(Grant(key="k", user="ann", role=Role.SUBMITTER), Settings())
    with pytest.raises(NotAllowed, match="order commands"):
        checked("put_schedule", plain, new=schedule(work=command), revision=None)
    fire = NewFire(5, job(task="true", spec=Spec.command(["true"])))
    with pytest.raises(NotAllowed, match="order commands"):
        checked("make_fires", plain, name="nightly", kind=FireKind.MANUAL, fires=[fire])


STEP = Advance(
    owner="ann", name="nightly", revision=1, before=1, fires=[NewFire(5, job())],
    skips=[Skipped(1, 2, None, SkipReason.MISSED)], handled=5, next_at=None, limit=None, overlap=Overlap.ALLOW,
)  # fmt: skip


def test_steps_of_own_clients_arrive_as_they_are() -> None:
    for step in (STEP, msgspec.structs.replace(STEP, limit=1_000_000)):
        assert checked("advance", steps=[step])["steps"] == [step]


def test_steps_are_of_own_schedules_and_not_too_many() -> None:
    """Their content does not count: `test_calls` shows that a server works it out again."""
    with pytest.raises(InvalidInput, match="owner: 'bob'"):
        checked("advance", steps=[STEP, msgspec.structs.replace(STEP, owner="bob")])
    checked("advance", steps=[STEP] * MOST_STEPS)
    with pytest.raises(InvalidInput, match="steps: '101 of them'"):
        checked("advance", steps=[STEP] * (MOST_STEPS + 1))


# -- the rest --------------------------------------------------------------------------------------------------------
KEY = NewKey(id="0123456789ab", hash="a" * 64, user="bob", role=Role.SUBMITTER)
WRONG_KEYS: list[dict[str, Any]] = [
    {"id": "1"}, {"hash": "1"}, {"user": "two words"}, {"queues": ("",)}, {"extra": (Permission.WORK,)}, {"name": "\n"},
    {"expires_at": LATEST + 1},
]  # fmt: skip
GATE = NewGate(ID, Match(queue="mails"), Effect.PAUSE, "too many")


@pytest.mark.parametrize(
    ("verb", "good", "wrong"),
    [
        ("cancel", {"ids": [ID], "reason": "no"}, [{"reason": "x" * 1_001}, {"ids": ["x"] * 10_001}, {"ids": ["\0"]}]),
        ("reprioritise", {"ids": [ID], "priority": 1}, [{"priority": 11}]),
        ("pause_schedule", {"name": "nightly", "note": ""}, [{"note": "x" * 1_001}, {"name": "\0"}]),
        ("make_fires", {"name": "n", "kind": "manual", "fires": []}, [{"kind": "rule"}]),
        ("put_calendar", {"calendar": Calendar("closed", (date(2027, 1, 1),))}, [{"calendar": Calendar("a,b")}]),
        (
            "close_gate",
            {"new": GATE},
            [
                {"new": msgspec.structs.replace(GATE, **change)}
                for change in (
                    {"id": "1"},
                    {"reason": " "},
                    {"until": LATEST + 1},
                    {"match": Match(user="bob")},
                    {"match": Match(label="two words")},
                )
            ],
        ),
        (
            "set_limit",
            {"limit": Limit("db", 5)},
            [{"limit": Limit("db")}, {"limit": Limit("a", 0)}],
        ),
        ("set_limit", {"limit": Limit("db", None, Rate(1, MINUTE))}, [{"limit": Limit("db", None, Rate(1, 1))}]),
        ("remove_limit", {"key": "db"}, [{"key": ""}]),
        ("pause_queue", {"name": "mails", "note": "x"}, [{"name": "two words"}, {"note": "x" * 1_001}]),
        ("resume_queue", {"name": "mails"}, [{"name": ""}]),
        ("set_step", {"name": "mails", "step": DAY}, [{"step": DAY + 1}, {"step": -1}, {"name": ""}]),
        ("set_feedback", {"name": "mails", "rule": Feedback()}, [{"rule": Feedback(1)}, {"rule": Feedback(levels=9)}]),
        ("make_known", {"tasks": [TaskInfo(name="mail")]}, [{"tasks": [TaskInfo(name="")]}]),
        ("make_known", {"tasks": []}, [{"tasks": [TaskInfo(name="a", queue="a b")]}]),
        ("make_known", {"tasks": []}, [{"tasks": [TaskInfo(name="a", exclusive="{x}")]}]),
        (
            "page",
            {"query": JobFilter()},
            [{"query": JobFilter(limit=LARGEST_PAGE + 1)}, {"query": JobFilter(queue="\0")}],
        ),
        (
            "put_user",
            {"name": "bob", "quotas": Quotas(), "new": True},
            [{"name": "two words"}, {"quotas": Quotas(None, -1)}],
        ),
        ("add_key", {"new": KEY}, [{"new": msgspec.structs.replace(KEY, **one)} for one in WRONG_KEYS]),
        ("events", {"after": 0, "limit": 5}, [{"after": 1 << 63}, {"limit": 10**9}]),
    ],
)
def test_arguments_are_checked_as_people_s_are(verb: str, good: dict[str, Any], wrong: list[dict[str, Any]]) -> None:
    assert checked(verb, **good).keys() >= good.keys()
    for change in wrong:
        with pytest.raises(InvalidInput):
            checked(verb, **(good | change))


def test_tasks_beyond_the_scope_of_the_key_stay_unknown() -> None:
    narrow = Sender(Grant(key="k", user="ann", role=Role.SUBMITTER, tasks=("mail.*",)), Settings())
    tasks = [TaskInfo(name="mail.welcome"), TaskInfo(name="report")]
    assert checked("make_known", narrow, tasks=tasks)["tasks"] == tasks[:1]


@pytest.mark.parametrize("verb", ["segments", "segment_extent"])
@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"limit": 0}, "limit"), ({"limit": LARGEST_PAGE + 1}, "limit"), ({"look": 0}, "look"), ({"room": 0}, "room"),
        ({"room": 1 << 40}, "room"), ({"jobs": (ID,) * 501}, "jobs"),
        ({"words": ((Probe(0, ()),) * 2,) * 501}, "words"),
        ({"words": ((),) * 1001}, "words"),
        ({"words": ((Probe(0, (512,)),),)}, "words"), ({"words": ((Probe(0, (-1,)),),)}, "words"),
        ({"words": ((Probe(-1, ()),),)}, "words"), ({"words": ((Probe(1 << 32, ()),),)}, "words"),
        ({"words": ((Probe(0, (1,) * 17),),)}, "words"),
    ],
)  # fmt: skip
def test_scans_of_segments_that_are_refused(verb: str, changes: dict[str, Any], what: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        checked(verb, scan=SegmentScan(**changes))
    assert refused.value.what == what


@pytest.mark.parametrize("changes", [{"limit": 0}, {"room": 0}, {"jobs": (ID,) * 501}])
def test_scans_of_chunks_that_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as refused:
        checked("unsealed", scan=RawScan(**changes))
    assert refused.value.what == next(iter(changes))


def test_scans_arrive_as_they_are() -> None:
    scan = SegmentScan(words=((probe_word(b"refused"),),), jobs=(ID,) * 500, tasks=("mail.*",), since=5)
    assert checked("segments", scan=scan)["scan"] == scan
    assert checked("unsealed", scan=RawScan(newest_first=True))["scan"] == RawScan(newest_first=True)


def test_every_check_is_of_a_verb() -> None:
    assert CHECKS.keys() <= calls().keys()


@pytest.mark.parametrize("verb", [name for name, call in calls().items() if call.verb.by is not NODE])
def test_random_arguments_pass_or_are_refused_in_own_words(verb: str) -> None:
    chance, hints = random.Random(verb), get_type_hints(getattr(Store, verb))
    for _ in range(30):
        given = {name: made(hints[name], chance) for name in calls()[verb].names}
        try:
            checked(verb, **given)
        except RotaError:
            continue
