"""How long searches of output take, in a store with the corpus sealed: the questions that the rivals are asked too."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import aclosing

from bench.figure import Figure
from bench.search import goals
from bench.search.needles import COMMON, PHRASE, RARE, count_of
from bench.search.reading import EXPRESSION, TASK, Reading
from rota.clients import line_searches
from rota.model.principal import SYSTEM
from rota.model.query.fields import Searched
from rota.model.query.normal import all_of
from rota.model.query.parse import parse
from rota.model.query.tree import Condition, How, Term
from rota.model.times import HOUR
from rota.store.base import Store
from rota.store.found_lines import LineQuery

PAGE = 100
ALTERNATIVES, NOWHERE = f"{RARE} OR jabberwock", "slithytoves"


def answers(make: Callable[[], Store], place: str, lines: int, runs: int) -> Iterator[Figure]:
    """`make`: a store that is open."""
    reading = Reading(lines)
    for _ in reading.batches():
        pass
    yield from asyncio.run(_answers(make(), reading, place, runs))


async def _answers(store: Store, reading: Reading, place: str, runs: int) -> list[Figure]:
    await store.open()
    begin = reading.hour
    in_hour = all_of((
        parse(f"/{EXPRESSION}/ task:{TASK}", 0, Searched.OUTPUT),
        Term("at", How.AT_LEAST, begin), Term("at", How.BELOW, begin + HOUR),
    ))  # fmt: skip
    questions: dict[str, tuple[Condition, int | None, int]] = {
        goals.RARE_WORD: (_query(RARE), None, count_of(RARE, reading.lines)),
        goals.FIRST_PAGE: (_query(COMMON), PAGE, PAGE),
        goals.PHRASE: (_query(f'"{PHRASE}"'), None, count_of(PHRASE, reading.lines)),
        goals.EXPRESSION: (in_hour, None, reading.matches),
        "one of two rare words": (_query(ALTERNATIVES), None, count_of(RARE, reading.lines)),
        "a word that is nowhere": (_query(NOWHERE), None, 0),
        "newest 100 of all lines": (_query("*"), PAGE, PAGE),
        "expression anywhere, all that is kept": (_query("/zz[0-9]zz/"), None, 0),
    }
    figures = []
    try:
        for what, (where, most, expected) in questions.items():
            figures.append(
                await _answer(store, f"{place}: {what}", where, most, expected, runs, goals.MILLISECONDS.get(what))
            )
    finally:
        await store.close()
    return figures


def _query(text: str) -> Condition:
    return parse(text, 0, Searched.OUTPUT)


async def _answer(
    store: Store, name: str, where: Condition, most: int | None, expected: int, runs: int, goal: float | None
) -> Figure:
    """The median of some runs after one that is not counted."""
    taken, used = list[float](), list[float]()
    for _ in range(runs + 1):
        begun, cpu = time.perf_counter(), time.process_time()
        found = await _found(store, where, most)
        taken.append(1000 * (time.perf_counter() - begun))
        used.append(1000 * (time.process_time() - cpu))
        if found != expected:
            raise RuntimeError(f"{name}: {found:,} lines were found instead of {expected:,}")
    made_of = f"{expected:,} lines; {statistics.median(used[1:]):.0f} ms of CPU"
    return Figure(name, statistics.median(taken[1:]), "ms", most=goal, ours=made_of, runs=taken[1:])


async def _found(store: Store, where: Condition, most: int | None) -> int:
    found = 0
    async with aclosing(line_searches.pages(store, SYSTEM, LineQuery(where=where, limit=PAGE), most)) as pages:
        async for page in pages:
            found += len(page.lines)
    return found
