"""What else people search lines with: grep over a file, and a row per line under FTS5 or `tsvector`.

All are asked the same, with everything in memory that fits, and their answers are counted. Their lines come from memory
too: only what a rival itself does is timed.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Protocol

from bench.figure import Figure, Size
from bench.postgres.server import server
from bench.search import goals
from bench.search.fts import Fts
from bench.search.grep import Grep
from bench.search.needles import COMMON, PHRASE, RARE, count_of
from bench.search.reading import EXPRESSION, TASK, Batch, Reading
from bench.search.tsvector import Tsvector
from rota.model.times import HOUR, Instant
from tests.servers.postgres import database

PAGE = 100


class Rival(Protocol):
    """Takes lines and finds them. Every answer is the number of lines that were fetched."""

    name: str

    def add(self, batch: Batch) -> None:
        """Durable when it returns."""

    def settle(self) -> None:
        """What is due after the last line."""

    def sizes(self) -> Mapping[str, int]:
        """Bytes on disk of its parts."""

    def word(self, word: str) -> int: ...

    def newest(self, word: str, count: int) -> int: ...

    def phrase(self, words: str) -> int: ...

    def expression(self, expression: str, task: str, begin: Instant, end: Instant) -> int: ...

    def close(self) -> None: ...


def grep(folder: Path, size: Size) -> Iterator[Figure]:
    with closing(Grep(folder / "lines.txt", TASK)) as rival:
        yield from _measure(rival, size)


def fts(folder: Path, size: Size) -> Iterator[Figure]:
    with closing(Fts(folder / "lines.db")) as rival:
        yield from _measure(rival, size)


def tsvector(folder: Path, size: Size) -> Iterator[Figure]:
    with server(folder) as one, database(one) as url, closing(Tsvector(url)) as rival:
        yield from _measure(rival, size)


def _measure(rival: Rival, size: Size) -> Iterator[Figure]:
    reading = Reading(size.lines)
    place, spent = f"{rival.name}, {size.lines:,} lines", 0.0
    for batch in reading.batches():
        spent += _seconds(rival.add, batch)
    spent += _seconds(rival.settle)
    yield goals.beside(f"{place}: ingest", size.lines / spent, "/s", _rates())
    parts = {part: 100 * taken / reading.size for part, taken in rival.sizes().items()}
    made_of = ", ".join(f"{part} {share:.1f} %" for part, share in parts.items())
    raw = f"{made_of}, of {reading.size / 1e6:,.0f} MB"
    yield goals.beside(f"{place}: size against raw lines", sum(parts.values()), "%", f"{goals.SIZE:g} %", raw)
    yield from _answers(rival, reading, place, size.runs)


def _rates() -> str:
    return ", ".join(f"{rate:,.0f} on {engine}" for engine, rate in goals.INGEST.items())


def _answers(rival: Rival, reading: Reading, place: str, runs: int) -> Iterator[Figure]:
    begin = reading.hour
    questions: dict[str, tuple[Callable[[], int], int]] = {
        goals.RARE_WORD: (lambda: rival.word(RARE), count_of(RARE, reading.lines)),
        goals.FIRST_PAGE: (lambda: rival.newest(COMMON, PAGE), PAGE),
        goals.PHRASE: (lambda: rival.phrase(PHRASE), count_of(PHRASE, reading.lines)),
        goals.EXPRESSION: (lambda: rival.expression(EXPRESSION, TASK, begin, begin + HOUR), reading.matches),
    }
    for what, (ask, expected) in questions.items():
        yield _answer(f"{place}: {what}", ask, expected, runs, goals.MILLISECONDS.get(what))
    if isinstance(rival, Grep):
        yield _answer(f"{place}: expression, all tasks and hours", lambda: rival.anywhere(EXPRESSION), None, runs, None)


def _answer(name: str, ask: Callable[[], int], expected: int | None, runs: int, goal: float | None) -> Figure:
    """The median of some runs after one that is not counted."""
    if (found := ask()) != expected and expected is not None:
        raise RuntimeError(f"{name}: {found:,} lines were found instead of {expected:,}")
    taken = [1000 * _seconds(ask) for _ in range(runs)]
    text = "" if goal is None else f"{goal:,.0f} ms"
    return goals.beside(name, statistics.median(taken), "ms", text, f"{found:,} lines", taken)


def _seconds(work: Callable[..., object], *args: object) -> float:
    begun = time.perf_counter()
    work(*args)
    return time.perf_counter() - begun
