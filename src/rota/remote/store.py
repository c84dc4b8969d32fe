"""`ServerStore`: the contract of a store, carried out by a server over HTTP.

Each verb is one POST with its arguments as JSON. The key in the header says who calls: the principal of a call is not
sent, and the server acts for the user of the key.

A call that got no answer is tried again. Every try of a write carries the same idempotency key, by which any server of
the store recognises it; orders are recognised by the ids of their jobs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence, Set
from functools import cache
from typing import Any

import msgspec

from rota import forking
from rota.clock import Chance, Clock
from rota.dialing import Unreachable
from rota.errors import RepeatInFlight, RotaError, StoreError, StoreUnavailable, WrongVersion
from rota.model.http import Target
from rota.model.job import Ref
from rota.model.principal import Principal
from rota.model.repeats import Repeat
from rota.model.times import Duration, Instant
from rota.remote import worker_link
from rota.remote.connection import Lost, Reply
from rota.remote.hello import CALLS, IDEMPOTENCY_KEY, PATH, REPEAT, TIME, WAKES, ServerInfo
from rota.remote.pool import Dialer, ServerPool, cure
from rota.remote.replies import PASSING, error_of
from rota.remote.versions import HEADER, OURS, understand
from rota.remote.wakes import Wakes
from rota.remote.wire import Call, calls
from rota.remote.worker_link import WorkerLink
from rota.store.base import Store, tell_nobody
from rota.store.loops import Loops
from rota.store.server_clock import ServerClock
from rota.store.values import OF_ORDERS, Finding, Topic
from rota.store.verbs import NODE, WRITE

ANSWER = 60.0  # seconds for one answer
WORK_ANSWER = 15.0  # the same for a worker, whose calls are short
PAUSES = (0.05, 0.3, 1.0)  # seconds before each further try


class LoopSide:
    """The connections and the stream of wake-ups of one loop."""

    def __init__(self, dialer: Dialer, open_stream: Callable[..., Any]) -> None:
        self.pool, self.vital = ServerPool(dialer), ServerPool(dialer)
        self.wakes = Wakes(open_stream)

    async def close(self) -> None:
        self.wakes.close()
        await self.pool.close()
        await self.vital.close()

    def drop(self) -> None:
        self.pool.drop()
        self.vital.drop()

    def descriptors(self) -> Sequence[int]:
        return [*self.pool.descriptors(), *self.vital.descriptors()]


class ServerStore(Store):
    """Everything but the verbs, which are made from the contract: `server_store` makes a whole one."""

    def __init__(self, target: Target, key: str, clock: Clock, chance: Chance, *, ca: str = "") -> None:
        self.place = f"{target.scheme}://{target.authority}{target.path.rstrip('/')}"
        self.info: ServerInfo | None = None  # from when it is opened
        self._clock, self._chance = clock, chance
        self._server_clock = ServerClock(clock)
        self.dialer = Dialer(target, ca)
        self._worker: WorkerLink | None = None  # from when a node has joined
        self._base = target.path.rstrip("/")
        fields = {
            "Host": target.authority,
            "Authorization": f"Bearer {key}",
            HEADER: OURS,
            "Accept": "application/json",
        }
        self._head = "".join(f"{name}: {value}\r\n" for name, value in fields.items() if value != "Bearer ")
        self._loops = Loops(lambda: self._side())
        self._closed = False
        forking.watch(self)

    def _side(self) -> LoopSide:
        return LoopSide(self.dialer, self._stream)

    # -- life --------------------------------------------------------------------------------------------------------
    async def migrate(self, tell: Callable[[str], None] = tell_nobody) -> tuple[int, int]:
        raise self._needs_store("migrating")

    async def open(self) -> None:
        self.info = await self.hello()

    async def hello(self) -> ServerInfo:
        """What the server says about itself and the key. Refuses a server of a version that can't be understood."""
        reply = await self._ask(self._request("GET", PATH))
        try:
            return msgspec.json.decode(reply.body, type=ServerInfo)
        except msgspec.MsgspecError as error:
            raise StoreError(f"the server at {self.place} does not say what it is: {error}") from None

    @property
    def principal(self) -> Principal | None:
        """The user of the key, from when the store is opened. The server decides what the key may do."""
        if self.info is None:
            return None
        return Principal(self.info.user, operator=True, admin=True, auditor=True, key=self.info.key)

    async def close(self) -> None:
        self._closed = True
        if self._worker is not None:
            self._worker.close()
        await self._loops.close()

    def let_go(self) -> None:
        self._closed = True
        self._loops.let_go()

    def before_fork(self) -> None: ...

    def after_fork_in_parent(self) -> None: ...

    def after_fork_in_child(self) -> None:
        self._loops.forget()

    async def examine(self) -> list[Finding]:
        raise self._needs_store("examining it")

    def now(self) -> Instant:
        return self._server_clock.now()

    def doubt(self) -> Duration:
        return self._server_clock.doubt

    def listen(self, topics: frozenset[Topic], wake: Callable[[], None]) -> Callable[[], None]:
        if self._worker is not None:  # it hears on its line
            return self._worker.listeners.add(topics, wake)
        return self._loops.here().wakes.add(topics, wake)

    async def tell(self, topics: Set[Topic] = OF_ORDERS) -> None:
        """Nodes hear of every order that came through the server."""

    # -- a node ------------------------------------------------------------------------------------------------------
    @property
    def worker(self) -> WorkerLink:
        if self._worker is None:
            self._worker = WorkerLink(self, self._clock, self._chance)
        return self._worker

    async def post(self, path: str, body: bytes, vital: bool = False) -> bytes:
        request = self._request("POST", path, body, {"Content-Type": "application/json"})
        return (await self._ask(request, WORK_ANSWER, vital)).body

    def get_request(self, path: str) -> bytes:
        return self._request("GET", path)

    def guards(self, incarnation: str) -> Sequence[int]:
        return self._worker.guards(incarnation) if self._worker else ()

    def exposed(self, incarnation: str) -> Duration | None:
        return self._worker.exposed(incarnation) if self._worker else None

    def proof(self, ref: Ref) -> str:
        return self.worker.proof(ref)

    def vouch(self, ref: Ref, proof: str) -> None:
        self.worker.vouch(ref, proof)

    def _needs_store(self, what: str) -> StoreError:
        return StoreError(f"{what} needs the store itself; {self.place} is a server: run it where the store is")

    # -- calls -------------------------------------------------------------------------------------------------------
    async def carry_out(self, call: Call, args: Sequence[Any], named: dict[str, Any], repeat: Repeat | None) -> Any:
        """`repeat`: the caller's own name for this write, which may have been carried out before."""
        body = call.encode_arguments(args, named)
        headers = {"Content-Type": "application/json"}
        if call.verb.access is WRITE and not call.verb.repeatable:
            headers[IDEMPOTENCY_KEY] = f"{self._chance.token()}{self._chance.token()}"
        if repeat is not None:
            headers |= {IDEMPOTENCY_KEY: repeat.key, REPEAT: "yes"}
        reply = await self._ask(self._request("POST", f"{CALLS}/{call.name}", body, headers))
        try:
            return call.decode_answer(reply.body or b"null")
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise StoreError(f"the server at {self.place} answers {call.name} with something else: {error}") from None

    def _request(self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None) -> bytes:
        more = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        length = f"Content-Length: {len(body)}\r\n" if method == "POST" else ""
        return f"{method} {self._base}{path} HTTP/1.1\r\n{self._head}{more}{length}\r\n".encode("latin-1") + body

    async def _ask(self, request: bytes, limit: float | None = None, vital: bool = False) -> Reply:
        """The answer, if it is a success; otherwise raises the error that it stands for. A try that got no answer, or
        came too early or too late for the store, is repeated a few times."""
        problem: RotaError | None = None
        for pause in (0.0, *PAUSES):
            if problem is not None:
                await asyncio.sleep(pause)
            try:
                reply = await self._try(request, limit or ANSWER, vital)
            except Unreachable as error:
                problem = self._away(str(error))
                continue
            except Lost as error:
                problem, request = self._away(str(error)), _repeated(request)
                continue
            if reply.status < 300:
                return self._of_rota(reply)
            problem, request = error_of(reply, self.place), _repeated(request)
            if reply.status not in PASSING and not isinstance(problem, RepeatInFlight):
                raise problem
        assert problem is not None
        raise problem

    def _of_rota(self, reply: Reply) -> Reply:
        """Refuses an answer of something else, or of a version that can't be understood."""
        theirs = reply.headers.get(HEADER)
        if theirs is None:
            raise StoreError(f"{self.place} is no server of rota's")
        if not understand(OURS, theirs):
            raise WrongVersion(OURS, theirs, self.place)
        return reply

    async def _try(self, request: bytes, limit: float, vital: bool) -> Reply:
        if self._closed:
            raise StoreUnavailable(f"the connection to {self.place} was closed")
        sent = self._clock.monotonic()
        try:
            side = self._loops.here()
            reply = await (side.vital if vital else side.pool).ask(request, limit)
        except TimeoutError:
            raise self._away(f"no answer within {limit:g}s") from None
        stamp = reply.headers.get(TIME, "")
        if stamp.isascii() and stamp.isdigit() and len(stamp) < 19:
            self._server_clock.heard(int(stamp), sent)
        return reply

    async def _stream(self, topics: frozenset[Topic], piece: Callable[[bytes], None]) -> Reply:
        wanted = "".join(sorted(topics))
        return await self._loops.here().pool.stream(self._request("GET", f"{WAKES}?topics={wanted}"), piece)

    def _away(self, why: str) -> StoreUnavailable:
        return StoreUnavailable(f"the server at {self.place} does not answer ({why}); {cure(why, self.dialer.ca)}")


def _repeated(request: bytes) -> bytes:
    """Says that an earlier try may have been carried out. Orders that are there are no mistake then."""
    head, _, rest = request.partition(b"\r\n")
    mark = f"{REPEAT}: yes\r\n".encode()
    return request if rest.startswith(mark) else b"%b\r\n%b%b" % (head, mark, rest)


def _sent(call: Call) -> Callable[..., Any]:
    if call.name in worker_link.VERBS:

        async def work(self: ServerStore, who: Principal, /, *args: Any, **named: Any) -> Any:
            return await getattr(self.worker, call.name)(*args, **named)

        return work
    if call.name == "parents":

        async def parents(self: ServerStore, who: Principal, /, job_id: str) -> Any:
            return await (self.worker.parents(job_id) if who.system else self.carry_out(call, (job_id,), {}, None))

        return parents
    if call.verb.by is NODE:

        async def refuse(self: ServerStore, who: Principal, /, *args: Any, **named: Any) -> Any:
            raise self._needs_store(call.name.replace("_", " "))

        return refuse

    async def send(self: ServerStore, who: Principal, /, *args: Any, **named: Any) -> Any:
        return await self.carry_out(call, args, named, who.repeat)

    return send


def server_store(target: Target, key: str, clock: Clock, chance: Chance, *, ca: str = "") -> ServerStore:
    """A store whose verbs are calls to this server."""
    return _class()(target, key, clock, chance, ca=ca)


@cache
def _class() -> type[ServerStore]:
    """Made on first use: the verbs are read from the contract."""
    return type("ServerStore", (ServerStore,), {name: _sent(call) for name, call in calls().items()})
