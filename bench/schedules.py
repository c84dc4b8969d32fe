"""How punctual schedules are, and what a hundred thousand of them cost. On SQLite; `bench.postgres.schedules` has the
other store.

All are put straight into the table, by one statement. Lateness is the start of a fire's job less the instant of the
fire, by the store's clock. The first fires of each run don't count: a node that has just come up is still busy with
itself.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import apsw
import msgspec

from bench import processes
from bench.figure import Figure, Size
from bench.payload import TEXT
from rota.clock import Chance, SystemClock
from rota.model.job import Spec
from rota.model.times import DAY, MILLISECOND, SECOND
from rota.model.trigger import schedule as timing
from rota.model.trigger import template as work
from rota.model.trigger.rules import Every
from rota.model.trigger.schedule import Timing
from rota.model.trigger.template import Template
from rota.store.sqlite import SqliteStore
from rota.tasks.encoding import to_json

OWNER = "local"
SLOTS = 1_000
# A node must be up before the first fire.
AHEAD = 6 * SECOND
WARMING = 2  # seconds whose fires don't count
# What stands in the texts in place of what is different for each schedule.
NAME, ANCHOR = "@name", 1_111_111_111_111_111


class Group(msgspec.Struct, frozen=True):
    """Schedules that fire so many times, period by period, each so much later than the one before it."""

    name: str
    count: int
    first: int
    period: int = SECOND
    apart: int = 0
    times: int | None = None

    @property
    def timing(self) -> str:
        last = None if self.times is None else self.first + self.times * self.period - 1
        return timing.to_json(Timing(name=NAME, owner=OWNER, rule=Every(self.period, ANCHOR), end=last))

    @property
    def work(self) -> str:
        body = to_json({"text": TEXT}, 10_000, "arguments")
        return work.to_json(Template(task="noop", spec=Spec.function("noop"), args=body))


class Timetable(ABC):
    """A store with schedules in it."""

    where: str

    @abstractmethod
    def now(self) -> int: ...

    @abstractmethod
    def put(self, group: Group) -> None: ...

    @abstractmethod
    def remove(self, group: str) -> None: ...

    @abstractmethod
    def up(self) -> AbstractContextManager[int]:
        """A node; gives its pid once it has joined."""

    @abstractmethod
    def busy(self) -> bool:
        """Whether anything of today is still to come or to end."""

    @abstractmethod
    def late(self, group: str, since: int) -> list[int]:
        """By how many microseconds the jobs of fires since then started late."""

    def lateness(self, group: Group, warming: int = WARMING) -> list[float]:
        """In milliseconds, in order."""
        found = self.late(group.name, group.first + warming * SECOND)
        if min(found) < 0:
            raise RuntimeError(f"one started {-min(found)} us before its time")
        wanted = group.count * ((group.times or 0) - warming * SECOND // group.period)
        if len(found) != wanted:
            raise RuntimeError(f"{len(found)} fires instead of {wanted}")
        return sorted(one / MILLISECOND for one in found)


def p99(values: list[float]) -> float:
    return values[len(values) * 99 // 100]


def punctuality(place: Timetable, count: int, seconds: int, apart: int) -> list[float]:
    group = Group("often", count, place.now() // SECOND * SECOND + AHEAD, apart=apart, times=seconds + WARMING)
    place.put(group)
    with place.up():
        processes.until(lambda: not place.busy())
    return place.lateness(group)


def shown(name: str, runs: list[list[float]], most: float | None) -> Figure:
    values, middle = [p99(run) for run in runs], statistics.median(statistics.median(run) for run in runs)
    parts = f"p50 {middle:.1f} ms, latest {max(run[-1] for run in runs):.1f} ms"
    return Figure(name, statistics.median(values), "ms", most=most, ours=parts, runs=values)


def many(place: Timetable, size: Size) -> Iterator[Figure]:
    """So many that wait for days, and a hundredth of them that comes in one instant."""
    tomorrow = Group("waiting", size.schedules, place.now() + DAY, period=DAY, apart=10 * MILLISECOND)
    place.put(tomorrow)
    starts: list[float] = []
    runs: list[list[float]] = []
    memory = peak = 0.0
    for run in range(size.runs):
        burst = Group(f"burst-{run}", size.schedules // 100, place.now() + AHEAD, period=DAY, times=1)
        place.put(burst)
        begun = time.perf_counter()
        with place.up() as pid:
            starts.append(time.perf_counter() - begun)
            processes.until(lambda: not place.busy())
            memory, peak = processes.pss_bytes(pid) / 1e6, processes.peak_bytes(pid) / 1e6
        runs.append(place.lateness(burst, warming=0))
        place.remove(burst.name)
    name = f"{place.where}: {size.schedules:,} schedules"
    yield shown(f"{name}, {size.schedules // 100:,} at one instant: p99 late", runs, most=1_000.0)
    yield Figure(f"{name}: `rota up` until it has joined", statistics.median(starts), "s", most=5.0, runs=starts)
    yield Figure(f"{name}: PSS of the node", memory, "MB", most=300.0, ours=f"at most {peak:.0f} MB resident")


class OnSqlite(Timetable):
    where = "SQLite"

    def __init__(self, path: Path) -> None:
        self._path = path
        asyncio.run(self._migrate())

    async def _migrate(self) -> None:
        store = SqliteStore(str(self._path), SystemClock(), Chance())
        await store.migrate()
        await store.close()

    def now(self) -> int:
        return SystemClock().now()

    def put(self, group: Group) -> None:
        self._run(
            """
            WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < :count)
            INSERT INTO schedules (owner, name, revision, timing, work, overlap, calendars, created_at, changed_at,
                                   handled, next_at)
            SELECT :owner, name, 1, replace(replace(:timing, :a_name, name), :an_anchor, at), :work, 'allow', '[]',
                   :now, :now, :now, at
            FROM (SELECT :group || '-' || n AS name, :first + n * :apart AS at FROM numbers)""",
            {
                "count": group.count, "owner": OWNER, "timing": group.timing, "work": group.work, "a_name": NAME,
                "an_anchor": str(ANCHOR), "now": self.now(), "group": group.name, "first": group.first,
                "apart": group.apart,
            },
        )  # fmt: skip

    def remove(self, group: str) -> None:
        self._run("DELETE FROM schedules WHERE name LIKE :group || '-%'", {"group": group})

    def _run(self, statement: str, values: dict[str, object]) -> None:
        connection = apsw.Connection(str(self._path))
        connection.set_busy_timeout(10_000)
        connection.execute(statement, values)
        connection.close()

    def up(self) -> AbstractContextManager[int]:
        return processes.node(self._path, SLOTS)

    def busy(self) -> bool:
        soon = self.now() + DAY // 2
        live = "SELECT 1 FROM jobs WHERE state IN ('ready', 'running', 'scheduled')"
        due = f"SELECT 1 FROM schedules WHERE next_at < {soon}"
        return bool(processes.ask(self._path, f"SELECT EXISTS ({live}) OR EXISTS ({due})"))

    def late(self, group: str, since: int) -> list[int]:
        rows = processes.rows(
            self._path,
            "SELECT a.started_at - f.fire FROM fires f JOIN jobs j ON j.id = f.job_id JOIN attempts a ON a.job = j.seq"
            f" WHERE f.name LIKE '{group}-%' AND f.fire >= {since}",
        )
        return [int(late) for (late,) in rows]


def schedules(folder: Path, size: Size) -> Iterator[Figure]:
    count, seconds = size.punctual, size.ticking
    runs = [
        punctuality(OnSqlite(folder / f"often-{run}.db"), count, seconds, apart=0) for run in range(size.runs)
    ]  # fmt: skip
    yield shown(f"SQLite: {count} schedules each second at one instant: p99 late", runs, most=None)
    yield from many(OnSqlite(folder / "many.db"), size)
