"""How punctual schedules are on PostgreSQL, and what a hundred thousand of them cost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from bench.figure import Figure, Size
from bench.postgres.quiet import LOGGED, STATEMENT
from bench.postgres.server import Store, nodes, server, store
from bench.schedules import ANCHOR, NAME, OWNER, SLOTS, Group, Timetable, many, punctuality, shown
from rota.model.times import DAY, SECOND
from tests.servers.postgres import Server


class OnPostgres(Timetable):
    where = "PostgreSQL"

    def __init__(self, place: Store) -> None:
        self._place = place

    def now(self) -> int:
        return self._place.now()

    def put(self, group: Group) -> None:
        now = self.now()
        self._place.run(
            """
            INSERT INTO rota.schedules (owner, name, revision, timing, work, overlap, calendars, created_at, changed_at,
                                        handled, next_at)
            SELECT %s, name, 1, replace(replace(%s, %s, name), %s, at::text), %s, 'allow', '{}', %s, %s, %s, at
            FROM (SELECT %s || '-' || n AS name, %s + n * %s AS at FROM generate_series(0, %s::bigint - 1) n) one""",
            OWNER, group.timing, NAME, str(ANCHOR), group.work, now, now, now, group.name, group.first, group.apart,
            group.count,
        )  # fmt: skip
        self._place.run("VACUUM (ANALYZE) rota.schedules")

    def remove(self, group: str) -> None:
        self._place.run("DELETE FROM rota.schedules WHERE name LIKE %s || '-%%'", group)

    @contextmanager
    def _up(self) -> Iterator[int]:
        with nodes(self._place, slots=SLOTS) as (pid,):
            yield pid

    def up(self) -> AbstractContextManager[int]:
        return self._up()

    def busy(self) -> bool:
        return bool(
            self._place.value(
                "SELECT EXISTS (SELECT FROM rota.jobs) OR EXISTS (SELECT FROM rota.schedules WHERE next_at < %s)",
                self.now() + DAY // 2,
            )
        )

    def late(self, group: str, since: int) -> list[int]:
        rows = self._place.connection.execute(
            "SELECT h.started_at - f.fire FROM rota.fires f JOIN rota.history h ON h.id = f.job_id"
            " WHERE f.name LIKE %s || '-%%' AND f.fire >= %s",
            (group, since),
        )
        return [int(late) for (late,) in rows]


def schedules(folder: Path, size: Size) -> Iterator[Figure]:
    count = size.punctual
    with server(folder) as one:
        for how, apart, most in (("at one instant", 0, 15.0), ("spread over it", SECOND // count, 15.0)):
            runs = [_punctuality(one, folder, size, apart) for _ in range(size.runs)]
            yield shown(f"PostgreSQL: {count} schedules each second {how}: p99 late", runs, most)
        with store(one, folder) as place:
            yield from many(OnPostgres(place), size)
    logged = folder / "logged"
    logged.mkdir()
    with server(logged, **LOGGED) as one:
        yield _waiting(one, folder, size)


def _punctuality(one: Server, folder: Path, size: Size, apart: int) -> list[float]:
    with store(one, folder) as place:
        return punctuality(OnPostgres(place), size.punctual, size.ticking, apart)


def _waiting(one: Server, folder: Path, size: Size) -> Figure:
    """What a node asks while all of them wait."""
    with store(one, folder) as place:
        timetable = OnPostgres(place)
        timetable.put(Group("waiting", size.schedules, timetable.now() + DAY, period=DAY))
        with timetable.up():
            time.sleep(size.settling)
            logged, begun = len(one.log()), time.perf_counter()
            time.sleep(size.watched)
            took = time.perf_counter() - begun
            statements = len(STATEMENT.findall(one.log()[logged:]))
    name = f"PostgreSQL: {size.schedules:,} schedules that wait, statements of an idle node"
    return Figure(name, statements / took, "/s", most=2.0, ours=f"{statements} in {took:.0f} s")
