"""The verbs of a node, carried out by a server: what a far-away worker needs of its store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from rota.clock import Chance, Clock
from rota.errors import InvalidInput, StoreError, StoreUnavailable
from rota.model.graph import ParentInfo
from rota.model.job import Claimed, Kind, Ref, Verdict
from rota.model.node import NewNode, News
from rota.model.outcome import Settlement
from rota.model.task import TaskInfo
from rota.model.times import Duration
from rota.remote import work_calls as calls
from rota.remote.line import WorkerLine
from rota.remote.pool import Dialer
from rota.store.admission import Used
from rota.store.listeners import Listeners
from rota.store.values import Chunk, Note, Start, Topic

T = TypeVar("T")
# A renewal that takes longer is tried again: there is time for several before a lease is over.
RENEWAL_LIMIT = 3.0
FIRST_LINE = 5.0  # seconds to wait for it
_encode = msgspec.json.Encoder().encode


class Wire(Protocol):
    """A way to the server."""

    place: str

    @property
    def dialer(self) -> Dialer: ...

    async def post(self, path: str, body: bytes, vital: bool = False) -> bytes:
        """The body of the answer; raises the error that it stands for. Repeats the call if there is no answer: all
        calls of a worker may be repeated. `vital`: it must not wait for others."""

    def get_request(self, path: str) -> bytes: ...


class Ticket(NamedTuple):
    incarnation: str
    text: str


_NONE = Ticket("none", "")


class WorkerLink:
    """Belongs to the loop of its node. A process has one incarnation at a time."""

    def __init__(self, wire: Wire, clock: Clock, chance: Chance) -> None:
        self._wire, self._clock, self._chance = wire, clock, chance
        self._lines: dict[str, WorkerLine] = {}  # by incarnation
        self._incarnation = ""
        self._claimed: dict[Ref, Ticket] = {}  # of attempts that have not ended
        self._held: dict[Ref, Ticket] = {}  # of attempts that the latest renewal has listed
        self._jobs: dict[str, Ref] = {}  # the attempts of `_claimed` by job
        self._late: dict[Ref, Ticket] = {}  # of the attempt whose late output is being appended
        self.listeners = Listeners()

    # -- nodes -------------------------------------------------------------------------------------------------------
    async def register(self, node: NewNode, tasks: Sequence[TaskInfo], replaces: Sequence[str] = ()) -> None:
        await self.join(node, tasks, replaces)
        line = self._lines[node.incarnation] = WorkerLine(
            self._wire.dialer,
            lambda name: self._wire.get_request(f"{calls.PATH}/line?incarnation={node.incarnation}&line={name}"),
            self._clock,
            self._chance,
            self.listeners.wake,
        )
        await line.open(FIRST_LINE)

    async def join(self, node: NewNode, tasks: Sequence[TaskInfo], replaces: Sequence[str] = ()) -> None:
        """Registers without a line."""
        call = calls.RegisterCall(
            node.incarnation, node.id, node.roles, node.queues, node.version, node.lease, tuple(tasks), tuple(replaces)
        )
        await self._send("register", call)
        for incarnation in replaces:
            self._drop(incarnation)
        for book in (self._claimed, self._held, self._jobs):
            book.clear()
        self._incarnation = node.incarnation

    async def renew(self, incarnation: str, stopping: bool = False) -> News:
        line = self._lines.get(incarnation)
        name = line.name() if line else None
        try:
            async with asyncio.timeout(RENEWAL_LIMIT) as limit:
                call = calls.RenewCall(incarnation, stopping, name)
                answer = await self._ask("renew", call, calls.Renewed, vital=True)
        except TimeoutError:
            if not limit.expired():
                raise
            raise StoreUnavailable(f"{self._wire.place} has not answered a renewal for {RENEWAL_LIMIT:g} s") from None
        if line:
            line.told(name)
            if not line.is_open:
                self.listeners.wake({Topic.READY})  # nobody else tells of work
        tickets = zip(answer.news.holds, answer.tickets, strict=True)
        self._held = {ref: Ticket(incarnation, text) for ref, text in tickets}
        return answer.news

    async def leave(self, incarnation: str) -> None:
        await self._send("leave", calls.Message(incarnation))
        self._drop(incarnation)

    def _drop(self, incarnation: str) -> None:
        if line := self._lines.pop(incarnation, None):
            line.close()

    def guards(self, incarnation: str) -> Sequence[int]:
        line = self._lines.get(incarnation)
        return line.descriptors() if line else ()

    def exposed(self, incarnation: str) -> Duration | None:
        line = self._lines.get(incarnation)
        return line.exposed if line else None

    def close(self) -> None:
        for incarnation in list(self._lines):
            self._drop(incarnation)

    # -- attempts ----------------------------------------------------------------------------------------------------
    async def claim(
        self, incarnation: str, wants: Mapping[str, int], kinds: Sequence[Kind], start: Mapping[str, int]
    ) -> list[Claimed]:
        call = calls.ClaimCall(incarnation, self._chance.token(), dict(wants), tuple(kinds), dict(start))
        answer = await self._ask("claim", call, calls.ClaimedJobs)
        for job, text in zip(answer.jobs, answer.tickets, strict=True):
            self._claimed[job.ref] = Ticket(incarnation, text)
            self._jobs[job.job_id] = job.ref
        return answer.jobs

    async def start(self, refs: Sequence[Ref]) -> list[Start]:
        incarnation, tickets = self._tickets(refs)
        answer = await self._ask("start", calls.AttemptsCall(incarnation, tickets, tuple(refs)), calls.Starts)
        return answer.starts

    async def hand_back(self, refs: Sequence[Ref]) -> list[Verdict]:
        incarnation, tickets = self._tickets(refs)
        call = calls.AttemptsCall(incarnation, tickets, tuple(refs))
        return self._over(refs, (await self._ask("hand_back", call, calls.Verdicts)).verdicts)

    async def finish(self, settlements: Sequence[Settlement]) -> list[Verdict]:
        refs = [Ref(one.job_id, one.fence) for one in settlements]
        incarnation, tickets = self._tickets(refs)
        call = calls.FinishCall(incarnation, tickets, tuple(settlements))
        return self._over(refs, (await self._ask("finish", call, calls.Verdicts)).verdicts)

    async def append_output(self, chunks: Sequence[Chunk], late: bool = False) -> list[Verdict]:
        """Late chunks are of one attempt."""
        refs = [Ref(one.job_id, one.fence) for one in chunks]
        if late:
            ticket = self._late.get(refs[0], _NONE)
            call = calls.OutputCall(ticket.incarnation, (ticket.text,) * len(chunks), tuple(chunks), late=True)
        else:
            call = calls.OutputCall(*self._tickets(refs), tuple(chunks))
        return (await self._ask("append_output", call, calls.Verdicts)).verdicts

    def proof(self, ref: Ref) -> str:
        ticket = self._claimed.get(ref) or self._held.get(ref) or _NONE
        return f"{ticket.incarnation}:{ticket.text}"

    def vouch(self, ref: Ref, proof: str) -> None:
        incarnation, _, text = proof.partition(":")
        self._late = {ref: Ticket(incarnation, text)}

    async def note(self, notes: Sequence[Note]) -> list[Verdict]:
        incarnation, tickets = self._tickets([Ref(one.job_id, one.fence) for one in notes])
        call = calls.NoteCall(incarnation, tickets, tuple(notes))
        return (await self._ask("note", call, calls.Verdicts)).verdicts

    async def parents(self, job_id: str) -> list[ParentInfo]:
        ref = self._jobs.get(job_id)
        if ref is None:
            return []
        ticket = self._claimed.get(ref, _NONE)
        call = calls.ParentsCall(ticket.incarnation, ref, ticket.text)
        return (await self._ask("parents", call, calls.Parents)).parents

    async def charge(self, used: Used) -> None:
        if used:
            charged = tuple((queue, flow, span) for (queue, flow), span in used.items())
            await self._send("charge", calls.ChargeCall(self._incarnation, charged))

    def _tickets(self, refs: Sequence[Ref]) -> tuple[str, tuple[str, ...]]:
        """All are of one incarnation: attempts of an earlier one are stale, and without a ticket they are told so."""
        found = [self._claimed.get(ref) or self._held.get(ref) or _NONE for ref in refs]
        return self._incarnation or "none", tuple(one.text for one in found)

    def _over(self, refs: Sequence[Ref], verdicts: list[Verdict]) -> list[Verdict]:
        """These attempts have ended: their tickets are of no more use."""
        for ref in refs:
            self._claimed.pop(ref, None)
            if self._jobs.get(ref.job_id) == ref:
                del self._jobs[ref.job_id]
        return verdicts

    # -- the wire ----------------------------------------------------------------------------------------------------
    async def _send(self, verb: str, call: calls.Message) -> None:
        await self._wire.post(f"{calls.PATH}/{verb}", _encoded(call))

    async def _ask(self, verb: str, call: calls.Message, answer: type[T], vital: bool = False) -> T:
        body = await self._wire.post(f"{calls.PATH}/{verb}", _encoded(call), vital)
        try:
            return msgspec.json.decode(body, type=answer)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise StoreError(f"{self._wire.place} answers {verb} with something else: {error}") from None


def _encoded(call: calls.Message) -> bytes:
    """Values that can't be sent are refused as a store refuses those that it can't hold: only so are they set aside
    (`rota.refusals`), and not tried again for ever."""
    try:
        return _encode(call)
    except UnicodeEncodeError as error:  # a lone surrogate
        raise InvalidInput("text", str(error), "text that UTF-8 can carry") from None
    except OverflowError as error:
        raise InvalidInput("number", str(error), "one of at most 64 bits") from None


Verb = Callable[..., Any]
# The verbs of nodes that a server carries out for workers.
VERBS = (
    "register", "renew", "leave", "claim", "start", "hand_back", "finish", "append_output", "note", "charge",
)  # fmt: skip
