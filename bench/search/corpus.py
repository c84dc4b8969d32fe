"""A seeded corpus: what some fifty tasks of eight users printed in a day, line by line the same for the same seed.

Few tasks make most of the attempts (Zipf), and few attempts most of the lines: from 1 to 10,000, each order of size as
often. Some lines are needles, whose counts are known without a look at the corpus:

    for attempt in attempts(200_000):
        for piece in attempt.pieces:
            ...
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from itertools import accumulate
from typing import NamedTuple

from bench.search.needles import Needles
from bench.search.programs import Batch, Build, Events, Logfmt, Program, Service
from rota.model.times import DAY, MILLISECOND, Instant

BEGIN: Instant = 1_772_409_600_000_000  # 2026-03-02T00:00:00Z
LARGEST = 10_000  # lines of an attempt
OWNERS = ("ann", "bob", "carla", "dmitri", "eve", "fatima", "guo", "hana")
PROGRAMS: dict[str, type[Program]] = {
    "mail": Service, "billing": Events, "orders": Service, "media": Logfmt, "etl": Batch,
    "users": Service, "search": Events, "reports": Batch, "sync": Logfmt, "build": Build,
}  # fmt: skip
VERBS = ("send", "poll", "import", "refresh", "clean")
# The first is the busiest.
TASKS = tuple(f"{group}.{verb}" for verb in VERBS for group in PROGRAMS)
_WEIGHTS = list(accumulate(1 / rank for rank in range(1, len(TASKS) + 1)))


class Piece(NamedTuple):
    """Whole lines, which a program wrote at once."""

    stream: str
    at: Instant
    body: bytes


class Attempt(NamedTuple):
    owner: str
    task: str
    started_at: Instant
    pieces: list[Piece]


def attempts(lines: int, seed: int = 1, begin: Instant = BEGIN) -> Iterator[Attempt]:
    """As many as make so many lines, in the order in which they started. They overlap in time."""
    chance, needles, first = random.Random(seed), Needles(lines), 0
    sizes = list(_sizes(chance, lines))
    starts = sorted(begin + chance.randrange(DAY) for _ in sizes)
    for size, started_at in zip(sizes, starts, strict=True):
        rank = chance.choices(range(len(TASKS)), cum_weights=_WEIGHTS)[0]
        owner = OWNERS[(3 * rank + chance.randrange(3)) % len(OWNERS)]
        pieces = list(_pieces(chance, TASKS[rank], started_at, range(first, first + size), needles))
        yield Attempt(owner, TASKS[rank], started_at, pieces)
        first += size


def _sizes(chance: random.Random, lines: int) -> Iterator[int]:
    while lines:
        size = min(lines, int(LARGEST ** chance.random()))
        yield size
        lines -= size


def _pieces(chance: random.Random, task: str, at: Instant, numbers: range, needles: Needles) -> Iterator[Piece]:
    program = PROGRAMS[task.partition(".")[0]](task, len(numbers))
    number, end, pace = numbers.start, numbers.stop, (2 + chance.randrange(100)) * MILLISECOND
    while number < end:
        bits = chance.getrandbits(128)
        at += bits % pace
        stream, printed = program.burst(at, bits)
        del printed[end - number :]
        needles.put(number, printed, partial(program.say, at, "INFO"))
        number += len(printed)
        printed.append("")
        yield Piece(stream, at, "\n".join(printed).encode(errors="surrogateescape"))
