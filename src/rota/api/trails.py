"""The trail of a request with an idempotency key: every call of the store that it made, with the answer, in order.

A handler may read, decide and write several times. Each write keeps the trail since the write before, in its own
transaction. A repeat runs the handler again: it gets the answers of the trail, so it decides as the first time, makes
the same ids, and comes to the same answer. What the trail does not reach is carried out. So a request that was killed
half-way goes on where it stopped, and one whose answer was lost changes nothing.

Two tries of one request may run on two servers. Of each write one is carried out, and keeps its trail; the other try is
`Overtaken`, and begins again with that trail.

A trail has no secrets: the arguments and results of jobs are left out, and the text of a new access key is not kept but
made again (`SecretMaker`).
"""

from __future__ import annotations

import hmac
import zlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from rota.clock import Chance
from rota.errors import AnswerNotKept, IdempotencyKeyReused, RotaError, StoreError
from rota.model.job import JobInfo
from rota.model.principal import SYSTEM, Principal
from rota.model.repeats import Repeat
from rota.model.times import Duration, Instant
from rota.remote.problems import ErrorBody, as_body, from_body
from rota.remote.wire import Call, calls
from rota.store.base import Store
from rota.store.graph import WorkflowJob
from rota.store.repeats import KeptStep
from rota.store.values import JobPage
from rota.store.verbs import WRITE

LARGEST = 1 << 20  # bytes of a step; the answer of a larger one is not kept
TOO_LARGE = "its answer was too large to be kept"
NOW = "now"  # the store's clock, which is no verb
Method = Callable[..., Awaitable[Any]]
_LEFT_OUT: dict[str, Any] = {  # of jobs
    "spec": {}, "args": {}, "meta": {}, "attempts": [], "result": None, "error": None, "progress": None,
}  # fmt: skip


class Overtaken(Exception):
    """Another try of the same request has carried out the write. Nothing was changed."""


class RequestName(NamedTuple):
    """A request with an idempotency key. `key` is its `key_name`, `digest` that of its content."""

    user: str
    key: str
    route: str
    digest: str


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """A call and its answer, or the error that it raised."""

    call: str
    answer: msgspec.Raw
    failed: bool = False


class Piece(msgspec.Struct, frozen=True, array_like=True):
    """What a step keeps. `seed`: of the ids that the request makes; `maker`: who can make its secrets again."""

    seed: str
    maker: str
    entries: list[Entry]


_pieces = msgspec.json.Decoder(Piece)
_errors = msgspec.json.Decoder(ErrorBody)


class Trail:
    def __init__(
        self, store: Store, name: RequestName, steps: Sequence[KeptStep], life: Duration, seed: str, maker: str
    ) -> None:
        """`steps`: those of earlier tries. `seed` and `maker` are for a request that has none."""
        pieces = [_piece(name, step) for step in steps]
        self._store, self._name, self._life = store, name, life
        self._past = [entry for piece in pieces for entry in piece.entries]
        self._steps, self._wrote = len(pieces), bool(pieces)
        self.seed, self.maker = (pieces[0].seed, pieces[0].maker) if pieces else (seed, maker)
        self._fresh: list[Entry] = []  # since the last write
        self._place = 0
        self.store = cast("Store", TrailStore(store, self))

    async def call(
        self, call: Call, method: Method, who: Principal, args: Sequence[Any], named: Mapping[str, Any]
    ) -> Any:
        if (entry := self._next(call.name)) is not None:
            if entry.failed:
                raise from_body(_errors.decode(entry.answer))
            return call.decode_answer(entry.answer)
        kept = False

        def keep(answer: Any) -> bytes | None:
            nonlocal kept
            kept = True
            return self._packed([*self._fresh, _entry(call, answer)])

        if call.verb.access is WRITE:
            repeat = Repeat(*self._name[1:], self._life, keep, _overtaken, self._steps)
            who = msgspec.structs.replace(who, repeat=repeat)
        try:
            answer = await method(who, *args, **named)
        except StoreError:
            raise  # it may end otherwise next time
        except RotaError as error:
            self._fresh.append(Entry(call.name, msgspec.Raw(msgspec.json.encode(as_body(error))), failed=True))
            raise
        if kept:
            self._fresh, self._steps, self._wrote = [], self._steps + 1, True
        else:
            self._fresh.append(_entry(call, answer))
        return answer

    def now(self) -> Instant:
        if (entry := self._next(NOW)) is not None:
            return msgspec.json.decode(entry.answer, type=int)
        found = self._store.now()
        self._fresh.append(Entry(NOW, msgspec.Raw(str(found).encode())))
        return found

    async def end(self) -> None:
        """The handler has its answer. Keeps what it read after its last write, since the answer may depend on it.
        Raises Overtaken if the answer is not that of the request: another try has gone further, or ended before."""
        if not self._wrote:
            await self.check()
        elif self._fresh:
            step = KeptStep(self._steps, self._name.route, self._name.digest, self._packed(self._fresh))
            if not await self._store.seal_repeat(SYSTEM, self._name.user, self._name.key, step, self._life):
                raise Overtaken

    async def check(self) -> None:
        """The handler refuses, or found nothing to write: that may be what another try has left to do. Raises Overtaken
        if there is one."""
        if len(await self._store.repeat_steps(SYSTEM, self._name.user, self._name.key)) > self._steps:
            raise Overtaken

    def _next(self, call: str) -> Entry | None:
        if self._place == len(self._past):
            return None
        entry = self._past[self._place]
        if entry.call != call:  # a newer version decides otherwise
            raise AnswerNotKept("this version of the server can't make its answer again")
        self._place += 1
        return entry

    def _packed(self, entries: list[Entry]) -> bytes | None:
        packed = zlib.compress(msgspec.json.encode(Piece(self.seed, self.maker, entries)), 1)
        return packed if len(packed) <= LARGEST else None


class TrailStore:
    """The store as the handler of such a request sees it."""

    def __init__(self, store: Store, trail: Trail) -> None:
        self._store, self._trail = store, trail

    def now(self) -> Instant:
        return self._trail.now()

    # No verbs themselves: they call one.
    get, find = Store.get, Store.find

    def __getattr__(self, name: str) -> Any:
        method, call = getattr(self._store, name), calls().get(name)
        if call is None:
            return method

        async def carry(who: Principal, /, *args: Any, **named: Any) -> Any:
            return await self._trail.call(call, method, who, args, named)

        return carry


class SecretMaker:
    """Makes the secrets of a request, the same ones for each try. They come from three things that are nowhere
    together: the seed is in the store for a while, the store's secret is known to its nodes, and of the caller's access
    key the store has only a hash. So neither who reads the store nor who knows an old access key can make a new one."""

    def __init__(self, store_secret: str, bearer: str) -> None:
        self._key = hmac.digest(store_secret.encode(), bearer.encode("utf-8", "surrogatepass"), "sha256")
        self.name = hmac.digest(self._key, b"name", "sha256")[:8].hex()

    def secret(self, seed: str, number: int) -> bytes:
        return hmac.digest(self._key, f"secret {number} of {seed}".encode(), "sha256")


class TrailChance(Chance):
    """The same ids and secrets for each try of a request."""

    def __init__(self, trail: Trail, maker: SecretMaker) -> None:
        super().__init__(int(trail.seed, 16))
        self._trail, self._maker, self._made = trail, maker, 0

    def secret(self) -> bytes:
        if self._maker.name != self._trail.maker:
            raise AnswerNotKept("its secret is told again only to the access key that asked for it")
        self._made += 1
        return self._maker.secret(self._trail.seed, self._made)


def _piece(name: RequestName, step: KeptStep) -> Piece:
    if (step.route, step.digest) != (name.route, name.digest):
        raise IdempotencyKeyReused
    if step.content is None:
        raise AnswerNotKept(TOO_LARGE)
    return _pieces.decode(zlib.decompress(step.content))


def _overtaken(content: bytes | None) -> Any:
    raise Overtaken


def _entry(call: Call, answer: Any) -> Entry:
    return Entry(call.name, msgspec.Raw(call.encode_answer(_without_payloads(answer))))


def _without_payloads(answer: Any) -> Any:
    """Arguments, specifications and results may be secret, and must not outlive their job here. No handler decides by
    them."""
    if isinstance(answer, JobPage):
        return msgspec.structs.replace(answer, jobs=[_without_payloads(job) for job in answer.jobs])
    if isinstance(answer, JobInfo):
        return msgspec.structs.replace(answer, **_LEFT_OUT)
    if isinstance(answer, WorkflowJob):
        return msgspec.structs.replace(answer, args="")
    if isinstance(answer, list):
        return [_without_payloads(one) for one in answer]
    return answer
