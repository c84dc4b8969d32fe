"""The pool: which attempt runs in which process, and how many processes there are.

Assignments wait in the order of their ranks; a process that becomes free takes the next. Quick functions never need
more than the warm processes. For each process that is busy for longer than a moment another is forked, up to the slots
of the node: so long functions run side by side, and short ones don't make hundreds of processes. Processes that were
idle for a while are let go. Functions that share a process run in a host, one at a time; another takes its place when
it is not usable any more.
"""

from __future__ import annotations

import asyncio
import heapq
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from rota.model.outcome import Failed, Interrupted, Problem
from rota.model.times import SECOND
from rota.telemetry.events import Bus, PoolFailed, PoolSaid
from rota.work.attempt import TOO_LATE
from rota.work.functions.assignment import Assignment
from rota.work.functions.fork_server_client import ForkServerClient
from rota.work.functions.hooked import STOP_LIMIT
from rota.work.functions.host_client import HostProcess
from rota.work.functions.process_client import PoolProcess
from rota.work.functions.wire import Briefing
from rota.work.keeper.client import KeeperClient, SpawnError
from rota.work.output import Drain

A_MOMENT = 0.02  # seconds after which another process is forked for a busy one
LOOK_AGAIN = 0.01
FORKS_AT_ONCE = 4
FRAME_MARGIN = 1 << 20  # an error with its trace, or a piece of a log
KEPT_IDLE = 30.0
NO_PROCESS = "there is no process for it"
TIDY = 2.0
UNHEARD = 5.0  # seconds to take an order; a slower process is stopped, or held up by a thread that a job has left
# Orders that a process gets ahead, while functions take no longer than this on average.
MOST_AHEAD = 8
QUICK = 0.005
# A fork server that dies sooner than this after its start counts as failed; and the longest pause between failed forks.
LIVED = 5.0
LONGEST_IMPORT = 120.0
# Pauses before a fork server is started again, by the number of failed starts.
PAUSES = (0.0, 0.5, 2.0, 5.0, 15.0, 30.0)


class Pool:
    def __init__(
        self,
        keeper: KeeperClient,
        briefing: Briefing,
        drain: Drain,
        bus: Bus,
        tell: Callable[[Mapping[str, str]], None],
        most: int,
        alone: bool = True,
        shared: bool = False,
        has_stop_hooks: bool = False,
        start_hooks: Sequence[str] = (),
    ) -> None:
        """`tell` is called with tasks that can't run here, and why. `alone`: some tasks want a process of their own;
        `shared`: some tasks share one; `start_hooks`: the names of the hooks process.start."""
        self.says_started, self._has_stop_hooks = briefing.says_started, has_stop_hooks
        self._keeper, self._briefing, self.drain, self._bus, self._tell = keeper, briefing, drain, bus, tell
        settings = briefing.settings
        warm = settings.warm_processes or max(2, os.cpu_count() or 1)
        self._warm, self._most = min(warm, most) if alone else 0, most
        self.memory = settings.pool_memory
        self.largest_frame = settings.max_result + FRAME_MARGIN
        self._shared = shared
        self._host: HostProcess | None = None
        self._waiting_shared: list[Assignment] = []
        self._barren_hosts = 0  # hosts in a row that ended before they took orders
        self._host_not_before = 0.0
        self._loop = asyncio.get_running_loop()
        self._fork_server: ForkServerClient | None = None
        self._processes: set[PoolProcess] = set()
        self._idle: list[PoolProcess] = []  # the last is the warmest
        self._waiting: list[tuple[tuple[int, int], Assignment]] = []
        self._barren, self._not_before = 0, 0.0  # processes in a row that ended without work; no fork before this time
        self._pace = 0.0  # recent average duration of functions, in seconds
        self._looking: asyncio.TimerHandle | None = None
        self._closed = False
        self._served = False  # some fork server was able to import the modules
        self.unable: Mapping[str, str] = {}  # tasks that can't be run here, and why
        self.when_able: Callable[[], None] = lambda: None
        self._deaths, self._started = 0, 0.0
        self._start_hooks = ", ".join(start_hooks)
        self._failed_starts: Counter[str] = Counter()  # processes of each kind in a row that ended in their start hooks
        self._starting: asyncio.Task[None] | None = None
        self._trimming = self._loop.call_later(TIDY, self._trim)

    @property
    def able(self) -> bool:
        """Whether a function could begin now; `when_able` is called when that comes true."""
        return self._fork_server.prepared if self._fork_server is not None else not self._served and bool(self.unable)

    async def start(self, within: float) -> None:
        """Returns when the fork server has reported its tasks, or after `within` seconds; orders then wait for it.
        Raises SpawnError."""
        self._started = self._loop.time()
        server = self._fork_server = await ForkServerClient.start(self._keeper, self._briefing, self._when_over)
        self._starting = self._loop.create_task(self._begin(server))
        await asyncio.wait([self._starting], timeout=within)

    def add(self, assignment: Assignment) -> None:
        heapq.heappush(self._waiting, (assignment.rank, assignment))
        if self._idle:
            self.employ(self._idle.pop())
        else:
            self._look_soon()

    def add_shared(self, assignment: Assignment) -> None:
        self._waiting_shared.append(assignment)
        self.fill_host()

    @property
    def _ready(self) -> ForkServerClient | None:
        return self._fork_server if self._fork_server is not None and self._fork_server.prepared else None

    # -- its processes -----------------------------------------------------------------------------------------------
    def done(self, process: PoolProcess, wall: int) -> None:
        """Called when a process has ended an assignment."""
        self._pace += (wall / SECOND - self._pace) / 8
        self.employ(process)

    def employ(self, process: PoolProcess) -> None:
        """Gives a process the next assignment, and a few more while functions are quick, so that it need not wait
        between them."""
        if not process.usable:
            return
        given = process.assignments
        ahead = 1 + min(MOST_AHEAD, len(self._waiting) // (len(self._processes) or 1)) if self._pace < QUICK else 1
        while self._waiting and len(given) < ahead:
            rank, assignment = heapq.heappop(self._waiting)
            if assignment.future.done():
                continue
            if assignment.attempt.too_late():
                assignment.end(Interrupted(TOO_LATE))
            elif (given and assignment.attempt.claimed.slack is not None) or not process.add(assignment):
                heapq.heappush(self._waiting, (rank, assignment))
                break
        if not given:
            self._idle.append(process)
        elif len(given) > 1:
            self._look_soon()

    def put_back(self, assignments: list[Assignment]) -> None:
        """Returns assignments that a process has not begun to their places in the line."""
        for assignment in assignments:
            if not assignment.future.done():
                heapq.heappush(self._waiting, (assignment.rank, assignment))
        while self._waiting and self._idle:
            self.employ(self._idle.pop())
        if self._waiting:
            self._look_soon()

    def lost(self, process: PoolProcess) -> None:
        """Called when a process is gone or about to end."""
        if process in self._processes:
            self._processes.discard(process)
            if process in self._idle:
                self._idle.remove(process)
            # Processes that die without any work must not make us fork without end.
            self._barren = 0 if process.served or self._fork_server is None else self._barren + 1
            if self._barren > FORKS_AT_ONCE:
                self._not_before = self._loop.time() + min(LIVED, 0.05 * 2 ** min(self._barren, 10))
            self._look()

    def host_lost(self, host: HostProcess) -> None:
        """Called when a host is gone. Another takes the place of one that did not start."""
        if host.born:
            self._barren_hosts = 0
        elif host is self._host and not self._closed:
            self._host = None
            self._barren_hosts += 1
            pause = min(LIVED, 0.05 * 2 ** min(self._barren_hosts, 10))
            self._host_not_before = self._loop.time() + pause
            self._loop.call_at(self._host_not_before, self.fill_host)

    def start_succeeded(self, kind: str) -> None:
        self._failed_starts[kind] = 0

    def start_failed(self, kind: str, how: str) -> None:
        """Called when a process of this kind ended in its start hooks. That may happen once by chance. If the next one
        does so too, attempts that no other process could take fail, as they do after an exception in such a hook."""
        if self._closed:
            return
        self._failed_starts[kind] += 1
        why = f"the hooks process.start ({self._start_hooks}) have ended their process: {how}"
        if self._failed_starts[kind] == 1:
            self.complain(f"a process for functions did not start; {why}")
        elif kind == "host":
            waiting, self._waiting_shared = self._waiting_shared, []
            _fail(waiting, why)
        elif not any(one.usable for one in self._processes):
            waiting, self._waiting = [one for _, one in self._waiting], []
            _fail(waiting, why)

    def complain(self, error: str) -> None:
        self._bus.emit(PoolFailed(error, 0.0))

    def stray(self, body: bytes) -> None:
        self._bus.emit(PoolSaid(body.decode("utf-8", "backslashreplace")[:2000]))

    def _look_soon(self) -> None:
        if self._looking is None:
            self._looking = self._loop.call_later(LOOK_AGAIN, self._look)

    def _look(self) -> None:
        """Forks processes if there are too few."""
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None
        fork_server = self._ready
        if self._closed or fork_server is None:
            return
        if self._waiting_shared:
            self.fill_host()
        now = self._loop.time()
        if now < self._not_before:
            self._looking = self._loop.call_at(self._not_before, self._look)
            return
        while self._waiting and self._waiting[0][1].future.done():
            heapq.heappop(self._waiting)
        busy = [one for one in self._processes if one.assignments and now - one.since > A_MOMENT]
        for one in busy:
            if len(one.assignments) > 1:
                one.recall()  # assignments that would wait behind a slow one can run elsewhere
        unborn = sum(not one.born for one in self._processes)
        wanted = self._warm if not self._waiting else max(1, self._warm) + len(busy)
        short = min(wanted, self._most) - len(self._processes)
        for _ in range(min(short, FORKS_AT_ONCE - unborn)):
            try:
                self._processes.add(PoolProcess(self, fork_server))
            except OSError:  # no descriptors, or the fork server is busy or dead
                break
        ahead = any(len(one.assignments) > 1 for one in self._processes)
        if self._waiting or ahead or len(self._processes) < self._warm:
            self._look_soon()

    def fill_host(self) -> None:
        """Gives the host all assignments that wait for one. A host is kept even if none waits, so that the first starts
        at once."""
        host = self._host
        if host is None or not host.usable:
            early = self._loop.time() < self._host_not_before  # `host_lost` comes back to it
            if (fork_server := self._ready) is None or early or self._closed:
                return
            try:
                host = self._host = HostProcess(self, fork_server)
            except OSError:  # no descriptors, or the fork server is busy or dead
                self._look_soon()
                return
        if not host.born:
            return  # it calls when it has started
        waiting, self._waiting_shared = self._waiting_shared, []
        for assignment in waiting:
            if not assignment.future.done():
                host.add(assignment)

    def _trim(self) -> None:
        now = self._loop.time()
        self._trimming = self._loop.call_later(TIDY, self._trim)
        for process in [one for one in self._processes if one.assignments and now - one.since > UNHEARD]:
            process.give_up_on()
        for process in [one for one in self._idle if now - one.since > KEPT_IDLE]:
            if len(self._processes) <= self._warm:
                break
            self._idle.remove(process)
            self._processes.discard(process)
            process.retire()

    # -- the fork server ---------------------------------------------------------------------------------------------
    async def _begin(self, server: ForkServerClient) -> None:
        """Returns when the first fork server is ready. If it dies before that, by chance perhaps, another is tried:
        without any, functions would run inside the node for its whole life."""
        await self._follow(server)
        if not self._served and server.ready.is_set():
            with suppress(SpawnError):
                self._fork_server = server = await ForkServerClient.start(self._keeper, self._briefing, self._when_over)
                await self._follow(server)
        if not self._served:
            self._give_up()

    async def _follow(self, server: ForkServerClient) -> None:
        """Returns when the fork server is ready, or over."""
        try:
            async with asyncio.timeout(LONGEST_IMPORT):
                await server.ready.wait()
        except TimeoutError:
            server.kill_all()
            return
        if server.prepared:
            self._served = True
            self._learn(server.unable)
            if self._shared:
                self.fill_host()
            self._look()
            self.when_able()

    def _learn(self, unable: Mapping[str, str]) -> None:
        new = {task: why for task, why in unable.items() if task not in self.unable}
        self.unable = unable
        for assignment in (*(one for _, one in self._waiting), *self._waiting_shared):
            if assignment.task.name in unable:
                assignment.end(Interrupted(NO_PROCESS))  # the next attempt goes elsewhere
        self._tell(new)

    def _when_over(self, server: ForkServerClient) -> None:
        if self._closed or server is not self._fork_server:
            return
        self._fork_server = None
        if not self._served:
            return
        now = self._loop.time()
        self._deaths = self._deaths + 1 if now - self._started < LIVED else 1
        pause = PAUSES[min(self._deaths, len(PAUSES)) - 1]
        self._bus.emit(PoolFailed("the process that functions are forked from has died", pause))
        if pause:
            self._send_back("there is no process for it just now")  # other nodes may have one
        self._starting = self._loop.create_task(self._restart(pause))

    def _give_up(self) -> None:
        """Gives up after two fork servers died during their imports, or took too long."""
        why = "the process that should import its module has died, or took too long for it"
        self._learn({path.task: why for path in self._briefing.functions})
        self._send_back(NO_PROCESS)
        self.when_able()

    def _send_back(self, why: str) -> None:
        """Ends assignments that wait for a process."""
        waiting = [*(one for _, one in self._waiting), *self._waiting_shared]
        self._waiting, self._waiting_shared = [], []
        for assignment in waiting:
            assignment.end(Interrupted(why))

    async def _restart(self, pause: float) -> None:
        await asyncio.sleep(pause)
        self._started = self._loop.time()
        try:
            self._fork_server = await ForkServerClient.start(self._keeper, self._briefing, self._when_over)
        except SpawnError as error:
            if not self._closed:
                self._deaths += 1
                wait = PAUSES[min(self._deaths, len(PAUSES)) - 1]
                self._bus.emit(PoolFailed(f"no process to fork functions from: {error}", wait))
                self._starting = self._loop.create_task(self._restart(wait))
            return
        await self._follow(self._fork_server)

    async def close(self) -> None:
        self._closed = True
        self._trimming.cancel()
        if self._looking is not None:
            self._looking.cancel()
        if self._starting is not None:
            self._starting.cancel()
        if self._fork_server is not None:
            if self._has_stop_hooks:
                await self._retire_all(self._fork_server)
            await self._fork_server.close()
        self._send_back("its node stopped")

    async def _retire_all(self, fork_server: ForkServerClient) -> None:
        """Lets processes end by themselves: those that are killed run no stop hooks."""
        for process in [one for one in self._processes if not one.assignments]:
            process.retire()
        if self._host is not None and not self._host.assignments:
            self._host.retire()
        await fork_server.until_gone(STOP_LIMIT)


def _fail(waiting: Iterable[Assignment], why: str) -> None:
    for assignment in waiting:
        assignment.end(Failed(Problem("rota.StartFailed", why)))
