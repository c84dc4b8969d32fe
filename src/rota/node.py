"""One rota process: its services, how they start, how they stop, and what happens when the lease is lost.

A node lives in *sessions*. A session has an incarnation and a lease. When the lease is lost, everything of the session
is stopped and the node joins again as a new incarnation, so the two can't be confused.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from rota import __version__
from rota.batching import Batcher
from rota.clock import Chance, Clock
from rota.config import Settings
from rota.control import janitor, sealer
from rota.control.admission import AdmissionSweep
from rota.control.janitor import Janitor
from rota.control.output_counter import OutputCounter
from rota.control.promoter import Promoter
from rota.control.reaper import Reaper
from rota.control.resolver import Resolver
from rota.control.scheduler import Scheduler
from rota.control.sealer import Sealer
from rota.control.tallier import Tallier
from rota.control.unoffered import UnofferedSweep
from rota.errors import NotAllowed, RotaError, StoreDenied, StoreError
from rota.lease import WARNING, Lease
from rota.lines.packer import Packer
from rota.logs.place import open_spool, spool_base
from rota.logs.replayer import Replayer
from rota.logs.shipper import Shipper
from rota.logs.spool import Spool
from rota.model.job import Kind, Verdict
from rota.model.node import NewNode as NodeValue
from rota.model.outcome import CrashRule, Settlement
from rota.model.principal import SYSTEM
from rota.model.task import TaskInfo
from rota.model.times import SECOND
from rota.service import LIMIT, Loop, Overdue, Service, Watchdog, first
from rota.spare_time import SpareTime
from rota.store.base import Store
from rota.store.values import Topic
from rota.tasks.hooks import Hooks
from rota.telemetry import events
from rota.work.attempt import Pipeline, Stop, weight
from rota.work.functions.hooked import NodeHooks
from rota.work.heartbeat import Heartbeat, LeaseGuard
from rota.work.meter import Meter
from rota.work.own_programs import bare
from rota.work.reconciler import Reconciler
from rota.work.runtime import MakeRuntime, Runtime
from rota.work.worker import Worker

if TYPE_CHECKING:
    from rota.api.server import ApiServer

REJOIN_PAUSE = 1.0
# A store that is away raises an error sooner, and is tried again.
JOIN_LIMIT = 180.0
# The time for the last writes, after the graces.
LAST_WRITES = 5.0
# The time for the last answers of the API, after the graces.
API_END = 5.0


class StuckNode(RotaError):
    """A part hangs, or work still runs although the lease is lost: this process must end without cleaning up."""


class Node:
    """Runs until it is told to stop. `stop()` begins the orderly end, `stop()` again shortens it, and again ends it
    at once."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        chance: Chance,
        bus: events.Bus,
        settings: Settings,
        tasks: Sequence[TaskInfo],
        make_runtime: MakeRuntime,
        hooks: Hooks | None = None,
        api: socket.socket | None = None,
    ) -> None:
        """`api`: an open socket for the HTTP API. Without one the node does not have that role."""
        self._hooks = NodeHooks(hooks or Hooks(), lambda said: bus.emit(events.HookFailed(said)))
        self.store, self.clock, self.chance, self.bus = store, clock, chance, bus
        store.tell_people(lambda line: bus.emit(events.StoreSaid(line)))
        self.settings, self.tasks, self.make_runtime = settings, tasks, make_runtime
        self.id = settings.node or f"node-{chance.token()}"
        self.started = asyncio.Event()
        # Set at the end if functions did not stop: the incarnation that must leave after this process has ended. `rota
        # up` does that; otherwise others take its jobs over when they find its lock free.
        self.remains: str | None = None
        self._stops = 0
        self._joined: str | None = None  # the last incarnation of this node, which may have failed to leave
        self._candidate = chance.token()  # the next; kept until it has joined: a try without an answer may have
        self._session: NodeSession | None = None
        self._listening = api
        self.roles = settings.roles if api else tuple(role for role in settings.roles if role != "api")
        self.api: ApiServer | None = None

    async def run(self) -> None:
        await self._hooks.start()
        try:
            await self._serve_api()
            await self._run()
        finally:
            await self._end_api()
            await self._hooks.stop()
        self.bus.emit(events.NodeStopped(self.id))

    async def _serve_api(self) -> None:
        """The API lives beside the sessions: it answers also while the node joins again, and until its jobs have
        ended."""
        if self._listening is None:
            return
        from rota.api.desk import Desk  # with a web server behind it, which other nodes need not load
        from rota.api.server import ApiServer

        desk = Desk(self.store, self.clock, self.chance, self.settings, self.bus, lambda: self.ready)
        self.api = ApiServer(desk, self._listening)
        await self.api.start()

    async def _end_api(self) -> None:
        if self.api:
            await self.api.stop(API_END if self._stops < 2 else 0)
        if self._listening:
            self._listening.close()

    @property
    def ready(self) -> bool:
        """It has joined, its services run, and it was not told to stop."""
        return self._session is not None and not self._stops

    async def _run(self) -> None:
        while not self._stops:
            try:
                await self._live()
            except StuckNode:
                raise
            except RotaError as error:
                if not self.started.is_set() or self.refused_by(error):
                    raise
                self.bus.emit(events.ServiceFailed("joining", str(error)))
                await asyncio.sleep(REJOIN_PAUSE)

    async def _live(self) -> None:
        session = NodeSession(self, self._candidate)
        try:
            async with asyncio.timeout(JOIN_LIMIT) as limit:
                await session.join([self._joined] if self._joined else [])
        except TimeoutError:
            if not limit.expired():
                raise
            raise StuckNode(f"node {self.id} could not join: the store has not answered for {JOIN_LIMIT:g} s") from None
        self._joined, self._candidate = session.incarnation, self.chance.token()
        self._session = session
        if not self.started.is_set():
            shown = self.settings.queues if session.worker else {}
            self.bus.emit(events.NodeStarted(self.id, self.roles, shown, self.settings.place, len(self.tasks)))
            self.started.set()
        if self._stops:
            session.stop(self._stops)
        try:
            await session.run()
        finally:
            self._session = None

    def refused_by(self, error: Exception) -> bool:
        """Whether the server refuses the access key, or what it is used for: no later try can help."""
        return bool(self.settings.server) and isinstance(error, StoreDenied | NotAllowed)

    def stop(self) -> None:
        self._stops += 1
        if self._session:
            self._session.stop(self._stops)

    @property
    def running(self) -> int:
        worker = self._session.worker if self._session else None
        return worker.running if worker else 0


class NodeSession:
    """One incarnation of a node."""

    def __init__(self, node: Node, incarnation: str) -> None:
        self._node, self.incarnation = node, incarnation
        self._lease = Lease(node.clock, node.settings.lease / SECOND, lambda: node.store.exposed(incarnation))
        self._stop_asked, self._hurried, self._killed = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._lost: str | None = None
        self._gave_up: str | None = None
        self._end = float("inf")  # when the keeper kills all work
        self._runtime: Runtime | None = None
        self.worker: Worker | None = None
        self._shipper: Shipper | None = None
        self._spool: Spool | None = None
        self._loops: list[tuple[Loop, asyncio.Task[None]]] = []
        self._unlisten: list[Callable[[], None]] = []
        self._rule = CrashRule(limit=node.settings.crash_limit)
        self._packer = Packer(bare(os.environ))

    async def join(self, replaces: Sequence[str]) -> None:
        node, settings = self._node, self._node.settings
        is_worker = "worker" in settings.roles
        queues = settings.queues if is_worker else {}
        value = NodeValue(node.id, self.incarnation, node.roles, queues, __version__, settings.lease)
        await node.store.register(SYSTEM, value, node.tasks, replaces)
        try:
            if self._lease.overdue:
                await self._catch_up()
            if is_worker:
                self._spool = open_spool(settings, self.incarnation, node.bus)
                self._runtime = node.make_runtime(self._guards())
                await self._runtime.start()
                self._runtime.extend(self._lease.deadline)
                self.worker = self._make_worker(self._runtime)
        except BaseException:
            if self._runtime:
                await self._runtime.close()
            self._close_spool()
            await self._leave()
            raise

    def _guards(self) -> list[int]:
        """What every process of this node holds, so that others see when the last is gone."""
        return [*self._node.store.guards(self.incarnation), *(self._spool.guards if self._spool else ())]

    def _close_spool(self) -> None:
        if self._shipper:
            self._shipper.stop()
        if self._spool:
            self._spool.close()

    async def _catch_up(self) -> None:
        """The lease counts from before the node has joined. If that took long (the store was slow, or a server waited
        for the end of a predecessor), the keeper would find it over and kill the node."""
        asked = self._node.clock.monotonic()
        if (await self._node.store.renew(SYSTEM, self.incarnation)).known:
            self._lease.renewed(asked)

    def _make_worker(self, runtime: Runtime) -> Worker:
        node, settings = self._node, self._node.settings
        shipper = self._shipper = Shipper(node.store, settings.max_output, node.bus, self._spool)
        finishes: Batcher[Settlement, Verdict] = Batcher(lambda batch: node.store.finish(SYSTEM, batch), weigh=weight)
        pipeline = Pipeline(dict(runtime.executors), shipper, finishes, node.bus, node.chance, self._rule)
        return Worker(
            node.store,
            node.clock,
            self.incarnation,
            settings.queues,
            lambda: [Kind(kind) for kind in runtime.able()],
            settings.prefetch,
            pipeline,
            shipper,
            node.bus,
            settings.lend,
        )

    def _start_services(self) -> None:
        node, store, settings = self._node, self._node.store, self._node.settings
        self._heartbeat = Heartbeat(
            store, node.clock, self.incarnation, self._lease, self.worker, self._extend, self._lose
        )
        self._serve(self._heartbeat, Topic.CANCEL)
        self._serve(LeaseGuard(self._lease, self._extend, self._lose), Topic.CANCEL)
        if "control" in settings.roles:
            self._serve(Promoter(store, self._leads), Topic.DUE)
            self._serve_schedules()
            self._serve(Reaper(store, node.clock, node.bus, self.incarnation, self._lease.healthy_since, self._rule))
            self._serve(Janitor(store, janitor.retention(settings), self._leads), limit=janitor.LIMIT)
            counters: list[Service] = [Tallier(store, self._leads), OutputCounter(store, self._leads)]
            for service in (*counters, *store.services(self._leads)):
                self._serve(service)
            kept, pack = sealer.retention(settings), self._packer.pack
            self._serve(Sealer(store, node.chance, kept, self._leads, pack, busy=SpareTime().is_short))
            self._serve(UnofferedSweep(store, node.clock, node.bus, settings.unknown_grace, self._leads))
        if self.worker and self._runtime:
            self._serve(self.worker)
            reconciler = Reconciler(self.worker)
            self._serve(reconciler)
            self._heartbeat.heard_holds = reconciler.heard
            self._heartbeat.before = self._hand_over_guards
            self._runtime.watch(self.worker.when_ready)
            self._listen(Topic.READY, self.worker.when_ready)
            if base := spool_base(settings):
                self._serve(Replayer(store, base, self.incarnation, settings.max_output, node.bus))
            self._serve(Meter(store, self.worker, lambda: self._heartbeat.feedback))
        self._serve(Watchdog(self._loops, self._give_up))

    def _serve_schedules(self) -> None:
        store, listen = self._node.store, self._listen
        scheduler = Scheduler(store, self._node.bus, self._leads)
        self._serve(scheduler)
        listen(Topic.SCHEDULE, scheduler.when_changed)
        resolver = Resolver(store, self._node.clock)
        self._serve(resolver)
        listen(Topic.SCHEDULE, resolver.when_fires_wait)
        listen(Topic.NEWS, resolver.when_ended)
        listen(Topic.TIES, resolver.when_tied)
        self._serve(AdmissionSweep(store, self._node.clock, self._leads), Topic.GATE)

    def _leads(self) -> bool:
        return self._heartbeat.term is not None

    def _serve(self, service: Service, topic: Topic | None = None, limit: float | None = None) -> None:
        loop = Loop(service, self._node.chance, self._failed, limit=limit)
        if topic:
            self._listen(topic, loop.wake)
        self._loops.append((loop, asyncio.create_task(loop.run(), name=service.name)))

    def _listen(self, topic: Topic, wake: Callable[[], None]) -> None:
        self._unlisten.append(self._node.store.listen(frozenset({topic}), wake))

    def _failed(self, service: str, error: Exception) -> None:
        if self._node.refused_by(error):
            self._gave_up = self._gave_up or str(error)
            self._lose(str(error))  # nothing can be written any more
        elif isinstance(error, Overdue):
            self._node.bus.emit(events.ServiceStuck(service, error.seconds))
        else:
            self._node.bus.emit(events.ServiceFailed(service, f"{type(error).__name__}: {error}"))

    async def run(self) -> None:
        self._start_services()
        await self._stop_asked.wait()
        if self._lost is None:
            await self._end_in_order()
        if self._lost is not None:
            await self._end_in_haste()
        await self._shut_down()
        if self._gave_up is not None:
            raise StuckNode(f"node {self._node.id} has ended because {self._gave_up}")

    def _give_up(self, why: str) -> None:
        """Running jobs are interrupted and handed back: this node may be unable to finish them."""
        if self._gave_up is None and not self._stop_asked.is_set():
            self._gave_up = why
            self._node.bus.emit(events.NodeGaveUp(self._node.id, why))
            self.stop(2)

    def _extend(self, deadline: float) -> None:
        """Once the lease is lost, the deadline never moves later; it moves earlier if the node is exposed too."""
        if self._runtime and (self._lost is None or (self._lease.exposed and deadline < self._end)):
            self._end = deadline
            self._runtime.extend(deadline)

    def _hand_over_guards(self) -> None:
        """Before each renewal, which names the node's lock to others: the store may hold the lock by a new session, and
        the node's processes must hold that session's socket too."""
        if self._runtime:
            with suppress(OSError):  # no more descriptors; the renewal is more important
                self._runtime.guard(self._guards())

    def _lose(self, why: str) -> None:
        if self._lost is None:
            self._lost = why
            for event in (self._stop_asked, self._hurried, self._killed):
                event.set()

    def stop(self, times: int) -> None:
        for event in (self._stop_asked, self._hurried, self._killed)[:times]:
            event.set()

    async def _end_in_order(self) -> None:
        """Finishes jobs within the grace, interrupts the others, and writes all their ends."""
        node, settings, worker = self._node, self._node.settings, self.worker
        self._heartbeat.stopping = True
        if worker:
            await first(self._close_door(worker), self._killed)
            if worker.running:
                node.bus.emit(events.NodeStopping(worker.running, settings.grace / SECOND))
            await first(worker.finished(settings.grace / SECOND), self._hurried)
            if worker.running and self._lost is None:
                node.bus.emit(events.NodeHurried(worker.running))
                worker.stop_all(Stop.INTERRUPT)
                await first(worker.finished(settings.kill_grace / SECOND + 1), self._killed)

    async def _close_door(self, worker: Worker) -> None:
        try:
            async with asyncio.timeout(LIMIT if self._gave_up is None else LAST_WRITES):
                await worker.close_door()
        except (StoreError, TimeoutError) as error:
            self._failed("handing back", error)  # prefetched jobs go back when the node leaves

    async def _end_in_haste(self) -> None:
        """The lease is lost: others may take this node's jobs soon. The keeper kills work that can't be stopped in
        time, together with this process."""
        self._node.bus.emit(events.LeaseLost(self._node.id, self._lost or ""))
        if self.worker and self._runtime:
            self._end = min(self._lease.deadline, self._node.clock.monotonic() + WARNING)
            self._runtime.extend(self._end)
            self.worker.abandon_all()
            finished = await self.worker.finished(self._lease.length)
            if self.worker.stuck or not finished:
                # The keeper is about to end this process. Until then nothing may be handed back.
                await asyncio.sleep(self._lease.length)
                raise StuckNode(f"node {self._node.id} lost its lease and could not stop its work")
        if self._runtime:
            self._runtime.extend(None)

    async def _shut_down(self) -> None:
        for unlisten in self._unlisten:
            unlisten()
        # The keeper stays while any work runs in this process.
        await self._close_runtime()
        if self.worker:
            await self.worker.finished(LAST_WRITES)
        await self._close_runtime()
        for loop, _ in self._loops:
            loop.stop()
        await asyncio.wait([task for _, task in self._loops], timeout=LAST_WRITES)
        for _, task in self._loops:
            task.cancel()
        self._packer.close()
        if self._unstopped:
            # Running work ends with this process, and must not be handed back before that.
            self._node.remains = self.incarnation
            return
        self._close_spool()
        await self._leave()

    async def _leave(self) -> None:
        try:
            async with asyncio.timeout(LIMIT):
                await self._node.store.leave(SYSTEM, self.incarnation)
        except (StoreError, TimeoutError) as error:
            self._failed("leaving", error)

    @property
    def _unstopped(self) -> bool:
        return self.worker is not None and bool(self.worker.running or self.worker.stuck)

    async def _close_runtime(self) -> None:
        if self._runtime:
            await self._runtime.close(stuck=self._unstopped)
