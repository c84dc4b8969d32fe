"""The store for many nodes: the contract of `store.base`, carried out on PostgreSQL 15 and newer.

`finish = writes(work.finish)` names the function that carries a verb out: `postgres.calls` runs it, and the contract
says who may call it. Verbs that need the store itself (its session, floors of scans, several writes) are methods.
`carriers.store` has the verbs that all stores carry out alike.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from rota.clock import Chance, Clock
from rota.errors import InvalidInput, StoreError, StoreUnavailable
from rota.model.job import Claimed, Kind, NewJob
from rota.model.node import NewNode, News, NodeInfo
from rota.model.outcome import CrashRule
from rota.model.principal import SYSTEM, Principal
from rota.model.rank import AGEING_STEP
from rota.model.task import TaskInfo
from rota.model.times import DAY, SECOND, Duration, Instant
from rota.store.base import Store, tell_nobody
from rota.store.carriers import fires as fires_
from rota.store.carriers import offers

# A trailing underscore distinguishes a module from the verb of the same name.
from rota.store.postgres import admission, doctor, graph, log_search, migrate, partitions, work
from rota.store.postgres import nodes as nodes_
from rota.store.postgres import orders as orders_
from rota.store.postgres import reads as reads_
from rota.store.postgres.address import address
from rota.store.postgres.calls import Calls
from rota.store.postgres.database import UNHURRIED, Database, LockedUp, Unit
from rota.store.postgres.errors import translated
from rota.store.postgres.scan_floor import ScanFloor
from rota.store.postgres.schedules import PostgresFires
from rota.store.values import Answer, Finding, Retention, Topic
from rota.store.verbs import audited, once, reads, verbs, writes
from rota.store.walks import Walk

PAUSE = 0.005  # between the pieces of a purge
# A renewal that takes longer is tried again on another connection: there is time for several before a lease is over.
RENEWAL_LIMIT = 3.0
# How long the beginning of a watch waits for transactions that were open before it, and between two looks at them.
LONGEST_WRITE, A_MOMENT = 2.0, 0.02


_VERBS = verbs(Store)
_submit = once(audited(_VERBS["submit"], orders_.submit))
_purge = once(audited(_VERBS["purge"], orders_.purge))


class Whereabouts(NamedTuple):
    """Tells one database from all others while their servers run."""

    database: str
    started: str


class PostgresStore(Calls):
    """`server_time=False`: the given clock is the store's clock, as tests and simulations want it."""

    def __init__(
        self,
        url: str,
        clock: Clock,
        chance: Chance,
        *,
        ageing_step: Duration = AGEING_STEP,
        key_life: Duration = 7 * DAY,
        notify: bool = True,
        server_time: bool = True,
        known: migrate.KnownSchema | None = None,
    ) -> None:
        super().__init__(
            Database(address(url), clock, ageing_step, server_time=server_time, chance=chance), chance, notify
        )
        self._clock, self._key_life = clock, key_life
        self._known = known or migrate.known()
        self._claims, self._due = ScanFloor(clock), ScanFloor(clock)
        self._walks = {query: Walk(clock, beginning) for query, beginning in nodes_.WALKS.items()}

    # -- life of the store -------------------------------------------------------------------------------------------
    async def migrate(self, tell: Callable[[str], None] = tell_nobody) -> tuple[int, int]:
        return await migrate.migrate(self._database, self._known, self._database.now(), self._chance, tell)

    async def open(self) -> None:
        await self._read(migrate.check, self._known)
        with translated(self._database.place):
            await self._session.open()

    async def whereabouts_now(self) -> Whereabouts:
        return Whereabouts(*await self._read(_whereabouts))

    async def examine(self) -> list[Finding]:
        with suppress(StoreError), translated(self._database.place):
            await self._session.open()
        return await self._read(doctor.examine, self._known, self._session, self._clock)

    # -- orders ------------------------------------------------------------------------------------------------------
    replay = writes(orders_.replay)

    async def submit(self, who: Principal, /, orders: Sequence[Sequence[NewJob]]) -> list[Answer]:
        return await self._write(_submit, who, orders, self._key_life)

    async def purge(self, who: Principal, /, ids: Sequence[str]) -> list[bool]:
        more = True
        while more:  # in pieces, so that no write is long
            more = await self._write(graph.settle_piece, ids)
            await asyncio.sleep(PAUSE if more else 0)  # other transactions may hold the rest
        return await self._write(_purge, who, ids)

    # -- running -----------------------------------------------------------------------------------------------------
    start = writes(work.start)
    hand_back = writes(work.hand_back)
    finish = writes(work.finish)
    append_output = writes(work.append_output)
    note = writes(work.note)

    async def claim(
        self,
        who: Principal,
        /,
        incarnation: str,
        wants: Mapping[str, int],
        kinds: Sequence[Kind],
        start: Mapping[str, int],
    ) -> list[Claimed]:
        return await self._write(work.claim, incarnation, wants, kinds, start, self._claims)

    # -- nodes -------------------------------------------------------------------------------------------------------
    rescue = writes(nodes_.departures.rescue)

    async def register(
        self, who: Principal, /, node: NewNode, tasks: Sequence[TaskInfo], replaces: Sequence[str] = ()
    ) -> None:
        with translated(self._database.place):
            if node.access is None:
                await self._session.hold(node.incarnation)
        server = self._session.server_of(node.incarnation)
        try:
            await self._join(node, tasks, replaces, server)
        except BaseException:
            await self._session.drop(node.incarnation)
            raise
        self._session.told(node.incarnation, server)
        for incarnation in replaces:
            await self._session.drop(incarnation)

    async def _join(
        self, node: NewNode, tasks: Sequence[TaskInfo], replaces: Sequence[str], server: str | None
    ) -> None:
        """The id of a node that was just killed is free after its grace. A restart that comes sooner waits instead of
        being refused."""
        while True:
            try:
                lock = self._session.number(node.incarnation)
                return await self._write(nodes_.register, node, tasks, replaces, lock, server)
            except InvalidInput:
                living = await self._read(nodes_.nodes, SYSTEM, False, self._session.own)
                fading = [one.fading for one in living if one.id == node.id and one.fading is not None]
                if not fading or not self._database.server_time:
                    raise
                await asyncio.sleep(max(fading) / SECOND + 0.01)

    async def renew(self, who: Principal, /, incarnation: str, stopping: bool = False, line: str | None = None) -> News:
        server = self._session.server_of(incarnation)
        if server is not None:
            self._session.told(incarnation, server)  # the answer may get lost: assume the worse case
        try:
            news, topics = await self._renew(incarnation, stopping, server, line)
        except LockedUp:  # a migration holds the lock; that is soon over
            news, topics = await self._renew(incarnation, stopping, server, line)
        self._session.told(incarnation, server)
        self._wake(topics)
        return news

    async def _renew(
        self, incarnation: str, stopping: bool, server: str | None, line: str | None
    ) -> tuple[News, set[Topic]]:
        async with self._database.unit(self._database.pools().vital, RENEWAL_LIMIT) as unit:
            news = await nodes_.renew(unit, incarnation, stopping, server, self._claims, self._due, line)
            return news, unit.topics

    async def leave(self, who: Principal, /, incarnation: str) -> None:
        await self._write(nodes_.departures.leave, incarnation)
        await self._session.drop(incarnation)

    async def take_over(
        self, who: Principal, /, incarnation: str, beats: int | None, rule: CrashRule
    ) -> list[str] | None:
        if beats is None and incarnation in self._session.own:
            return None
        return await self._write(nodes_.departures.take_over, incarnation, beats, rule)

    async def nodes(self, who: Principal, /, past: bool = False) -> list[NodeInfo]:
        return await self._read(nodes_.nodes, who, past, self._session.own)

    def guards(self, incarnation: str) -> Sequence[int]:
        return self._session.descriptors() if self._session.server_of(incarnation) else ()

    def exposed(self, incarnation: str) -> Duration | None:
        return self._session.exposed(incarnation)

    # -- shelves -----------------------------------------------------------------------------------------------------
    async def promote(self, who: Principal, /, limit: int, late: Duration = 0) -> tuple[int, Instant | None]:
        return await self._write(nodes_.promote, limit, late, self._due)

    promote_jobs = writes(nodes_.promote_jobs)

    async def prune(self, who: Principal, /, retention: Retention, limit: int) -> int:
        now = self._database.now()
        lacking, gone = await self._read(partitions.needs, now, retention.ended)
        if lacking:
            with suppress(StoreUnavailable):
                await self._write(partitions.make, now)
        await self._index_history()
        swept = 0
        for table, partition in gone:
            with suppress(StoreUnavailable):  # a reader holds the lock: try again next time
                async with self._database.unhurried() as unit:
                    swept += await partitions.drop(unit, table, partition)
        for pruning in nodes_.PRUNINGS:
            swept += await self._write(pruning, retention, limit)
        for query, walk in self._walks.items():
            if (place := walk.place) is not None:
                looked, deleted, last = await self._write(nodes_.sweep, query, place, retention.ended)
                more = walk.went(looked, last)
                swept += deleted or int(more)
        return swept

    # -- functions that nodes offer ----------------------------------------------------------------------------------
    make_known = writes(offers.make_known)

    # -- admission ---------------------------------------------------------------------------------------------------
    admit = writes(admission.admit)

    # -- fires of schedules ------------------------------------------------------------------------------------------
    make_fires = writes(PostgresFires().make_fires)
    advance = writes(PostgresFires().advance)
    release = writes(fires_.release)

    async def _index_history(self) -> None:
        with suppress(StoreUnavailable):
            async with self._database.unit(self._database.pools().reads, UNHURRIED) as unit:
                await partitions.index(unit)

    # -- jobs that wait for others -----------------------------------------------------------------------------------
    settle = writes(graph.settle_any)

    # -- log store ---------------------------------------------------------------------------------------------------
    segments = reads(log_search.segments)
    segment_extent = reads(log_search.segment_extent)
    unsealed = reads(log_search.unsealed)

    # -- reads -------------------------------------------------------------------------------------------------------
    get_many = reads(reads_.get_many)
    page = reads(reads_.page)
    count = reads(reads_.count)
    counted = reads(reads_.counted)
    facets = reads(reads_.facets)
    values = reads(reads_.values)
    resolve = reads(reads_.resolve)
    error_groups = reads(reads_.error_groups)
    events = reads(reads_.events)
    outbox_span = reads(reads_.outbox_span)

    _writers = reads(reads_.writers_of_jobs)

    async def _outlast_writers(self) -> None:
        """Their snapshots may be older than the watch. Those that begin later are not waited for. One that stays open,
        such as a caller's own transaction, is waited for only so long: what it orders may be missing."""
        deadline = asyncio.get_running_loop().time() + LONGEST_WRITE
        before = await self._writers(SYSTEM)
        while before and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(A_MOMENT)
            before &= await self._writers(SYSTEM)


async def _whereabouts(unit: Unit) -> tuple[str, str]:
    row = await unit.row("whereabouts")
    assert row is not None
    return row[0], row[1]
