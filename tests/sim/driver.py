"""The way from a process to the played server: `PostgresStore`, real but for the driver that it stands on.

A `Line` is a connection as asyncpg would give it. What a statement would do is asked of the server by the name of the
deed; pools, time limits, the session, the clock and the bell are those of production.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import asyncpg

from rota.clock import Chance
from rota.model.principal import SYSTEM
from rota.store.postgres import PostgresStore
from rota.store.postgres.database import CONNECT_LIMIT, Database, Unit
from rota.store.values import Topic
from tests.sim.loop import Process, SimClock
from tests.sim.network import Port
from tests.sim.server import Answer, Server, shape
from tests.sim.witness import SENT, cause

if TYPE_CHECKING:
    from tests.sim.world import World


class Line:
    """One connection, in the place of asyncpg's."""

    _numbers = itertools.count()

    def __init__(self, world: World, server: Server, port: Port) -> None:
        self._world, self._server, self.port = world, server, port
        self.number = next(self._numbers)
        self.ended = False  # at the server
        self.closed = False  # here
        self.listener: Callable[..., None] | None = None
        self.keepers: list[Process] = []  # who have its socket too
        self._enders: list[Callable[[Any], None]] = []
        self._waiting: list[Any] = []

    # -- the server's side -------------------------------------------------------------------------------------------
    @property
    def orphaned(self) -> bool:
        process = self.port.process
        return process is not None and process.dead and all(keeper.dead for keeper in self.keepers)

    def end(self, why: str) -> None:
        if not self.ended:
            self.ended = True
            self._server.dismiss(self)
            if self.listener and not self.orphaned:
                self._world.witness.note(self.port.name, "unlocked", why=why)
            self.port.tell(self._hear_end)

    # -- the client's side -------------------------------------------------------------------------------------------
    def _hear_end(self) -> None:
        if not self.closed:
            self.closed = True
            for answer in self._waiting:
                if not answer.done():
                    answer.set_exception(ConnectionResetError("simulated: the connection was reset"))
            for act in self._enders:
                self._world.loop.call_soon(act, self, context=self.port.context)

    def hear(self, channel: str, payload: str) -> None:
        if not self.closed and self.listener:
            self._world.loop.call_soon(self.listener, self, 0, channel, payload, context=self.port.context)

    async def ask(self, verb: str, act: Callable[[], Any], risky: bool = True) -> Any:
        if self.closed:
            raise asyncpg.InterfaceError("simulated: the connection is closed")
        answer = self._world.loop.create_future()
        self._waiting.append(answer)
        self.port.send(partial(self._arrive, verb, act, answer, risky))
        self.port.passes(verb, "sent")
        try:
            return await answer
        finally:
            self._waiting.remove(answer)

    def _arrive(self, verb: str, act: Callable[[], Any], answer: Any, risky: bool) -> None:
        if self.ended or not self._server.up:
            return self.port.tell(self._hear_end)
        if risky and self._fails(verb):
            return None
        if risky and (refusal := self.port.refusal(verb)) is not None:
            return self.port.reply(partial(_deliver, answer, refusal))
        try:
            value = act()
        except Exception as error:
            return self.port.reply(partial(_deliver, answer, error))
        self.port.passes(verb, "applied")
        if risky and self._fails(verb, "lost"):
            return None
        return self.port.reply(partial(_deliver, answer, value))

    def _fails(self, verb: str, what: str = "failed") -> bool:
        mishap = self.port.mishap()
        if mishap:
            self._world.witness.note(self.port.name, what, verb=verb, how=mishap)
        if mishap == "reset":
            self.end("reset")
        return mishap is not None

    async def execute(self, text: str, *args: Any) -> None:
        await self.fetchval(text, *args)

    async def fetchval(self, text: str, *args: Any) -> Any:
        return await self.ask("query", partial(self._query, text, args), risky=False)

    def _query(self, text: str, args: Sequence[Any]) -> Any:
        if "pg_try_advisory_lock" in text:
            return self._server.lock(self, args[0])
        if "pg_advisory_unlock" in text:
            return self._server.unlock(self, args[0])
        if "pg_notify" in text:
            return self._server.notify(*args[-2:])
        assert "server()" in text or ".boot " in text or text == "SELECT 1", text
        return self._server.identity

    async def add_listener(self, channel: str, listener: Callable[..., None]) -> None:
        self.listener = listener
        await self.fetchval("SELECT 1")

    def add_termination_listener(self, act: Callable[[Any], None]) -> None:
        self._enders.append(act)

    def remove_termination_listener(self, act: Callable[[Any], None]) -> None:
        self._enders.remove(act)

    def is_closed(self) -> bool:
        return self.closed

    def terminate(self) -> None:
        if not self.closed:
            if self.listener:
                self._world.witness.note(self.port.name, "forsaken")
            self.port.send(lambda: self.end("closed"))
            self._hear_end()

    async def close(self, timeout: float | None = None) -> None:
        self.terminate()

    # What `Session.descriptors` looks for:
    @property
    def _transport(self) -> Line:
        return self

    def get_extra_info(self, name: str) -> Line:
        return self

    def fileno(self) -> int:
        return self.number


def _deliver(answer: Any, value: Any) -> None:
    if answer.done():
        return
    if isinstance(value, Exception):
        answer.set_exception(value)
    else:
        answer.set_result(value)


class SimDatabase(Database):
    """The real one but for its driver."""

    world: World
    port: Port

    async def _connect(self, **options: Any) -> Any:
        server = self.world.server
        assert server is not None
        line = Line(self.world, server, self.port)
        greeting = self.world.loop.create_future()
        sent = self.clock.monotonic()
        self.port.send(partial(self._greet, line, greeting))
        async with asyncio.timeout(CONNECT_LIMIT):
            now = await greeting
        self.server_clock.heard(now, sent)
        return line

    def _greet(self, line: Line, greeting: Any) -> None:
        server = self.world.server
        assert server is not None
        if not server.up:
            return self.port.tell(partial(_deliver, greeting, ConnectionRefusedError("simulated: nobody is at home")))
        server.admit(line)
        return self.port.reply(partial(_deliver, greeting, self.world.store.now()))

    async def call(self, pool: Any, work: Any, *args: Any, **named: Any) -> tuple[Any, set[Topic]]:
        async with self.unit(pool) as unit:
            given = list(args)
            if work.__name__ == "register":
                del given[3]  # the number of its lock: the played server works it out itself
            if work.__name__ == "tasks":
                return [], set()
            verb, takes_principal, count = shape(work)
            answer = await statement(unit, verb, (given if takes_principal else [SYSTEM, *given])[:count])
            return answer.value, answer.topics


async def statement(unit: Unit, verb: str, args: Sequence[Any]) -> Answer:
    database, line = unit.database, unit.connection
    assert isinstance(database, SimDatabase)
    asked = database.clock.monotonic()
    server = database.world.server
    assert server is not None
    work = partial(server.carry_out, database.port.name, verb, args, cause(asked))
    answer: Answer = await line.ask(verb, work)
    if verb in ("renew", "promote", "promote_jobs") or (verb == "advance" and None in answer.value):
        database.server_clock.heard(answer.now, asked)
    return answer


async def renew(unit: Unit, incarnation: str, stopping: bool, server: str | None, *_: object) -> Any:
    """In the place of rota.store.postgres.nodes.renew."""
    answer = await statement(unit, "renew", (SYSTEM, incarnation, stopping, server))
    unit.topics |= answer.topics
    return answer.value


class SimStore(PostgresStore):
    def __init__(self, world: World, port: Port, clock: SimClock, chance: Chance) -> None:
        super().__init__("postgresql://rota@simulated/rota", clock, chance)
        database = SimDatabase(
            self._database.address, clock, self._database.ageing_step, server_time=True, chance=chance
        )
        database.world, database.port = world, port
        self._database = self._session._database = database
        self._world, self.port = world, port
        self.incarnation = ""

    def guards(self, incarnation: str) -> Sequence[int]:
        self.incarnation = incarnation
        return super().guards(incarnation)

    def keep(self, keeper: Process) -> None:
        """The keeper gets the socket of the session."""
        line: Any = self._session._connection
        if isinstance(line, Line) and self._session.server_of(self.incarnation):
            line.keepers.append(keeper)

    async def _index_history(self) -> None:
        """Of partitions there are none."""

    async def advance(self, who: Any, steps: Any) -> Any:
        mark = SENT.set(self._world.loop.time())
        try:
            return await super().advance(who, steps)
        finally:
            SENT.reset(mark)

    async def renew(self, who: Any, incarnation: str, stopping: bool = False, line: str | None = None) -> Any:
        asked = self._world.loop.time()
        news = await super().renew(who, incarnation, stopping, line)
        self._world.witness.note(self.port.name, "renewed", asked=asked, incarnation=incarnation)
        return news
