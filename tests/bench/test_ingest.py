"""The measures of ingest, of lists and of drains beside ingest: all that they put in is there, with their goals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench import __main__ as program
from bench.figure import Figure, Size
from bench.search import goals, ingest_rates, job_lists
from bench.search.corpus import attempts
from bench.search.ingest import ingest, ingest_and_seal, printed
from rota.clock import Chance, SystemClock
from rota.lines.segment import unpack
from rota.logs.sink import LARGEST_CHUNK
from rota.model.principal import SYSTEM
from rota.store.log_store import SegmentScan
from rota.store.sqlite import SqliteStore

LINES = 3_000
SMALL = Size(runs=1, lines=LINES, ingested=LINES, listed=2_000)
Measure = Callable[[Path, Size], Iterator[Figure]]


def raw_text(lines: int) -> bytes:
    return b"".join(piece.body for attempt in attempts(lines) for piece in attempt.pieces)


@pytest.mark.parametrize("at_once", [False, True])
async def test_what_was_printed_is_in_segments_once(tmp_path: Path, at_once: bool) -> None:
    store = SqliteStore(str(tmp_path / "store.db"), SystemClock(), Chance())
    await store.migrate()
    await store.open()
    text = raw_text(LINES)
    if at_once:
        taken = await ingest_and_seal(store, list(printed(attempts(LINES))))
    else:
        taken = await ingest(store, attempts(LINES))
    assert taken.size == len(text)
    assert (await store.runs(SYSTEM, None, 0, 10)).runs == []
    segments = (await store.segments(SYSTEM, SegmentScan(limit=1_000, room=1 << 30))).segments
    lines = [line for one in segments for chunk in unpack(one.body) for line in chunk.body.splitlines(keepends=True)]
    assert sorted(lines) == sorted(text.splitlines(keepends=True))
    await store.close()


def test_chunks_are_those_of_a_node() -> None:
    for one in printed(attempts(LINES)):
        assert all(len(body.body) <= LARGEST_CHUNK or body.body.count(b"\n") == 1 for body in one.bodies)
        for before, after in zip(one.bodies, one.bodies[1:], strict=False):
            assert before.stream != after.stream or len(before.body) + len(after.body) > LARGEST_CHUNK // 2


@pytest.mark.parametrize(
    ("measure", "engine"), [(ingest_rates.sqlite, "SQLite"), (ingest_rates.on_postgres, "PostgreSQL")]
)
def test_ingest_has_its_goals(tmp_path: Path, measure: Measure, engine: str) -> None:
    rate, size, *answers, appends, sealing = measure(tmp_path, SMALL)
    assert [one.most for one in answers if one.most] == list(goals.MILLISECONDS.values())
    assert (rate.least, size.most) == (goals.INGEST[engine], goals.SIZE)
    assert "packing" in rate.ours
    assert 5 < size.value < 1_000
    assert appends.value > sealing.value > 0


@pytest.mark.parametrize("measure", [job_lists.sqlite, job_lists.on_postgres])
def test_every_kind_of_list_is_measured(tmp_path: Path, measure: Measure) -> None:
    figures = list(measure(tmp_path, SMALL))
    lists = [figure for figure in figures if figure.name.endswith("p95")]
    assert len(lists) == len(job_lists.KINDS) + len(job_lists.OF_ALL_USERS)
    assert all(figure.most == goals.JOB_LIST and len(figure.runs) == job_lists.LEAST for figure in lists)
    assert "of 1,8" in figures[-3].ours, "the jobs of one user were all examined"


def test_searches_are_measured_only_if_they_are_named() -> None:
    assert not set(program.GROUPS["search"]) & {name for one in program.EVERYTHING for name in program.GROUPS[one]}
    assert {"search-ingest", "search-jobs", "search-drain"} <= set(program.GROUPS["search"])
