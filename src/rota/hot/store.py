"""A store with a hot tier in front of it: the contract of the store, quicker where the hot tier helps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from hashlib import sha256

from rota import forking
from rota.clock import Chance, Clock
from rota.hot.counts import Counts
from rota.hot.heap import HORIZON
from rota.hot.lane import Due, Lane
from rota.hot.member import STEADY, Member
from rota.hot.refiller import Refiller
from rota.hot.reports import MEMORY
from rota.hot.side import HotSide
from rota.hot.wakes import known_to_heap
from rota.model.job import JobInfo, NewJob, Ref, Verdict
from rota.model.outcome import CrashRule, Settlement
from rota.model.principal import SYSTEM, Principal
from rota.model.times import Duration, Instant
from rota.service import Service
from rota.store.base import Store
from rota.store.forwarding import ForwardingStore
from rota.store.loops import Loops
from rota.store.values import Answer, Cancelling, Finding, Note, Topic

# The name of the secret that tells one store from all others.
SECRET = "hot tier"  # noqa: S105
# How long doctors wait for members, in seconds.
PATIENCE = 5.0


class HotStore(ForwardingStore):
    """`make_lanes` makes the lanes of one event loop."""

    def __init__(
        self,
        inner: Store,
        make_lanes: Callable[[], Sequence[Lane]],
        clock: Clock,
        chance: Chance,
        memory: int = MEMORY,
    ) -> None:
        super().__init__(inner)
        self.hot_counts = Counts()
        self._make_lanes, self._clock, self._chance, self._memory = make_lanes, clock, chance, memory
        self._name = ""  # in the keys of the hot tier; known when the store is open
        self._sides: Loops[HotSide] = Loops(self._make_side)
        self._said: set[str] = set()  # places of members of which people were told last that they are away
        self._tell: Callable[[str], None] | None = None
        inner.carry_wakes(self._carry)
        forking.watch(self)

    # -- life --------------------------------------------------------------------------------------------------------
    async def open(self) -> None:
        await self.inner.open()
        await self._learn_name()

    async def _learn_name(self) -> None:
        secret = await self.inner.secret(SYSTEM, SECRET)
        self._name = sha256(secret.encode()).hexdigest()[:12]

    def side(self) -> HotSide:
        """That of the running loop. The store must be open."""
        return self._sides.here()

    def _make_side(self) -> HotSide:
        lanes, count = self._make_lanes(), self.hot_counts
        return HotSide(self.inner, lanes, self._name, self._clock, self._chance, count, self._changed, self._memory)

    async def examine(self) -> list[Finding]:
        findings = await self.inner.examine()
        if all(finding.ok for finding in findings if finding.name == "schema"):
            await self._learn_name()
            side = self.side()
            await side.reached(PATIENCE)
            findings += [_finding(member) for member in side.members]
        return findings

    async def close(self) -> None:
        await self._sides.close()
        await self.inner.close()

    def let_go(self) -> None:
        self._sides.let_go()
        self.inner.let_go()

    def before_fork(self) -> None: ...

    def after_fork_in_parent(self) -> None: ...

    def after_fork_in_child(self) -> None:
        self._sides.forget()

    def services(self, leads: Callable[[], bool]) -> Sequence[Service]:
        refiller = Refiller(self.inner, self.side().heap, self._clock, self._chance, leads, self.hot_counts)
        return [*self.inner.services(leads), refiller]

    # -- what people are told ----------------------------------------------------------------------------------------
    def tell_people(self, tell: Callable[[str], None]) -> None:
        self.inner.tell_people(tell)
        self._tell = tell

    def _changed(self, member: Member) -> None:
        """Says once that a member is away, and once that it is back for good, however many loops use it."""
        if self._tell is None:
            return
        if member.problem is None:
            if member.place in self._said:
                asyncio.get_running_loop().call_later(STEADY, self._say_back, member, member.openings)
        elif member.place not in self._said:
            self._said.add(member.place)
            self._tell(f"the hot tier at {member.place} is away, and rota goes on without it: {member.problem}")

    def _say_back(self, member: Member, opening: int) -> None:
        if member.healthy and member.openings == opening and member.place in self._said and self._tell is not None:
            self._said.remove(member.place)
            self._tell(f"the hot tier at {member.place} is back")

    # -- wake-ups ----------------------------------------------------------------------------------------------------
    def listen(self, topics: frozenset[Topic], wake: Callable[[], None]) -> Callable[[], None]:
        if self._name:
            self.side().listen()
        return self.inner.listen(topics, wake)

    def _carry(self, topics: set[Topic]) -> bool:
        known = known_to_heap.get()
        wanted = topics - {Topic.DUE} if known else topics
        return not wanted or (bool(self._name) and self.side().wakes.carry(wanted))

    # -- due jobs ----------------------------------------------------------------------------------------------------
    async def submit(self, who: Principal, /, orders: Sequence[Sequence[NewJob]]) -> list[Answer]:
        now = self.inner.now()
        # What waits for jobs that have ended may be due soon, and the heap is not told of it.
        untold = any(job.after for order in orders for job in order)
        before = known_to_heap.set(bool(self._name) and not untold and self.side().heap.reached)
        try:
            answers = await self.inner.submit(who, orders)
        finally:
            known_to_heap.reset(before)
        if (entries := _due_soon(orders, answers, now)) and self._name:
            self.side().add(entries)
        return answers

    async def promote(self, who: Principal, /, limit: int, late: Duration = 0) -> tuple[int, Instant | None]:
        if not self._name:
            return await self.inner.promote(who, limit, late)
        return await self.side().due.promote(limit, late)

    # -- running jobs ------------------------------------------------------------------------------------------------
    async def note(self, who: Principal, /, notes: Sequence[Note]) -> list[Verdict]:
        return await self.side().behind.note(notes)

    async def glance(self, who: Principal, /, ids: Sequence[str]) -> list[JobInfo | None]:
        return await self.side().status.glance(who, ids)

    async def finish(self, who: Principal, /, settlements: Sequence[Settlement]) -> list[Verdict]:
        side, refs = self.side(), [Ref(one.job_id, one.fence) for one in settlements]
        await side.behind.before_end(ref.job_id for ref in refs)
        try:
            return await self.inner.finish(who, settlements)
        finally:
            side.status.ended(refs)

    async def leave(self, who: Principal, /, incarnation: str) -> None:
        await self.side().behind.flush()  # attempts that it still holds end now
        await self.inner.leave(who, incarnation)

    async def cancel(self, who: Principal, /, ids: Sequence[str], reason: str) -> list[Cancelling]:
        answers = await self.inner.cancel(who, ids, reason)
        asked = [job for job, answer in zip(ids, answers, strict=True) if answer is Cancelling.REQUESTED]
        self.side().status.changed(asked)
        return answers

    async def purge(self, who: Principal, /, ids: Sequence[str]) -> list[bool]:
        answers = await self.inner.purge(who, ids)
        self.side().status.changed([job for job, gone in zip(ids, answers, strict=True) if gone])
        return answers

    async def take_over(
        self, who: Principal, /, incarnation: str, beats: int | None, rule: CrashRule
    ) -> list[str] | None:
        moved = await self.inner.take_over(who, incarnation, beats, rule)
        self.side().status.changed(moved or ())
        return moved

    async def rescue(self, who: Principal, /, rule: CrashRule) -> list[str]:
        moved = await self.inner.rescue(who, rule)
        self.side().status.changed(moved)
        return moved


def _finding(member: Member) -> Finding:
    text = member.place if member.healthy else f"{member.place}: {member.problem}; rota goes on without it"
    return Finding("hot tier", member.healthy, text)


def _due_soon(orders: Sequence[Sequence[NewJob]], answers: Sequence[Answer], now: Instant) -> list[Due]:
    """Jobs that wait for others become due later, and the store tells of it then."""
    found: list[Due] = []
    for order, answer in zip(orders, answers, strict=True):
        if not isinstance(answer, list):
            continue
        for job, submitted in zip(order, answer, strict=True):
            at = job.at if job.at is not None else now + job.delay
            if now < at <= now + HORIZON and submitted.created and not job.after:
                found.append(Due(job.id, at))
    return found
