"""The checker of runs about output finds what is there to find: each kind of violation, forged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.chaos import output_checker, report
from tests.chaos.evidence import Evidence, Fault, Try
from tests.chaos.output_checker import MISSING, WRONG, outputs
from tests.chaos.scribbles import AT_ONCE, LINE, Desk, Noted, Part, Scribbles, lines, read_notes
from tests.chaos.witness import ALIVE, END, START, Line, Pen

SIZE = 10 * AT_ONCE


def evidence(shown: Sequence[Part], last: str = END, **written: int) -> Evidence:
    """An attempt that ran from 1.0 to 2.0, and what is shown of it."""
    said = [Line(at, 1000.0 + at, word, "job-1", 1, 1, "ann", 77) for at, word in ((1.0, START), (2.0, last))]
    noted = {stream: Noted(size, size) for stream, size in (written or {"stdout": SIZE}).items()}
    return Evidence(lines=said, scribbles={("job-1", 1): Scribbles(noted, list(shown))})


def kinds(found: Evidence) -> set[str]:
    return {finding.kind for finding in outputs(found)}


def said(start: int, size: int, stream: str = "stdout") -> Part:
    return Part(stream, lines(stream, start, size))


def test_lines_are_known_from_their_place() -> None:
    whole = lines("stdout", 0, SIZE)
    assert (len(whole), len(whole.splitlines())) == (SIZE, SIZE // LINE)
    assert all(whole[place : place + 33] == lines("stdout", place, 33) for place in range(SIZE - 33))


@pytest.mark.parametrize(
    "shown",
    [
        [said(0, SIZE)],
        [said(0, 7), said(7, SIZE - 7)],
        [said(0, SIZE + AT_ONCE)],  # a write that was not noted any more
        [said(0, 100), Part("cut", left_out=SIZE - 300), said(SIZE - 200, 200)],
        [
            said(0, 100),
            Part("cut", left_out=50),
            said(150, 50),
            Part("cut", left_out=SIZE - 400),
            said(SIZE - 200, 200),
        ],
    ],
)
def test_nothing_is_found_where_nothing_is_wrong(shown: list[Part]) -> None:
    assert kinds(evidence(shown)) == set()


def test_streams_are_apart() -> None:
    shown = [said(0, 100), said(0, 160, "stderr"), said(100, 60)]
    assert kinds(evidence(shown, stdout=160, stderr=160)) == set()
    assert kinds(evidence(shown[:2], stdout=160, stderr=160)) == {MISSING}


@pytest.mark.parametrize(
    ("shown", "kind"),
    [
        ([], MISSING),
        ([said(0, SIZE - 1)], MISSING),
        ([said(0, 100), Part("cut", left_out=SIZE - 301)], MISSING),
        ([said(0, 100), said(180, SIZE - 180)], WRONG),  # a hole without a mark
        ([said(0, 100), said(0, SIZE)], WRONG),  # twice
        ([said(0, 100), said(200, 100), said(100, 100)], WRONG),
        ([said(0, SIZE + AT_ONCE + 1)], WRONG),
        ([said(0, 100), Part("cut", left_out=SIZE - 200), said(SIZE - 200, 200)], WRONG),  # counted too little
        ([Part("stdout", b"of another job")], WRONG),
    ],
)
def test_what_is_wrong_is_found(shown: list[Part], kind: str) -> None:
    assert kind in kinds(evidence(shown))


def test_only_what_was_stopped_may_end_early() -> None:
    found = evidence([said(0, 100)], last=ALIVE)
    found.faults = [Fault(1.5, "kill", "ann"), Fault(1.5, "pause", "bob", until=16.0)]
    assert kinds(found) == {MISSING}
    found.faults = [Fault(1.9, "pause", "ann", until=16.0)]
    assert kinds(found) == set()
    found.scribbles["job-1", 1].shown.append(said(0, 100))
    assert kinds(found) == {WRONG}


def test_last_words_may_be_lost_with_the_node_alone() -> None:
    found = evidence([said(0, SIZE - AT_ONCE)])
    found.scribbles["job-1", 1].written["stdout"] = Noted(SIZE, SIZE - AT_ONCE)
    assert kinds(found) == {MISSING}
    found.tries = [Try("job-1", 1, "crashed")]
    assert kinds(found) == set()
    found.scribbles["job-1", 1].shown[:] = [said(0, SIZE - AT_ONCE - 1)]
    assert kinds(found) == {MISSING}


def test_every_kind_fails_a_run() -> None:
    assert set(output_checker.BAD) == {MISSING, WRONG}
    assert set(output_checker.BAD) <= set(report.BAD)


def test_notes_are_read_as_they_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAOS_WITNESS", str(tmp_path / "witness"))
    desk = Desk(Pen("job-1", 2, 1, "ann"), "job-1", 2, floods=False, loses_last_words=True)
    bodies = next(iter(desk.next()))
    desk.wrote("stderr")
    assert bodies == ("stdout", lines("stdout", 0, AT_ONCE))
    assert read_notes(tmp_path) == {("job-1", 2): {"stdout": Noted(0, 0), "stderr": Noted(AT_ONCE, 0)}}
