"""The pool: which attempt runs in which process, and how many processes there are.

Attempts wait in the order of their ranks; a process that becomes free takes the next. Quick functions never need more
than the warm processes. Each process that is busy for longer than a moment is made up for by another, up to the slots
of the node: so long functions run side by side, and short ones don't make hundreds of processes. Those that nobody
needed for a while are let go.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import os
from collections.abc import Callable, Mapping
from contextlib import suppress

from rota.model.outcome import Interrupted, Outcome
from rota.model.times import SECOND
from rota.telemetry.events import Bus, PoolFailed, PoolSaid
from rota.work.attempt import TOO_LATE, Attempt
from rota.work.functions.fork_server_client import ForkServerClient
from rota.work.functions.host_client import NO_PROCESS, Hosts
from rota.work.functions.process_client import Errand, ProcessClient
from rota.work.functions.wire import Briefing, Order, frame
from rota.work.keeper.client import KeeperClient, SpawnError
from rota.work.output import Drain

A_MOMENT = 0.02  # a process that is busy for longer is made up for by another
LOOK_AGAIN = 0.01
FORKS_AT_ONCE = 4
FRAME_MARGIN = 1 << 20  # an error with its trace, or a piece of a log
KEPT_IDLE = 30.0
TIDY = 2.0
UNHEARD = 5.0  # a process that has not taken its order by then is stopped, or something that was left in it holds it up
# Orders that a process is given ahead, while functions take no longer than this on average.
MOST_AHEAD = 8
QUICK = 0.005
# A nursery that dies sooner than this after its start has not lived; and the longest pause between forks in vain.
LIVED = 5.0
LONGEST_IMPORT = 120.0
# Before a nursery is started again, by how often it has died without having lived.
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
    ) -> None:
        """`tell`: of tasks that can't be run here, and why. `alone`: there are tasks that want a process of their own;
        `shared`: and others that share one."""
        self._keeper, self._briefing, self.drain, self._bus, self._tell = keeper, briefing, drain, bus, tell
        settings = briefing.settings
        warm = settings.warm_processes or max(2, os.cpu_count() or 1)
        self._warm, self._most = min(warm, most) if alone else 0, most
        self._grace = settings.kill_grace / SECOND
        self.largest_frame = settings.max_result + FRAME_MARGIN
        self._hosts = (
            Hosts(self.largest_frame, settings.pool_memory, self._grace, drain, self.stray) if shared else None
        )
        self._loop = asyncio.get_running_loop()
        self._template: ForkServerClient | None = None
        self._members: set[ProcessClient] = set()
        self._idle: list[ProcessClient] = []  # the last is the warmest
        self._waiting: list[tuple[tuple[int, int], Errand]] = []
        self._numbers = itertools.count()
        self._barren, self._not_before = 0, 0.0  # processes in a row that did nothing; until when none is forked
        self._pace = 0.0  # how long functions take, of late, in seconds
        self._looking: asyncio.TimerHandle | None = None
        self._closed = False
        self._served = False  # some nursery was able to import what it was told to
        self.unable: Mapping[str, str] = {}  # tasks that can't be run here, and why
        self.when_able: Callable[[], None] = lambda: None
        self._deaths, self._started = 0, 0.0
        self._starting: asyncio.Task[None] | None = None
        self._trimming = self._loop.call_later(TIDY, self._trim)

    @property
    def able(self) -> bool:
        """Whether a function could begin now; `when_able` is called when that comes true."""
        return self._template.prepared if self._template is not None else not self._served and bool(self.unable)

    async def start(self, within: float) -> None:
        """Returns when the nursery has said which tasks it has, or needs longer than that for it: then what is ordered
        meanwhile waits. Raises SpawnError."""
        self._started = self._loop.time()
        template = self._template = await ForkServerClient.start(self._keeper, self._briefing, self._when_over)
        self._starting = self._loop.create_task(self._begin(template))
        await asyncio.wait([self._starting], timeout=within)

    async def run(self, attempt: Attempt, order: Order) -> Outcome:
        errand = Errand(attempt, frame(order), self._grace, (attempt.claimed.rank, next(self._numbers)))
        heapq.heappush(self._waiting, (errand.place, errand))
        if self._idle:
            self._employ(self._idle.pop())
        elif self._looking is None:
            self._looking = self._loop.call_later(LOOK_AGAIN, self._look)
        attempt.on_stop(errand.stop)
        return await errand.future

    async def run_shared(self, attempt: Attempt, order: Order) -> Outcome:
        assert self._hosts is not None
        return await self._hosts.run(attempt, order)

    # -- members -----------------------------------------------------------------------------------------------------
    def done(self, member: ProcessClient, wall: int) -> None:
        """It has ended an errand."""
        self._pace += (wall / SECOND - self._pace) / 8
        self._employ(member)

    def free(self, member: ProcessClient) -> None:
        """It has nothing to do."""
        self._employ(member)

    def _employ(self, member: ProcessClient) -> None:
        """Gives it what comes next, and while functions are quick a few more: it need not wait for us between them."""
        if not member.usable:
            return
        ahead = 1 + min(MOST_AHEAD, len(self._waiting) // (len(self._members) or 1)) if self._pace < QUICK else 1
        while self._waiting and len(member.errands) < ahead:
            place, errand = heapq.heappop(self._waiting)
            if errand.future.done():
                continue
            if errand.attempt.too_late():
                errand.end(Interrupted(TOO_LATE))
            elif (member.errands and errand.attempt.claimed.slack is not None) or not member.add(errand):
                heapq.heappush(self._waiting, (place, errand))
                break
        if not member.errands:
            self._idle.append(member)
        elif len(member.errands) > 1 and self._looking is None:
            self._looking = self._loop.call_later(LOOK_AGAIN, self._look)

    def put_back(self, errands: list[Errand]) -> None:
        """What a process was given and has not begun, to where it stood before."""
        for errand in errands:
            if not errand.future.done():
                heapq.heappush(self._waiting, (errand.place, errand))
        while self._waiting and self._idle:
            self._employ(self._idle.pop())
        if self._waiting and self._looking is None:
            self._looking = self._loop.call_later(LOOK_AGAIN, self._look)

    def lost(self, member: ProcessClient) -> None:
        """It is no more, or about to be."""
        if member in self._members:
            self._members.discard(member)
            if member in self._idle:
                self._idle.remove(member)
            # Those that die without having done anything would have us fork without end.
            self._barren = 0 if member.served or self._template is None else self._barren + 1
            if self._barren > FORKS_AT_ONCE:
                self._not_before = self._loop.time() + min(LIVED, 0.05 * 2 ** min(self._barren, 10))
            self._look()

    def stray(self, body: bytes) -> None:
        self._bus.emit(PoolSaid(body.decode("utf-8", "backslashreplace")[:2000]))

    def _look(self) -> None:
        """Are there enough?"""
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None
        template = self._template
        if self._closed or template is None or not template.prepared:
            return
        now = self._loop.time()
        if now < self._not_before:
            self._looking = self._loop.call_at(self._not_before, self._look)
            return
        while self._waiting and self._waiting[0][1].future.done():
            heapq.heappop(self._waiting)
        busy = [one for one in self._members if one.errands and now - one.since > A_MOMENT]
        for one in busy:
            if len(one.errands) > 1:
                one.recall()  # what would wait behind a slow one can run elsewhere
        unborn = sum(not one.born for one in self._members)
        wanted = self._warm if not self._waiting else max(1, self._warm) + len(busy)
        short = min(wanted, self._most) - len(self._members)
        for _ in range(min(short, FORKS_AT_ONCE - unborn)):
            try:
                self._members.add(ProcessClient(self, template))
            except OSError:  # no descriptors, or the nursery is busy or dead
                break
        ahead = any(len(one.errands) > 1 for one in self._members)
        if (self._waiting or ahead or len(self._members) < self._warm) and self._looking is None:
            self._looking = self._loop.call_later(LOOK_AGAIN, self._look)

    def _trim(self) -> None:
        now = self._loop.time()
        self._trimming = self._loop.call_later(TIDY, self._trim)
        for member in [one for one in self._members if one.errands and now - one.since > UNHEARD]:
            member.give_up_on()
        for member in [one for one in self._idle if now - one.since > KEPT_IDLE]:
            if len(self._members) <= self._warm:
                break
            self._idle.remove(member)
            self._members.discard(member)
            member.retire()

    # -- the nursery -------------------------------------------------------------------------------------------------
    async def _begin(self, template: ForkServerClient) -> None:
        """Until the first is ready. One that dies meanwhile may have been killed by chance, so another is tried:
        without any, functions would run inside of the node for as long as it lives."""
        await self._follow(template)
        if not self._served and template.ready.is_set():
            with suppress(SpawnError):
                self._template = template = await ForkServerClient.start(self._keeper, self._briefing, self._when_over)
                await self._follow(template)
        if not self._served:
            self._give_up()

    async def _follow(self, template: ForkServerClient) -> None:
        """Until it is ready."""
        try:
            async with asyncio.timeout(LONGEST_IMPORT):
                await template.ready.wait()
        except TimeoutError:
            template.kill_all()
            return
        if template.prepared:
            self._served = True
            self._learn(template.unable)
            if self._hosts is not None:
                self._hosts.serve(template)
            self._look()
            self.when_able()

    def _learn(self, unable: Mapping[str, str]) -> None:
        new = {task: why for task, why in unable.items() if task not in self.unable}
        self.unable = unable
        for _, errand in self._waiting:
            if errand.attempt.claimed.task in unable:
                errand.end(Interrupted(NO_PROCESS))  # the next attempt goes elsewhere
        self._tell(new)

    def _when_over(self, template: ForkServerClient) -> None:
        if self._closed or template is not self._template:
            return
        self._template = None
        if self._hosts is not None:
            self._hosts.drop()
        if not self._served:
            return
        now = self._loop.time()
        self._deaths = self._deaths + 1 if now - self._started < LIVED else 1
        pause = PAUSES[min(self._deaths, len(PAUSES)) - 1]
        self._bus.emit(PoolFailed("the process that functions are forked from has died", pause))
        if pause:
            self._send_back("there is no process for it just now")  # others may have one
        self._starting = self._loop.create_task(self._restart(pause))

    def _give_up(self) -> None:
        """It died while it imported, and another did, or took for ever."""
        why = "the process that should import its module has died, or took too long for it"
        self._learn({place.task: why for place in self._briefing.places})
        self._send_back(NO_PROCESS)
        self.when_able()

    def _send_back(self, why: str) -> None:
        """What waits for a process."""
        waiting, self._waiting = self._waiting, []
        for _, errand in waiting:
            errand.end(Interrupted(why))
        if self._hosts is not None:
            self._hosts.give_up(why)

    async def _restart(self, pause: float) -> None:
        await asyncio.sleep(pause)
        self._started = self._loop.time()
        try:
            self._template = await ForkServerClient.start(self._keeper, self._briefing, self._when_over)
        except SpawnError as error:
            if not self._closed:
                self._deaths += 1
                wait = PAUSES[min(self._deaths, len(PAUSES)) - 1]
                self._bus.emit(PoolFailed(f"no process to fork functions from: {error}", wait))
                self._starting = self._loop.create_task(self._restart(wait))
            return
        await self._follow(self._template)

    async def close(self) -> None:
        self._closed = True
        self._trimming.cancel()
        if self._looking is not None:
            self._looking.cancel()
        if self._starting is not None:
            self._starting.cancel()
        if self._template is not None:
            await self._template.close()
        self._send_back("its node stopped")
