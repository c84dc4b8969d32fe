"""A figure, its goal, and how much is done to get it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec


class Size(msgspec.Struct, frozen=True):
    """How much of everything."""

    runs: int = 5
    jobs: int = 20_000
    waiting: int = 1_000_000
    claims: int = 200
    idle: float = 30.0  # seconds
    paced: float = 1.0  # of the time that each stream of orders takes
    schedules: int = 100_000  # in the store; a hundredth of them fires in one instant
    punctual: int = 200  # fire every second,
    ticking: int = 20  # for so many seconds
    commands: int = 1_000
    rq: int = 1_000  # jobs: it is slow, and it is a rate
    # on PostgreSQL
    drained: int = 50_000
    # A node begins its housekeeping 5 s after it came to lead, and then does it every minute. What is seen in a minute
    # after that holds everything as often as it really comes.
    settling: float = 8.0
    watched: float = 60.0
    peers: int = 5_000  # they are slow, and it is a rate
    timers: int = 2_000
    spread: float = 10.0  # seconds over which timers are due
    pinned: int = 200_000  # drained while a transaction is open elsewhere,
    held: float = 0.0  # or as many as take so many seconds
    # order and admission
    crowd: int = 100_000  # behind a key that is taken, and as many behind a gate
    fan: int = 10_000
    chain: int = 1_000
    keyed: int = 50_000  # over so many mutex keys
    keys: int = 1_000
    rated: float = 60.0  # seconds
    flows: int = 10_000
    flood: int = 10_000  # jobs of one user,
    guests: int = 20  # and of the other, who comes so many seconds later
    flooded: float = 5.0
    http: float = 4.0  # seconds of calls
    lines: int = 10_000_000  # of the corpus that is searched
    ingested: int = 1_000_000  # lines of each run of what is measured several times
    beside: int = 100_000  # jobs that are drained beside ingest
    listed: int = 10_000_000  # ended jobs that lists are of
    # with and without the hot tier
    reported: float = 10.0  # seconds of reports
    beside_refill: float = 25.0  # seconds of timers


QUICK = Size(
    runs=1, jobs=2_000, waiting=20_000, claims=20, idle=3.0, paced=0.2, schedules=5_000, punctual=50, ticking=4,
    commands=200, rq=100,
    drained=2_000, settling=1.0, watched=3.0, peers=300, timers=200, spread=2.0, pinned=5_000,
    crowd=5_000, fan=1_000, chain=100, keyed=2_000, keys=100, rated=20.0, flows=900, flood=1_000, flooded=3.0, http=1.0,
    lines=200_000, ingested=100_000, beside=5_000, listed=100_000, reported=2.0, beside_refill=5.0,
)  # fmt: skip


class Figure(msgspec.Struct, frozen=True):
    name: str
    value: float
    unit: str
    least: float | None = None  # the goal, if there is one: at least that much,
    most: float | None = None  # or at most
    ours: str = ""  # what the value is made of
    other: str = ""
    runs: list[float] = []  # the value of each run, if there were several

    @property
    def met(self) -> bool | None:
        if self.least is not None:
            return self.value >= self.least
        return None if self.most is None else self.value <= self.most

    @property
    def goal(self) -> str:
        if self.least is not None:
            return f">= {self.least:g} {self.unit}"
        return "" if self.most is None else f"<= {self.most:g} {self.unit}"


Measure = Callable[[Path, Size], Iterator[Figure]]


def against_floor(name: str, ours: Sequence[float], floor: Sequence[float], least: float | None) -> Figure:
    """Rates as a share of the floor's. Runs next to each other are compared with each other: the machine may be
    busier in the next minute."""
    ratios = [one / other for one, other in zip(ours, floor, strict=True)]
    return Figure(
        name, statistics.median(ratios), "x", least=least, runs=ratios,
        ours=f"{statistics.median(ours):,.0f}/s", other=f"{statistics.median(floor):,.0f}/s",
    )  # fmt: skip
