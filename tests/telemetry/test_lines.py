"""Every event of a node has its sentence, and a sentence stays one line."""

from __future__ import annotations

import io

import pytest

from rota.clock import ManualClock
from rota.telemetry import events
from rota.telemetry.lines import Lines, sentence

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
    events.AttemptStarted("01", "hello", 1),
    events.AttemptEnded("01", "hello", 1, "failed", "no answer", True),
    events.AttemptStale("01", 4),
    events.AttemptStuck("01", "hello"),
    events.TasksInThreads(("hello",), "they are defined in the main program"),
    events.PoolFailed("the process that functions are forked from has died", 2.0),
    events.PoolSaid("a word too late"),
    events.ServiceFailed("reaper", "away"),
    events.ServiceStuck("promoter", 60.0),
    events.LoopBlocked(5.0),
    events.NodeGaveUp("n1", "its promoter has hung 3 times in a row, for 60 s each"),
]


def test_every_event_has_a_sentence() -> None:
    assert {type(event) for event in SAMPLES} == set(events.Event.__subclasses__())
    for event in SAMPLES:
        said = sentence(event)
        assert said is not None
        assert len(said[1].split()) >= 4


@pytest.mark.parametrize(("level", "expected"), [("debug", 20), ("info", 18), ("warning", 14), ("error", 9)])
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
