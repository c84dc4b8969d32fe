"""The store for many nodes: the contract of `store.base`, carried out on PostgreSQL 15 and newer."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Concatenate, ParamSpec, TypeVar

from rota import forking
from rota.clock import Chance, Clock
from rota.errors import InvalidInput, StoreError, StoreUnavailable
from rota.model.graph import ParentInfo
from rota.model.job import Claimed, JobInfo, Kind, NewJob, Ref, Verdict
from rota.model.lifecycle import State
from rota.model.node import NewNode, News, NodeInfo
from rota.model.outcome import CrashRule, Settlement
from rota.model.principal import Principal
from rota.model.rank import AGEING_STEP
from rota.model.task import TaskInfo
from rota.model.times import DAY, SECOND, Duration, Instant
from rota.model.trigger.calendars import Calendar
from rota.model.trigger.records import (
    Advance,
    Fate,
    FireInfo,
    FireKind,
    NewFire,
    NewSchedule,
    ScheduleFilter,
    ScheduleInfo,
)
from rota.model.trigger.skipped import Skipped
from rota.store import base
from rota.store.graph import Settled, WorkflowFilter, WorkflowInfo, WorkflowJob
from rota.store.postgres import doctor, graph, migrate, nodes, orders, partitions, reads, schedules, work
from rota.store.postgres.address import address
from rota.store.postgres.admitting import Admitting
from rota.store.postgres.database import Database, LockedUp, Unit
from rota.store.postgres.errors import translated
from rota.store.postgres.notifier import Notifier
from rota.store.postgres.pool import ConnectionPool
from rota.store.postgres.scan_floor import ScanFloor
from rota.store.postgres.session import LockSession
from rota.store.walks import Walk

T = TypeVar("T")
PAUSE = 0.005  # between the pieces of a purge
P = ParamSpec("P")
# A renewal that takes longer is tried again on another connection: there is time for several before a lease is over.
RENEWAL_LIMIT = 3.0
# A wake-up need not survive a crash, so nobody waits for the disk.
_RING = "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)"


class PostgresStore(Admitting, base.Store):
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
        self._database = Database(address(url), clock, ageing_step, server_time=server_time, chance=chance)
        self._clock, self._chance, self._key_life, self._notify = clock, chance, key_life, notify
        self._known = known or migrate.known()
        self._session = LockSession(self._database, chance.token(), self._wake)
        self._listeners: list[tuple[frozenset[base.Topic], Callable[[], None], asyncio.AbstractEventLoop]] = []
        self._bells: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Notifier] = weakref.WeakKeyDictionary()
        self._claims, self._due = ScanFloor(clock), ScanFloor(clock)
        self._walks = {query: Walk(clock, beginning) for query, beginning in nodes.WALKS.items()}
        forking.watch(self)

    # -- life --------------------------------------------------------------------------------------------------------
    async def migrate(self, tell: Callable[[str], None] = base.tell_nobody) -> tuple[int, int]:
        return await migrate.migrate(self._database, self._known, self._database.now(), self._chance, tell)

    async def open(self) -> None:
        await self._read(migrate.check, self._known)
        with translated(self._database.place):
            await self._session.open()

    async def close(self) -> None:
        self._listeners.clear()
        if bell := self._bells.pop(asyncio.get_running_loop(), None):
            await bell.close()
        await self._session.close()
        await self._database.close()

    def let_go(self) -> None:
        self._listeners.clear()
        self._session.let_go()
        self._database.let_go()

    def before_fork(self) -> None: ...

    def after_fork_in_parent(self) -> None: ...

    def after_fork_in_child(self) -> None:
        forking.keep_for_ever(self._bells, self._listeners)
        self._bells, self._listeners = weakref.WeakKeyDictionary(), []
        self._session.forget(self._chance.token())
        self._database.loops.forget()

    async def examine(self) -> list[base.Finding]:
        with suppress(StoreError), translated(self._database.place):
            await self._session.open()
        return await self._read(doctor.examine, self._known, self._session, self._clock)

    def now(self) -> Instant:
        return self._database.now()

    def doubt(self) -> Duration:
        return self._database.server_clock.doubt if self._database.server_time else 0

    def listen(self, topics: frozenset[base.Topic], wake: Callable[[], None]) -> Callable[[], None]:
        entry = (topics, wake, asyncio.get_running_loop())
        for orphan in [one for one in self._listeners if one[2].is_closed()]:
            self._listeners.remove(orphan)
        self._listeners.append(entry)
        self._session.move_in()

        def stop() -> None:
            if entry in self._listeners:
                self._listeners.remove(entry)

        return stop

    async def tell(self) -> None:
        self._announce(set(base.OF_ORDERS))

    # -- orders ------------------------------------------------------------------------------------------------------
    async def submit(self, who: Principal, batches: Sequence[Sequence[NewJob]]) -> list[base.Answer]:
        if not any(batches):
            return [[] for _ in batches]
        return await self._write(orders.submit, who, batches, self._key_life)

    async def cancel(self, who: Principal, ids: Sequence[str], reason: str) -> list[base.Cancelling]:
        return await self._write(orders.cancel, who, ids, reason)

    async def replay(self, who: Principal, ids: Sequence[str], again: bool = False) -> list[bool]:
        return await self._write(orders.replay, who, ids, again)

    async def hurry(self, who: Principal, ids: Sequence[str]) -> list[bool]:
        return await self._write(orders.hurry, who, ids)

    async def purge(self, who: Principal, ids: Sequence[str]) -> list[bool]:
        more = True
        while more:  # pieces, so that no write is long
            more = await self._write(graph.settle_piece, ids)
            await asyncio.sleep(PAUSE if more else 0)  # others may hold what is left
        return await self._write(orders.purge, who, ids)

    # -- running -----------------------------------------------------------------------------------------------------
    async def claim(
        self,
        who: Principal,
        incarnation: str,
        wants: Mapping[str, int],
        kinds: Sequence[Kind],
        start: Mapping[str, int],
    ) -> list[Claimed]:
        base.require_system(who, "claim")
        return await self._write(work.claim, incarnation, wants, kinds, start, self._claims)

    async def start(self, who: Principal, refs: Sequence[Ref]) -> list[base.Start]:
        base.require_system(who, "start")
        return await self._write(work.start, refs)

    async def hand_back(self, who: Principal, refs: Sequence[Ref]) -> list[Verdict]:
        base.require_system(who, "hand back")
        return await self._write(work.hand_back, refs)

    async def finish(self, who: Principal, settlements: Sequence[Settlement]) -> list[Verdict]:
        base.require_system(who, "finish")
        return await self._write(work.finish, settlements) if settlements else []

    async def append_output(self, who: Principal, chunks: Sequence[base.Chunk]) -> list[Verdict]:
        base.require_system(who, "append output")
        return await self._write(work.append_output, chunks)

    async def note(self, who: Principal, notes: Sequence[base.Note]) -> list[Verdict]:
        base.require_system(who, "take notes of")
        return await self._write(work.note, notes) if notes else []

    # -- nodes -------------------------------------------------------------------------------------------------------
    async def register(
        self, who: Principal, node: NewNode, tasks: Sequence[TaskInfo], replaces: Sequence[str] = ()
    ) -> None:
        base.require_system(who, "register")
        with translated(self._database.place):
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
        """An id whose owner was killed a moment ago is free when its grace is over: whoever restarts it should not be
        turned away for coming too soon."""
        while True:
            try:
                lock = self._session.number(node.incarnation)
                return await self._write(nodes.register, node, tasks, replaces, lock, server)
            except InvalidInput:
                living = await self._read(nodes.nodes, False, self._session.own)
                fading = [one.fading for one in living if one.id == node.id and one.fading is not None]
                if not fading or not self._database.server_time:
                    raise
                await asyncio.sleep(max(fading) / SECOND + 0.01)

    async def renew(self, who: Principal, incarnation: str, stopping: bool = False) -> News:
        base.require_system(who, "renew")
        server = self._session.server_of(incarnation)
        if server is not None:
            self._session.told(incarnation, server)  # the answer may get lost: count on the worse of the two
        try:
            news, topics = await self._renew(incarnation, stopping, server)
        except LockedUp:  # a migration stood in the way; that is soon over
            news, topics = await self._renew(incarnation, stopping, server)
        self._session.told(incarnation, server)
        self._wake(topics)
        return news

    async def _renew(self, incarnation: str, stopping: bool, server: str | None) -> tuple[News, set[base.Topic]]:
        async with self._database.unit(self._database.pools().vital, RENEWAL_LIMIT) as unit:
            return await nodes.renew(unit, incarnation, stopping, server, self._claims, self._due), unit.topics

    async def leave(self, who: Principal, incarnation: str) -> None:
        base.require_system(who, "leave")
        await self._write(nodes.leave, incarnation)
        await self._session.drop(incarnation)

    async def take_over(self, who: Principal, incarnation: str, beats: int | None, rule: CrashRule) -> list[str] | None:
        base.require_system(who, "take over")
        if beats is None and incarnation in self._session.own:
            return None
        return await self._write(nodes.take_over, incarnation, beats, rule)

    async def rescue(self, who: Principal, rule: CrashRule) -> list[str]:
        base.require_system(who, "rescue")
        return await self._write(nodes.rescue, rule)

    def guards(self, incarnation: str) -> Sequence[int]:
        return self._session.descriptors() if self._session.server_of(incarnation) else ()

    def exposed(self, incarnation: str) -> Duration | None:
        return self._session.exposed(incarnation)

    # -- schedules ---------------------------------------------------------------------------------------------------
    async def put_schedule(self, who: Principal, new: NewSchedule, revision: int | None) -> bool:
        return await self._write(schedules.put, who, new, revision)

    async def pause_schedule(self, who: Principal, name: str, note: str) -> bool:
        return await self._write(schedules.pause, who, name, note)

    async def resume_schedule(self, who: Principal, name: str, revision: int, since: Instant) -> bool:
        return await self._write(schedules.resume, who, name, revision, since)

    async def remove_schedule(
        self,
        who: Principal,
        name: str,
        revision: int,
        before: Instant,
        skips: Sequence[Skipped],
        app: str | None = None,
    ) -> bool:
        return await self._write(schedules.remove, who, name, revision, before, skips, app)

    async def undeclare_schedules(self, who: Principal, app: str, read: Sequence[tuple[str, int]]) -> list[str]:
        return await self._write(schedules.undeclare, who, app, read) if read else []

    async def make_fires(
        self, who: Principal, name: str, kind: FireKind, fires: Sequence[NewFire]
    ) -> list[Fate] | None:
        return await self._write(schedules.make_fires, who, name, kind, fires)

    async def coming_schedules(
        self, who: Principal, until: Instant, limit: int
    ) -> tuple[list[ScheduleInfo], Instant | None]:
        base.require_system(who, "look after")
        return await self._read(schedules.coming, until, limit)

    async def advance(self, who: Principal, steps: Sequence[Advance]) -> list[list[Fate] | None]:
        return await self._write(schedules.advance, who, steps)

    async def set_aside_schedule(self, who: Principal, owner: str, name: str, revision: int, why: str) -> bool:
        if who.sees not in (None, owner):
            return False
        return await self._write(schedules.set_aside, owner, name, revision, why)

    async def release(self, who: Principal, limit: int) -> tuple[int, int]:
        base.require_system(who, "release")
        return await self._write(schedules.release, limit)

    async def put_calendar(self, who: Principal, calendar: Calendar) -> None:
        await self._write(schedules.put_calendar, who, calendar)

    async def remove_calendar(self, who: Principal, name: str) -> list[str] | None:
        return await self._write(schedules.remove_calendar, who, name)

    async def calendars(self, who: Principal, owner: str, names: Sequence[str] | None = None) -> list[Calendar]:
        return await self._read(schedules.calendars, owner, names) if who.sees in (None, owner) else []

    async def schedules(self, who: Principal, query: ScheduleFilter) -> list[ScheduleInfo]:
        return await self._read(schedules.schedules, who, query)

    async def fires(self, who: Principal, owner: str, name: str, before: Instant, limit: int) -> list[FireInfo]:
        return await self._read(schedules.fires, who, owner, name, before, limit)

    # -- jobs that wait for others -----------------------------------------------------------------------------------
    async def settle(self, who: Principal, limit: int) -> Settled:
        base.require_system(who, "settle")
        return await self._write(graph.settle_any, limit)

    async def parents(self, who: Principal, job_id: str) -> list[ParentInfo]:
        return await self._read(graph.parents, who, job_id)

    async def workflows(self, who: Principal, query: WorkflowFilter) -> list[WorkflowInfo]:
        return await self._read(graph.workflows, who, query)

    async def workflow(self, who: Principal, workflow_id: str) -> list[WorkflowJob]:
        return await self._read(graph.workflow, who, workflow_id)

    async def resolve_workflow(self, who: Principal, part: str) -> list[str]:
        return await self._read(graph.resolve_workflow, who, part)

    # -- shelves -----------------------------------------------------------------------------------------------------
    async def promote(self, who: Principal, limit: int, late: Duration = 0) -> tuple[int, Instant | None]:
        base.require_system(who, "promote")
        return await self._write(nodes.promote, limit, late, self._due)

    async def prune(self, who: Principal, retention: base.Retention, limit: int) -> int:
        base.require_system(who, "prune")
        now = self._database.now()
        lacking, gone = await self._read(partitions.needs, now, retention.ended)
        if lacking:
            with suppress(StoreUnavailable):
                await self._write(partitions.make, now)
        swept = 0
        for table, partition in gone:
            with suppress(StoreUnavailable):  # someone reads it, and must not be waited for: the next time will do
                async with self._database.unhurried() as unit:
                    swept += await partitions.drop(unit, table, partition)
        for pruning in nodes.PRUNINGS:
            swept += await self._write(pruning, retention, limit)
        for query, walk in self._walks.items():
            if (place := walk.place) is not None:
                looked, deleted, last = await self._write(nodes.sweep, query, place, retention.ended)
                more = walk.went(looked, last)
                swept += deleted or int(more)
        return swept

    # -- reads -------------------------------------------------------------------------------------------------------
    @base.stale_ok
    async def get(self, who: Principal, job_id: str) -> JobInfo | None:
        return await self._read(reads.get, who, job_id)

    @base.stale_ok
    async def find(self, who: Principal, query: base.JobFilter) -> list[JobInfo]:
        return await self._read(reads.find, who, query)

    @base.stale_ok
    async def resolve(self, who: Principal, part: str) -> list[str]:
        return await self._read(reads.resolve, who, part)

    @base.stale_ok
    async def output(self, who: Principal, job_id: str, after: base.Position, limit: int) -> list[base.Chunk]:
        return await self._read(reads.output, who, job_id, after, limit)

    @base.stale_ok
    async def tasks(self, who: Principal) -> list[TaskInfo]:
        return await self._read(reads.tasks)

    @base.stale_ok
    async def counts(self, who: Principal) -> dict[State, int]:
        return await self._read(reads.counts, who)

    async def nodes(self, who: Principal, past: bool = False) -> list[NodeInfo]:
        return await self._read(nodes.nodes, past, self._session.own)

    async def events(self, who: Principal, after: int, limit: int) -> list[base.OutboxEvent]:
        return await self._read(reads.events, who, after, limit)

    # -- how calls run -----------------------------------------------------------------------------------------------
    async def _write(self, deed: Callable[Concatenate[Unit, P], Awaitable[T]], *args: P.args, **named: P.kwargs) -> T:
        answer, topics = await self._database.call(self._database.pools().work, deed, *args, **named)
        if topics:
            self._announce(topics)
        return answer

    async def _read(self, deed: Callable[Concatenate[Unit, P], Awaitable[T]], *args: P.args, **named: P.kwargs) -> T:
        answer, _ = await self._database.call(self._database.pools().reads, deed, *args, **named)
        return answer

    def _announce(self, topics: set[base.Topic]) -> None:
        self._wake(topics)
        if self._notify:
            loop = asyncio.get_running_loop()
            if loop not in self._bells:
                self._bells[loop] = Notifier(self._ring)
            self._bells[loop].ring(topics)

    async def _ring(self, letters: str) -> None:
        pool: ConnectionPool = self._database.pools().work
        with suppress(StoreError):  # a lost wake-up costs a second at most
            async with self._database.unit(pool) as unit:
                await unit.connection.execute(_RING, self._database.schema, f"{letters}/{self._session.name}")

    def _wake(self, topics: set[base.Topic]) -> None:
        here = asyncio.get_running_loop()
        for wanted, wake, loop in list(self._listeners):
            if wanted & topics:
                if loop is here:
                    wake()
                elif not loop.is_closed():
                    loop.call_soon_threadsafe(wake)
