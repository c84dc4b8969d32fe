"""Claims jobs for the free slots of its queues and runs them.

Slots are shared between the queues: each has its own number of them, and free slots of one are lent to the
others.

A slot is taken from the claim until the attempt's last write is in the store: completions share one commit, which frees
their slots together, so the next claim is a large one. When the last claim brought less of a queue than was asked for,
that queue is empty and the worker sleeps until it is woken; otherwise it claims again as soon as a slot is free. While
work comes in a quick stream, the worker does not wait for a wake-up: after each claim that brought something it looks
again a few milliseconds later, until a look finds nothing.

With `prefetch` it claims a few jobs ahead into a local queue. They are started by a write of their own when a slot
is free, and handed back if that takes too long or the node stops.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence

from rota.clock import Clock
from rota.logs.shipper import Shipper
from rota.model import shares
from rota.model.feedback import flow_name
from rota.model.graph import ParentInfo
from rota.model.job import NO_RETRY, Claimed, Kind, Ref, Verdict
from rota.model.outcome import Interrupted, settle
from rota.model.principal import SYSTEM
from rota.model.times import SECOND, Duration
from rota.service import SelfWaking
from rota.store.base import Store
from rota.telemetry.events import Bus, ServiceFailed
from rota.work.attempt import Attempt, Pipeline, Stop
from rota.work.progress import ProgressWriter

LONGEST_SLEEP = 60.0
# Claims that brought work are a stream if they follow each other within STREAM seconds. Slower work is not worth a look
# that mostly finds nothing: it has wake-ups of its own, one for each order.
STREAM = 0.010
LOOK_AGAIN = 0.002
# How long a claim may be delayed for ends that are being written: that write may hang while other slots are free.
PUT_OFF = 0.05
# One claim stays a short write, however many slots there are.
LARGEST_CLAIM = 500
# How long a job may wait in the local queue while other nodes might have a slot for it.
LONGEST_HOLD = 2.0
# How long the store may list an attempt here that the worker does not know.
LOST_AFTER = 3.0


class Worker(SelfWaking):
    name = "worker"

    def __init__(
        self,
        store: Store,
        clock: Clock,
        incarnation: str,
        queues: dict[str, int],
        kinds: Callable[[], Sequence[Kind]],
        prefetch: int,
        pipeline: Pipeline,
        shipper: Shipper,
        bus: Bus,
        lend: bool = True,
    ) -> None:
        self._store, self._clock, self._incarnation = store, clock, incarnation
        self._kinds, self._prefetch = kinds, prefetch
        self._pipeline, self._shipper, self._bus, self._lend = pipeline, shipper, bus, lend
        self._notes = ProgressWriter(store)
        self._slots, self._free = dict(queues), dict(queues)  # negative: the queue uses slots of other queues
        self._ahead: dict[str, deque[tuple[float, Claimed]]] = {queue: deque() for queue in queues}
        self._attempts: dict[Ref, Attempt] = {}
        self._running: dict[Ref, asyncio.Task[None]] = {}
        self._stuck: set[asyncio.Task[None]] = set()  # waiting for work that did not stop
        self._counted: dict[Ref, float] = {}  # until when the slot-time of each was charged
        self._used: Counter[tuple[str, str]] = Counter()  # by (queue, flow)
        self._unknown: dict[Ref, float] = {}  # attempts that only the store knows, and since when
        self._asking = asyncio.Lock()  # held during calls of the store that may bring attempts
        self._claiming = False
        self._accepting = True
        self._dropped = False
        # Queues that may have more: the last claim brought all that was asked for, or there was news since. A queue
        # found empty stays marked while the worker wakes itself: otherwise it would ask two empty queues in turn for
        # ever.
        self._more = dict.fromkeys(queues, True)
        self._again = False  # the worker asked for the next tick itself, so `_more` still holds,
        self._told = False  # unless there was news of work meanwhile
        self._found_at = float("-inf")  # when a claim last brought something
        self._streaming = False  # two claims in quick succession brought work and left slots free
        self._put_off: float | None = None  # since when a claim is delayed, without a written end

    async def _ask_parents(self, job_id: str) -> Sequence[ParentInfo]:
        return await self._store.parents(SYSTEM, job_id)

    def serve(self, queue: str, slots: int) -> None:
        """Adds a queue."""
        if queue not in self._free:
            self._free[queue], self._more[queue], self._ahead[queue] = slots, True, deque()
            self._slots[queue] = slots

    # -- what the store believes -------------------------------------------------------------------------------------
    def compare(self, holds: Sequence[Ref]) -> bool:
        """Compares the store's list of attempts here with the worker's own. True if some have been unknown for too
        long: the answer to a claim got lost, and `give_back_lost` must be called.

        The store may be ahead of us for a moment, so an attempt must stay unknown for a while.
        """
        now = self._clock.monotonic()
        known = self._known()
        self._unknown = {ref: self._unknown.get(ref, now) for ref in holds if ref not in known}
        return bool(self._lost())

    async def give_back_lost(self) -> None:
        """Hands unknown attempts back: no other node would, since this node lives."""
        # The answer of a call under way may bring these attempts.
        if not self._accepting or self._asking.locked() or not (lost := self._lost()):
            return
        outcome = Interrupted("its node never heard of it")
        await self._store.finish(SYSTEM, [settle(ref.job_id, ref.fence, NO_RETRY, 0, outcome, 0.0) for ref in lost])
        for ref in lost:
            self._unknown.pop(ref, None)

    def _known(self) -> set[Ref]:
        return self._attempts.keys() | {one.ref for waiting in self._ahead.values() for _, one in waiting}

    def _lost(self) -> list[Ref]:
        latest, known = self._clock.monotonic() - LOST_AFTER, self._known()
        return [ref for ref, since in self._unknown.items() if since < latest and ref not in known]

    # -- claiming ----------------------------------------------------------------------------------------------------
    def when_ready(self) -> None:
        """Called when there is work in any queue."""
        self._told = True
        self.wake()

    async def tick(self) -> float:
        if self._told or not self._again:
            self._more = dict.fromkeys(self._more, True)
        self._again = self._told = self._streaming = False
        async with self._asking:
            if self._accepting:
                await self._start_ahead()
                await self._hand_back(older_than=LONGEST_HOLD)
                await self._claim()
        if self._streaming:
            return LOOK_AGAIN
        if self._put_off is not None:
            return PUT_OFF
        return LONGEST_HOLD if any(self._ahead.values()) else LONGEST_SLEEP

    async def _claim(self) -> None:
        start = {queue: min(free, LARGEST_CLAIM) for queue, free in self._room().items() if free > 0}
        wants = {q: min(n + self._prefetch - len(self._ahead[q]), LARGEST_CLAIM) for q, n in start.items()}
        wants = {queue: count for queue, count in wants.items() if count > 0}
        if not wants or self._better_later(start):
            return
        self._put_off = None
        self._claiming = True
        try:
            claimed = await self._store.claim(SYSTEM, self._incarnation, wants, self._kinds(), start)
        finally:
            self._claiming = False
        got = Counter(one.queue for one in claimed)
        for queue, wanted in wants.items():
            self._more[queue] = got[queue] >= wanted
        if self._dropped:
            return  # the lease was lost during the claim: these jobs are not ours
        now = self._clock.monotonic()
        if claimed:
            self._streaming = now - self._found_at <= STREAM and not all(self._more[queue] for queue in wants)
            self._found_at = now
        for one in claimed:
            if one.started_at is None:
                self._ahead[one.queue].append((now, one))
            else:
                self._launch(one)
        if any(free > 0 and (self._more[queue] or self._ahead[queue]) for queue, free in self._room().items()):
            self._again = True
            self.wake()

    def _better_later(self, room: Mapping[str, int]) -> bool:
        """Ends are being written, which frees more slots in a moment: one claim for all of them is cheaper than one for
        the few that are free. An attempt that ends wakes us."""
        if not self._pipeline.ending or 2 * sum(room.values()) >= sum(self._slots.values()):
            return False
        now = self._clock.monotonic()
        if self._put_off is None:
            self._put_off = now
        return now - self._put_off < PUT_OFF

    def _room(self) -> dict[str, int]:
        """How many more jobs of each queue there is room for: in its own free slots, and in slots that other queues
        lend."""
        dry = [queue for queue, more in self._more.items() if not more]
        taken = {queue: self._slots[queue] - free for queue, free in self._free.items()}
        return shares.wants(self._slots, taken, dry, self._lend)

    async def _start_ahead(self) -> None:
        chosen: list[Claimed] = []
        for queue, waiting in self._ahead.items():
            room = self._room()[queue]
            while waiting and room > 0:
                chosen.append(waiting.popleft()[1])
                room -= 1
        if not chosen:
            return
        for one, start in zip(chosen, await self._store.start(SYSTEM, [c.ref for c in chosen]), strict=True):
            if start.verdict is not Verdict.STALE and not self._dropped:
                self._launch(one)
            elif start.cancel is not None:
                await self._store.hand_back(SYSTEM, [one.ref])  # ends it: it was cancelled before it started

    async def _hand_back(self, older_than: float) -> None:
        limit = self._clock.monotonic() - older_than
        refs: list[Ref] = []
        for waiting in self._ahead.values():
            while waiting and waiting[0][0] < limit:
                refs.append(waiting.popleft()[1].ref)
        if refs:
            await self._store.hand_back(SYSTEM, refs)

    # -- running -----------------------------------------------------------------------------------------------------
    def _launch(self, claimed: Claimed) -> None:
        ref = claimed.ref
        echo = self._bus.echo(claimed.job_id, claimed.task, claimed.number) if self._bus.echo else None
        attempt = self._attempts[ref] = Attempt(
            claimed, self._shipper.open(ref, echo), self._notes.open(ref), self._clock, self._ask_parents
        )
        if claimed.slack is not None and claimed.started_at is not None:
            latest = claimed.started_at + claimed.slack
            attempt.start_by = self._clock.monotonic() + (latest - self._store.now() - self._store.doubt()) / SECOND
        self._free[claimed.queue] -= 1
        self._counted[ref] = self._clock.monotonic()
        self._running[ref] = asyncio.create_task(self._run(attempt))

    async def _run(self, attempt: Attempt) -> None:
        try:
            await self._pipeline.run(attempt)
        except Exception as error:
            # A bug in rota. The slot must not be lost; the reconciler corrects the store.
            self._failed(attempt, error)
        finally:
            self._count(attempt)
            self._attempts.pop(attempt.sink.ref, None)
            self._running.pop(attempt.sink.ref, None)
            self._counted.pop(attempt.sink.ref, None)
            if attempt.over is None:
                self._release(attempt.claimed.queue)
            else:
                task = asyncio.create_task(self._release_late(attempt.claimed.queue, attempt.over))
                self._stuck.add(task)
                task.add_done_callback(self._stuck.discard)

    def _failed(self, attempt: Attempt, error: Exception) -> None:
        self._bus.emit(ServiceFailed(f"attempt at {attempt.claimed.job_id}", f"{type(error).__name__}: {error}"))

    def _count(self, attempt: Attempt) -> None:
        """Charges its flow for the slot-time since it was last counted."""
        now = self._clock.monotonic()
        since, self._counted[attempt.sink.ref] = self._counted.get(attempt.sink.ref, now), now
        claimed = attempt.claimed
        self._used[claimed.queue, flow_name(claimed.owner, claimed.flow)] += round((now - since) * SECOND)

    def used(self, queues: Collection[str]) -> dict[tuple[str, str], Duration]:
        """The slot-time that flows of these queues have used since the last call; that of other queues is dropped."""
        for attempt in self._attempts.values():
            self._count(attempt)
        used, self._used = self._used, Counter()
        return {(queue, flow): span for (queue, flow), span in used.items() if queue in queues and span > 0}

    async def _release_late(self, queue: str, over: asyncio.Event) -> None:
        await over.wait()
        self._release(queue)

    def _release(self, queue: str) -> None:
        self._free[queue] += 1
        self._put_off = None
        # A claim under way checks the free slots again when it ends.
        if not self._claiming and (any(self._more.values()) or self._ahead[queue]):
            self._again = True
            self.wake()

    @property
    def running(self) -> int:
        return len(self._attempts)

    @property
    def stuck(self) -> int:
        """The number of attempts that have ended in the store while their work goes on."""
        return len(self._stuck)

    @property
    def attempts(self) -> list[Attempt]:
        return list(self._attempts.values())

    def stop_attempt(self, ref: Ref, reason: Stop, why: str = "") -> None:
        if attempt := self._attempts.get(ref):
            attempt.stop(reason, why)

    # -- stopping ----------------------------------------------------------------------------------------------------
    async def close_door(self) -> None:
        """No more claims; jobs that were claimed ahead go back. A claim that is under way is waited for: its jobs are
        started in the store, and run."""
        self._accepting = False
        async with self._asking:
            await self._hand_back(older_than=-1.0)

    def drop_ahead(self) -> None:
        """Forgets jobs that were claimed ahead, and jobs of a claim under way: they are not ours any more."""
        self._accepting = False
        self._dropped = True
        for waiting in self._ahead.values():
            waiting.clear()

    def stop_all(self, reason: Stop) -> None:
        for attempt in self.attempts:
            attempt.stop(reason)

    def abandon_all(self) -> None:
        """The lease is lost: work is stopped at once, and last writes that wait for the store are given up."""
        self.drop_ahead()
        self.stop_all(Stop.LOST)
        for ref, task in list(self._running.items()):
            if (attempt := self._attempts.get(ref)) and attempt.settling:
                task.cancel()

    async def finished(self, within: float) -> bool:
        """Waits until no attempt runs, but not longer than that."""
        end = asyncio.get_running_loop().time() + within
        while self._running and (left := end - asyncio.get_running_loop().time()) > 0:
            await asyncio.wait(set(self._running.values()), timeout=left)
        return not self._running
