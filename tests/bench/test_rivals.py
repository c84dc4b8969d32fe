"""All rivals find the same lines; the measures would refuse to time a wrong answer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from bench.figure import Size
from bench.search import goals, rivals
from bench.search.corpus import attempts
from bench.search.fts import Fts
from bench.search.grep import Grep
from bench.search.needles import COMMON, PHRASE, RARE, REQUEST, count_of
from bench.search.reading import BATCH, EXPRESSION, TASK, Reading
from bench.search.rivals import Rival
from bench.search.tsvector import Tsvector
from rota.model.times import HOUR
from tests.servers.postgres import database, shared_server

LINES = 3_000


@pytest.fixture(params=["grep", "FTS5", "tsvector"])
def rival(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rival]:
    with ExitStack() as stack:
        made: Rival
        match request.param:
            case "grep":
                made = Grep(tmp_path / "lines.txt", TASK)
            case "FTS5":
                made = Fts(tmp_path / "lines.db")
            case _:
                made = Tsvector(stack.enter_context(database(shared_server())))
        stack.callback(made.close)
        yield made


def test_it_finds_what_is_there(rival: Rival) -> None:
    reading = Reading(LINES)
    for batch in reading.batches():
        rival.add(batch)
    rival.settle()
    assert rival.word(RARE) == count_of(RARE, LINES)
    assert rival.word(REQUEST) == count_of(REQUEST, LINES)
    assert rival.word(COMMON) == LINES // 10
    assert rival.newest(COMMON, 7) == 7
    assert rival.phrase(PHRASE) == count_of(PHRASE, LINES)
    assert rival.expression(EXPRESSION, TASK, reading.hour, reading.hour + HOUR) == reading.matches > 0
    assert sum(rival.sizes().values()) > 0.9 * reading.size


def test_reading_gives_every_line_once_in_batches() -> None:
    reading, rows, hours = Reading(2 * BATCH), 0, set[int]()
    for number, batch in enumerate(reading.batches()):
        rows += len(batch.rows)
        assert number == 0 or len(batch.attempts) > 0
        hours.update(at - at % HOUR for _, _, at, _ in batch.rows)
    assert rows == 2 * BATCH
    assert reading.hour in hours
    assert reading.size == sum(len(piece.body) for attempt in attempts(2 * BATCH) for piece in attempt.pieces)


def test_reading_counts_the_matches_of_the_task_in_its_hour() -> None:
    reading = Reading(20_000)
    found, tasks = 0, dict[int, str]()
    batches = list(reading.batches())
    for batch in batches:
        tasks |= {number: task for number, _, task, _ in batch.attempts}
        for number, _, at, text in batch.rows:
            found += tasks[number] == TASK and at - at % HOUR == reading.hour and bool(re.search(EXPRESSION, text))
    assert found == reading.matches > 0


def test_figures_of_a_rival_stand_beside_the_goals_but_have_none(tmp_path: Path) -> None:
    figures = list(rivals.fts(tmp_path, Size(runs=2, lines=LINES)))
    assert [figure.name.partition(": ")[2] for figure in figures] == [
        "ingest", "size against raw lines", goals.RARE_WORD, goals.FIRST_PAGE, goals.PHRASE, goals.EXPRESSION,
    ]  # fmt: skip
    assert all(figure.met is None for figure in figures)
    assert figures[2].other == "rota's goal 1,000 ms"
    assert len(figures[2].runs) == 2


def test_a_wrong_answer_is_not_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fts, "word", lambda self, word: 4)
    with pytest.raises(RuntimeError, match="rare word: 4 lines were found instead of 5"):
        list(rivals.fts(tmp_path, Size(runs=1, lines=LINES)))
