"""The embedded store: the contract of `store.base`, carried out on one SQLite file.

Calls run on two threads, one per connection: writes in turn on the one, reads on the other, so that a long read never
keeps a renewal waiting. With `inline=True` there are no threads, for tests and simulation.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Concatenate, ParamSpec, TypeVar

from rota import forking
from rota.clock import Chance, Clock
from rota.errors import StoreUnavailable
from rota.model.graph import ParentInfo
from rota.model.job import Claimed, JobInfo, Kind, NewJob, Ref, Verdict
from rota.model.lifecycle import State
from rota.model.node import NewNode, News, NodeInfo
from rota.model.outcome import CrashRule, Settlement
from rota.model.principal import Principal
from rota.model.rank import AGEING_STEP
from rota.model.task import TaskInfo
from rota.model.times import DAY, Duration, Instant
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
from rota.store.sqlite import doctor, graph, limits, migrate, nodes, orders, reads, schedules, work
from rota.store.sqlite.admitting import Admitting
from rota.store.sqlite.database import MEMORY, Database, beside
from rota.store.sqlite.fork import TORN, Fork
from rota.store.sqlite.node_locks import NodeLocks
from rota.store.sqlite.threads import Threads
from rota.store.sqlite.wakeups import Wakeups
from rota.store.walks import Walk

T = TypeVar("T")
P = ParamSpec("P")


class SqliteStore(Admitting, base.Store):
    def __init__(
        self,
        path: str,
        clock: Clock,
        chance: Chance,
        *,
        inline: bool = False,
        ageing_step: Duration = AGEING_STEP,
        key_life: Duration = 7 * DAY,
    ) -> None:
        # Absolute, and links followed: the process may change its folder, and all must meet in one folder of locks.
        self.path = path = path if path == MEMORY else os.path.realpath(path)
        self._clock, self._ageing_step, self._key_life = clock, ageing_step, key_life
        folder = beside(path)
        self._bell = None if path == MEMORY else Wakeups(folder, chance.token())
        self.locks = None if path == MEMORY else NodeLocks(folder)
        self._listeners: list[tuple[frozenset[base.Topic], Callable[[], None], asyncio.AbstractEventLoop]] = []
        self._inline, self._chance, self._closed = inline, chance, False
        self._threads = None if inline else Threads(shared=path == MEMORY)
        self._writer: Database | None = None
        self._reader: Database | None = None
        self._flows = Walk(clock, ("",))  # through all workflows, for old ones
        self._fork = Fork()
        forking.watch(self)

    # -- life --------------------------------------------------------------------------------------------------------
    async def migrate(self, tell: Callable[[str], None] = base.tell_nobody) -> tuple[int, int]:
        """Nobody keeps the write lock for long enough to be told about; who does so is an error."""
        return await self._run(True, lambda: migrate.migrate(self._write_side()))

    async def open(self) -> None:
        await self._run(True, lambda: migrate.check(self._write_side()))

    async def close(self) -> None:
        self._closed = True
        self._listeners.clear()
        for presence in (self._bell, self.locks):
            if presence:
                presence.close()
        for writes, side in ((True, self._writer), (False, self._reader)):
            if side is not None:
                await self._carry_out(writes, side.close)
        self._writer = self._reader = None
        if self._threads:
            self._threads.stop()

    def let_go(self) -> None:
        self._closed = True
        self._listeners.clear()
        writer, reader, self._writer, self._reader = self._writer, self._reader, None, None
        if self._threads:
            self._threads.end([(writes, side.close) for writes, side in ((True, writer), (False, reader)) if side])

    # -- forks -------------------------------------------------------------------------------------------------------
    def before_fork(self) -> None:
        """SQLite's connections must not be there when a process forks: see `Fork`."""
        if self.path != MEMORY and self._fork.wait():
            for side in (self._writer, self._reader):
                if side is not None:
                    side.close()
            self._writer = self._reader = None

    def after_fork_in_parent(self) -> None:
        self._fork.over()

    def after_fork_in_child(self) -> None:
        self._fork = Fork(torn=self.path != MEMORY and not (self._writer is None is self._reader))
        forking.keep_for_ever(self._writer, self._reader, self._threads, self._listeners)
        self._writer, self._reader, self._listeners = None, None, []
        self._threads = None if self._inline else Threads(shared=self.path == MEMORY)
        if self._bell and self.locks:
            self.locks.disown()
            self._bell.forget()
            self._bell = Wakeups(beside(self.path), self._chance.token())

    async def examine(self) -> list[base.Finding]:
        return await self._run(False, lambda: doctor.examine(self._read_side()))

    def now(self) -> Instant:
        return self._clock.now()

    def listen(self, topics: frozenset[base.Topic], wake: Callable[[], None]) -> Callable[[], None]:
        entry = (topics, wake, asyncio.get_running_loop())
        self._listeners.append(entry)
        end: Callable[[], None] | None = None
        if self._bell:
            with suppress(OSError):  # deaf to other processes, then; the poll remains
                end = self._bell.hear(topics, wake)

        def stop() -> None:
            if entry in self._listeners:
                self._listeners.remove(entry)
            if end:
                end()

        return stop

    async def tell(self) -> None:
        if self._bell:
            self._bell.ring(base.OF_ORDERS)
        self._announce(set(base.OF_ORDERS))

    # -- orders ------------------------------------------------------------------------------------------------------
    async def submit(self, who: Principal, batches: Sequence[Sequence[NewJob]]) -> list[base.Answer]:
        return await self._write(orders.submit, who, batches, self._key_life)

    async def cancel(self, who: Principal, ids: Sequence[str], reason: str) -> list[base.Cancelling]:
        return await self._write(orders.cancel, who, ids, reason)

    async def replay(self, who: Principal, ids: Sequence[str], again: bool = False) -> list[bool]:
        return await self._write(orders.replay, who, ids, again)

    async def hurry(self, who: Principal, ids: Sequence[str]) -> list[bool]:
        return await self._write(orders.hurry, who, ids)

    async def purge(self, who: Principal, ids: Sequence[str]) -> list[bool]:
        while await self._read(graph.unsettled, ids):
            await self._write(graph.settle_piece)  # so that no write becomes long, however many wait for them
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
        return await self._write(work.claim, incarnation, wants, kinds, start)

    async def start(self, who: Principal, refs: Sequence[Ref]) -> list[base.Start]:
        base.require_system(who, "start")
        return await self._write(work.start, refs)

    async def hand_back(self, who: Principal, refs: Sequence[Ref]) -> list[Verdict]:
        base.require_system(who, "hand back")
        return await self._write(work.hand_back, refs)

    async def finish(self, who: Principal, settlements: Sequence[Settlement]) -> list[Verdict]:
        base.require_system(who, "finish")
        return await self._write(work.finish, settlements)

    async def append_output(self, who: Principal, chunks: Sequence[base.Chunk]) -> list[Verdict]:
        base.require_system(who, "append output")
        return await self._write(work.append_output, chunks)

    async def note(self, who: Principal, notes: Sequence[base.Note]) -> list[Verdict]:
        base.require_system(who, "take notes of")
        return await self._write(work.note, notes)

    # -- nodes -------------------------------------------------------------------------------------------------------
    async def register(
        self, who: Principal, node: NewNode, tasks: Sequence[TaskInfo], replaces: Sequence[str] = ()
    ) -> None:
        base.require_system(who, "register")
        if self.locks:
            self.locks.hold(node.incarnation)
        try:
            await self._write(nodes.register, node, tasks, replaces, self._gone)
        except BaseException:
            if self.locks:
                self.locks.drop(node.incarnation)
            raise
        if self.locks:
            for incarnation in replaces:
                self.locks.drop(incarnation)

    async def renew(self, who: Principal, incarnation: str, stopping: bool = False) -> News:
        base.require_system(who, "renew")
        return await self._write(nodes.renew, incarnation, stopping)

    async def leave(self, who: Principal, incarnation: str) -> None:
        base.require_system(who, "leave")
        await self._write(nodes.leave, incarnation)
        if self.locks:
            self.locks.drop(incarnation)

    async def take_over(self, who: Principal, incarnation: str, beats: int | None, rule: CrashRule) -> list[str] | None:
        base.require_system(who, "take over")
        if beats is None and not self._gone(incarnation):
            return None
        moved = await self._write(nodes.take_over, incarnation, beats, rule)
        if moved is not None and self.locks and beats is None:
            self.locks.forget(incarnation)
        return moved

    async def rescue(self, who: Principal, rule: CrashRule) -> list[str]:
        base.require_system(who, "rescue")
        return await self._write(nodes.rescue, rule)

    def guards(self, incarnation: str) -> Sequence[int]:
        return self.locks.descriptors(incarnation) if self.locks else ()

    def _gone(self, incarnation: str) -> bool:
        return self.locks is not None and self.locks.gone(incarnation)

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
        if not await self._read(schedules.any_waiting):
            return 0, 0
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
        answer, topics = await self._run(
            True, lambda: self._commit(lambda db: graph.settle_any(db, limit), settle=False)
        )
        self._announce(topics)
        return answer

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
        # Looking costs no write lock and no sync to disk; most looks find nothing due.
        upcoming = await self._read(nodes.next_instant, late)
        if upcoming is None or upcoming > self.now():
            return 0, upcoming
        return await self._write(nodes.promote, limit, late)

    async def prune(self, who: Principal, retention: base.Retention, limit: int) -> int:
        base.require_system(who, "prune")
        if self._bell and self.locks:
            self._bell.sweep()
            self.locks.sweep({node.incarnation for node in await self._read(nodes.nodes, False, self._gone)})
        pruned = await self._write(nodes.prune, retention, limit)
        if (place := self._flows.place) is not None:
            looked, deleted, last = await self._write(nodes.sweep_workflows, place, retention.ended)
            more = self._flows.went(looked, last)
            pruned += deleted or int(more)
        return pruned

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
        return await self._read(nodes.nodes, past, self._gone)

    async def events(self, who: Principal, after: int, limit: int) -> list[base.OutboxEvent]:
        return await self._read(reads.events, who, after, limit)

    # -- how calls run -----------------------------------------------------------------------------------------------
    async def _write(self, work: Callable[Concatenate[Database, P], T], *args: P.args, **named: P.kwargs) -> T:
        answer, topics = await self._run(True, lambda: self._commit(lambda db: work(db, *args, **named)))
        if topics:
            self._announce(topics)
        return answer

    def _commit(self, work: Callable[[Database], T], settle: bool = True) -> tuple[T, set[base.Topic]]:
        db = self._write_side()
        answer = db.write(lambda db: _settled(db, work) if settle else work(db))
        if self._bell and db.topics:
            self._bell.ring(db.topics)
        return answer, db.topics

    async def _read(self, work: Callable[Concatenate[Database, P], T], *args: P.args, **named: P.kwargs) -> T:
        return await self._run(False, lambda: self._read_side().read(lambda db: work(db, *args, **named)))

    async def _run(self, writes: bool, call: Callable[[], T]) -> T:
        if self._closed:
            raise StoreUnavailable(f"the store {self.path} was closed")
        if self._fork.torn:
            raise StoreUnavailable(TORN.format(self.path))
        return await self._carry_out(writes, self._fork.guarded(writes, call))

    async def _carry_out(self, writes: bool, call: Callable[[], T]) -> T:
        if self._threads is None:
            return call()
        return await asyncio.get_running_loop().run_in_executor(self._threads.of(writes), call)

    def _announce(self, topics: set[base.Topic]) -> None:
        here = asyncio.get_running_loop()
        for wanted, wake, loop in list(self._listeners):
            if wanted & topics:
                if loop is here:
                    wake()
                elif not loop.is_closed():
                    loop.call_soon_threadsafe(wake)

    def _write_side(self) -> Database:
        if self._writer is None:
            self._writer = Database(self.path, self._clock, self._ageing_step)
        return self._writer

    def _read_side(self) -> Database:
        if self.path == MEMORY:
            return self._write_side()
        if self._reader is None:
            self._reader = Database(self.path, self._clock, self._ageing_step, writable=False)
        return self._reader


def _settled(db: Database, work: Callable[[Database], T]) -> T:
    """Whatever a write does: jobs that it ended, and that others wait for, are looked after before it commits, and keys
    that became free are handed on."""
    answer = work(db)
    settling, freed = db.rows("left_over")[0]
    if settling:
        graph.settle(db)
    if freed:
        limits.hand_on(db)
    return answer
