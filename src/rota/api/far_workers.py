"""The verbs of a node, for workers that reach the store through this server.

A worker may do what a node with the role `worker` does, and only in the name of its own access key: register, renew and
leave its own incarnations, claim from the queues of the key, and write about attempts for which it has a ticket. An
incarnation of another key is answered like one that does not exist.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from rota.api import work_checks as check
from rota.api.lines import Lines
from rota.api.tickets import SECRET, OfAttempt, Tickets
from rota.clock import Clock
from rota.config import Settings
from rota.errors import InvalidInput, NotAllowed
from rota.model.access import Grant
from rota.model.job import Ref, Verdict
from rota.model.node import FarAccess, NewNode, News, NodeInfo
from rota.model.outcome import CrashRule
from rota.model.principal import SYSTEM, Principal
from rota.remote import work_calls as calls
from rota.store.base import Store
from rota.store.values import Chunk, Start
from rota.telemetry.events import Bus

W = TypeVar("W", bound=OfAttempt)
A = TypeVar("A")
# Incarnations that are remembered with their keys, and with their last claims.
MOST_REMEMBERED = 10_000
# Seconds that a registration waits for the end of the worker's predecessor, longer than the usual lease, and between
# two looks at it. A caller waits for 15 s.
LONGEST_WAIT, LOOK = 13.0, 0.3


class Claim(NamedTuple):
    id: str
    answer: asyncio.Task[calls.ClaimedJobs]


class FarWorkers:
    def __init__(self, store: Store, clock: Clock, settings: Settings, bus: Bus) -> None:
        self._store, self._settings = store, settings
        self.lines = Lines(store, clock, bus, CrashRule(limit=settings.crash_limit))
        self.patience = LONGEST_WAIT
        self._tickets: Tickets | None = None
        self._keys: OrderedDict[str, str] = OrderedDict()  # incarnation -> its access key
        self._claims: OrderedDict[str, Claim] = OrderedDict()  # incarnation -> its last claim

    # -- nodes -------------------------------------------------------------------------------------------------------
    async def register(self, grant: Grant, call: calls.RegisterCall) -> None:
        check.registration(grant, call)
        access = FarAccess(grant.key, grant.user)
        node = NewNode(call.id, call.incarnation, call.roles, call.queues, call.version, call.lease, access)
        await self._check_replaced(grant, call.replaces)
        try:
            await self._store.register(SYSTEM, node, call.tasks, call.replaces)
        except InvalidInput:
            if not await self._predecessor_gone(grant, call.id):
                raise
            await self._store.register(SYSTEM, node, call.tasks, call.replaces)
        self._remember(call.incarnation, grant.key)

    async def _check_replaced(self, grant: Grant, replaces: Sequence[str]) -> None:
        if not replaces:
            return
        for node in await self._store.nodes(SYSTEM):
            if node.incarnation in replaces and (node.access is None or node.access.key != grant.key):
                raise NotAllowed(grant.user, f"replace a node of another access key with key {grant.key}")

    async def _predecessor_gone(self, grant: Grant, node_id: str) -> bool:
        """The id of a worker that was just killed is free after its grace: its next start waits for that. If nobody saw
        the end of its line, because its server was killed too, the id is free after its lease."""
        living = [one for one in await self._store.nodes(SYSTEM) if one.id == node_id]
        mine = [one for one in living if one.access is not None and one.access.key == grant.key]
        return bool(mine) and all(
            [await self.lines.settled(one.incarnation) or await self._fell_silent(one) for one in mine]
        )

    async def _fell_silent(self, node: NodeInfo) -> bool:
        """Waits until the node is gone; False: it has renewed, or lasts for longer than a caller can wait."""
        for _ in range(round(self.patience / LOOK)):
            await asyncio.sleep(LOOK)
            now = [one for one in await self._store.nodes(SYSTEM) if one.incarnation == node.incarnation]
            if not now:
                return True
            if now[0].beats != node.beats:
                return False
        return False

    async def renew(self, grant: Grant, call: calls.RenewCall) -> calls.Renewed:
        if call.line is not None:
            check.token(call.line, "line")
        if not await self.owns(grant, call.incarnation):
            return calls.Renewed(News(known=False))
        news = await self._store.renew(SYSTEM, call.incarnation, call.stopping, call.line)
        feedback = tuple(queue for queue in news.feedback if grant.serves(queue))
        news = News(news.known, news.holds, news.cancels, None, feedback)
        return calls.Renewed(news, tuple(await self._issue(grant, call.incarnation, news.holds)))

    async def leave(self, grant: Grant, call: calls.Message) -> None:
        if await self.owns(grant, call.incarnation):
            await self._store.leave(SYSTEM, call.incarnation)
            self._claims.pop(call.incarnation, None)

    async def owns(self, grant: Grant, incarnation: str) -> bool:
        """Whether the incarnation has joined with this key. The answer never changes, so it is remembered."""
        if incarnation not in self._keys:
            for node in await self._store.nodes(SYSTEM):
                if node.access is not None:
                    self._remember(node.incarnation, node.access.key)
        return self._keys.get(incarnation) == grant.key

    async def may_open(self, grant: Grant, incarnation: str, line: str) -> bool:
        check.token(line, "line")
        return await self.owns(grant, incarnation)

    def _remember(self, incarnation: str, key: str) -> None:
        self._keys[incarnation] = key
        if len(self._keys) > MOST_REMEMBERED:
            self._keys.popitem(last=False)

    # -- claims ------------------------------------------------------------------------------------------------------
    async def claim(self, grant: Grant, call: calls.ClaimCall) -> calls.ClaimedJobs:
        """A repeat with the same claim id gets the answer of the first, also while that is still under way. The answer
        is kept until the next claim of the worker. It is lost with this process: then the worker's renewals list
        attempts that it does not know, and it gives them back (`work/reconciler.py`)."""
        check.claim(grant, call)
        if not await self.owns(grant, call.incarnation):
            return calls.ClaimedJobs([], [])
        last = self._claims.get(call.incarnation)
        if last is None or last.id != call.claim:
            last = Claim(call.claim, asyncio.create_task(self._claim(grant, call)))
            last.answer.add_done_callback(_seen)
            self._claims[call.incarnation] = last
            self._claims.move_to_end(call.incarnation)
            if len(self._claims) > MOST_REMEMBERED:
                self._claims.popitem(last=False)
        try:
            return await asyncio.shield(last.answer)
        except Exception:
            if self._claims.get(call.incarnation) is last:
                del self._claims[call.incarnation]  # nothing was claimed: a repeat may try again
            raise

    async def _claim(self, grant: Grant, call: calls.ClaimCall) -> calls.ClaimedJobs:
        jobs = await self._store.claim(SYSTEM, call.incarnation, call.wants, call.kinds, call.start)
        tickets = await self._issue(grant, call.incarnation, [one.ref for one in jobs])
        return calls.ClaimedJobs(jobs, tickets)

    # -- attempts ----------------------------------------------------------------------------------------------------
    async def start(self, grant: Grant, call: calls.AttemptsCall) -> calls.Starts:
        for ref in call.refs:
            check.attempt(ref)
        return calls.Starts(await self._carry(grant, call, call.refs, self._store.start, Start(Verdict.STALE)))

    async def hand_back(self, grant: Grant, call: calls.AttemptsCall) -> calls.Verdicts:
        for ref in call.refs:
            check.attempt(ref)
        return calls.Verdicts(await self._carry(grant, call, call.refs, self._store.hand_back, Verdict.STALE))

    async def finish(self, grant: Grant, call: calls.FinishCall) -> calls.Verdicts:
        for one in call.settlements:
            check.settlement(one, self._settings.max_result)
        return calls.Verdicts(await self._carry(grant, call, call.settlements, self._store.finish, Verdict.STALE))

    async def append_output(self, grant: Grant, call: calls.OutputCall) -> calls.Verdicts:
        for one in call.chunks:
            check.chunk(one)
        append: Callable[[Principal, Sequence[Chunk]], Awaitable[list[Verdict]]] = self._store.append_output
        if call.late:
            append = partial(self._store.append_output, late=True)
        return calls.Verdicts(await self._carry(grant, call, call.chunks, append, Verdict.STALE))

    async def note(self, grant: Grant, call: calls.NoteCall) -> calls.Verdicts:
        for one in call.notes:
            check.note(one, self._settings.max_result)
        return calls.Verdicts(await self._carry(grant, call, call.notes, self._store.note, Verdict.STALE))

    async def parents(self, grant: Grant, call: calls.ParentsCall) -> calls.Parents:
        check.attempt(call.ref)
        if not (await self._issuer()).fits(call.ticket, grant.key, call.incarnation, call.ref):
            return calls.Parents([])
        job = await self._store.get(SYSTEM, call.ref.job_id)
        if job is None or job.ended or job.fence != call.ref.fence:  # no write is at stake that would be stale
            return calls.Parents([])
        return calls.Parents(await self._store.parents(SYSTEM, call.ref.job_id))

    async def charge(self, grant: Grant, call: calls.ChargeCall) -> None:
        check.charges(grant, call.used)
        if await self.owns(grant, call.incarnation):
            await self._store.charge(SYSTEM, {(queue, flow): span for queue, flow, span in call.used})

    async def _carry(
        self,
        grant: Grant,
        call: calls.TicketCall,
        items: Sequence[W],
        verb: Callable[[Principal, Sequence[W]], Awaitable[list[A]]],
        stale: A,
    ) -> list[A]:
        """Carries out the writes whose tickets fit. The others are answered like writes of attempts that are over."""
        check.as_many(call.tickets, items)
        issuer = await self._issuer()
        fits = [
            issuer.fits(ticket, grant.key, call.incarnation, item)
            for ticket, item in zip(call.tickets, items, strict=True)
        ]
        answers = iter(await verb(SYSTEM, [item for item, good in zip(items, fits, strict=True) if good]))
        return [next(answers) if good else stale for good in fits]

    # -- tickets -----------------------------------------------------------------------------------------------------
    async def _issuer(self) -> Tickets:
        if self._tickets is None:
            self._tickets = Tickets(await self._store.secret(SYSTEM, SECRET))
        return self._tickets

    async def _issue(self, grant: Grant, incarnation: str, refs: Sequence[Ref]) -> list[str]:
        issuer = await self._issuer()
        return [issuer.issue(grant.key, incarnation, ref) for ref in refs]


def _seen(task: asyncio.Task[calls.ClaimedJobs]) -> None:
    if not task.cancelled():
        task.exception()
