"""Every event of a node has its sentence, and a sentence stays one line."""

from __future__ import annotations

import io
import json
import threading

import pytest

from rota.clock import ManualClock
from rota.model.outcome import Problem
from rota.telemetry import events
from rota.telemetry.lines import Background, JsonLines, Lines, sentence

SAMPLES: list[events.Event] = [
    events.NodeStarted("anna", ("control", "worker"), {"default": 8}, "sqlite:///rota.db", 3),
    events.NodeStopping(2, 30.0),
    events.NodeHurried(2),
    events.NodeStopped("anna"),
    events.LeaseLost("anna", "it was declared dead"),
    events.NodeDied("bert", "its process is gone", 2),
    events.JobsRescued(1),
    events.UnofferedSetAside("hello", 3, 3_600_000_000),
    events.ScheduleSetAside("alice", "nightly", "no such zone"),
    events.ScheduleDeclared("alice", "nightly", "billing", "billing.tasks", "added"),
    events.SchedulesUndeclared("alice", "billing", ("a b", "c"), "module billing.tasks was not imported"),
    events.AttemptStarted("01", "hello", 1),
    events.AttemptEnded("01", "hello", 1, "failed", "no answer", True),
    events.AttemptStale("01", 4),
    events.AttemptStuck("01", "hello"),
    events.TasksInThreads(("hello",), "they are defined in the main program"),
    events.PoolFailed("the process that functions are forked from has died", 2.0),
    events.PoolSaid("a word too late"),
    events.HookFailed("the hooks process.stop of the node took longer than 5 s"),
    events.MigrationWaits("waits for process 4711 of the server"),
    events.SpoolFailed("no space is left on the device"),
    events.OutputRecovered(3, 12_345),
    events.OutputAside("rota.db-rota/spool/aside", "bytes that wait are missing"),
    events.ServiceFailed("reaper", "away"),
    events.StoreSaid("the hot tier at redis://cache:6379/0 is back"),
    events.ServiceStuck("promoter", 60.0),
    events.LoopBlocked(5.0),
    events.LinesDropped(7),
    events.ApiServing("http://127.0.0.1:8787"),
    events.ApiNotServed(8787),
    events.CertificateChanged("half a key"),
    events.RequestFailed("8a7b", "GET", "/api/v1/jobs", "KeyError: 5\n"),
    events.NodeGaveUp("n1", "its promoter has hung 3 times in a row, for 60 s each"),
]


def test_every_event_has_a_sentence() -> None:
    assert {type(event) for event in SAMPLES} == set(events.Event.__subclasses__())
    for event in SAMPLES:
        said = sentence(event)
        assert said is not None
        assert len(said[1].split()) >= 4


@pytest.mark.parametrize(("level", "expected"), [("debug", 34), ("info", 32), ("warning", 24), ("error", 14)])
def test_levels(level: str, expected: int) -> None:
    stream = io.StringIO()
    lines = Lines(ManualClock(), level, stream)
    for event in SAMPLES:
        lines(event)
    assert len(stream.getvalue().splitlines()) == expected


def test_texts_of_jobs_can_not_break_the_line_or_the_terminal() -> None:
    stream = io.StringIO()
    reason = "one\ntwo\x1b[2J\r\x00three"
    Lines(ManualClock(), "info", stream)(events.AttemptEnded("01", "a\nb", 1, "failed", reason, False))
    (line,) = stream.getvalue().splitlines()
    assert "\x1b" not in line
    assert "one two" in line


TRACE = """Traceback (most recent call last):
  File "shop.py", line 12, in boom
    raise ValueError("no luck")
ValueError: no luck
"""
FAILED = events.AttemptEnded(
    "01", "boom", 2, "failed", "no luck", False, Problem("builtins.ValueError", "no luck", TRACE)
)


def test_a_failed_attempt_says_class_message_and_place_and_the_trace_if_asked() -> None:
    brief, full = io.StringIO(), io.StringIO()
    Lines(ManualClock(), "info", brief)(FAILED)
    Lines(ManualClock(), "debug", full)(FAILED)
    (line,) = brief.getvalue().splitlines()
    assert line.endswith("job 01 boom: attempt 2 failed: ValueError: no luck (shop.py, line 12, in boom)")
    first, *trace = full.getvalue().splitlines()
    assert first == line
    assert trace == [f"    {one}" for one in TRACE.splitlines()]


def test_json_lines_have_the_same_head_and_the_fields_of_their_event() -> None:
    stream = io.StringIO()
    lines = JsonLines(ManualClock(), stream)
    for event in (*SAMPLES, FAILED):
        lines(event)
    found = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert len(found) == len(SAMPLES) + 1
    assert all(list(one)[:4] == ["time", "level", "event", "message"] for one in found)
    assert not {"time", "level", "event", "message"} & {name for one in SAMPLES for name in one.__struct_fields__}
    last = found[-1]
    assert (last["level"], last["event"], last["task"], last["number"]) == ("warning", "AttemptEnded", "boom", 2)
    assert last["error"] == {"type": "builtins.ValueError", "message": "no luck", "trace": TRACE}


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("added", "schedule n of alice was added: app billing declares it in tasks"),
        ("changed", "schedule n of alice was changed: app billing declares it in tasks"),
        ("moved", "schedule n of alice is now declared in tasks of app billing"),
        ("back", "schedule n of alice is declared again in tasks of app billing"),
        ("removed", "schedule n of alice was removed: app billing declares it no more in tasks"),
    ],
)
def test_what_the_code_of_an_app_does_to_schedules(how: str, expected: str) -> None:
    assert sentence(events.ScheduleDeclared("alice", "n", "billing", "tasks", how)) == ("info", expected)


def test_schedules_that_are_not_declared_come_with_the_command_that_removes_them() -> None:
    said = sentence(events.SchedulesUndeclared("alice", "billing", ("a b", "c"), "why"))
    assert said is not None
    assert "`rota schedule remove 'a b' c`" in said[1]
    many = sentence(events.SchedulesUndeclared("alice", "billing", tuple(f"s{n}" for n in range(12)), "why"))
    assert many is not None
    assert "s9 and 2 more" in many[1]


def test_events_that_a_slow_log_drops_are_counted_and_told() -> None:
    seen: list[events.Event] = []
    begun, go_on, told = threading.Event(), threading.Event(), threading.Event()

    def slow(event: events.Event) -> None:
        begun.set()
        assert go_on.wait(20)
        seen.append(event)
        if isinstance(event, events.LinesDropped):
            told.set()

    background = Background(slow, size=4)
    sent = [events.JobsRescued(number) for number in range(9)]
    background(sent[0])
    assert begun.wait(20)  # it is being written: the queue is empty
    for event in sent[1:]:
        background(event)
    go_on.set()
    assert told.wait(20)
    background.close(20)
    assert [event for event in seen if event in sent] == sent[:5]
    assert [event for event in seen if event not in sent] == [events.LinesDropped(4)]
