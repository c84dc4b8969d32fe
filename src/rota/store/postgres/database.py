"""The way to the server: connections, named queries, transactions.

A verb is one `Unit`: one statement that is its own transaction, or several in one. On deadlock the server aborts one
transaction; it is retried here a few times, with growing random pauses.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import cache
from typing import Any, Concatenate, ParamSpec, TypeVar

import asyncpg
import msgspec

from rota.clock import Chance, Clock
from rota.errors import StoreUnavailable
from rota.model.times import Duration, Instant
from rota.store import sql_files
from rota.store.carriers.unit import Columns
from rota.store.loops import Loops
from rota.store.postgres.address import SCHEMA, STEADY_PLANS, Address
from rota.store.postgres.encoding import clean, ids_only
from rota.store.postgres.errors import broken, elsewhere, refused, shut_out, translated
from rota.store.postgres.loops import LoopPools
from rota.store.postgres.pool import ConnectionPool
from rota.store.server_clock import ServerClock
from rota.store.values import Topic

T = TypeVar("T")
P = ParamSpec("P")
Record = Any  # by position or by name
encode = msgspec.json.encode

CONNECT_LIMIT = 5.0
# Seconds after which a silent server counts as cut off. The server ends our statements a little earlier.
LIMIT = 30.0
UNHURRIED = 600.0
# Settings of each transaction: a process that is stopped inside one must not hold its locks for long.
SERVER_SIDE = {
    "application_name": "rota",
    "statement_timeout": "28s",
    "idle_in_transaction_session_timeout": "5s",
    "client_connection_check_interval": "2s",
}
# Settings of each session. READ COMMITTED, whatever the server's default: a claim on an older snapshot would fail at
# the first job that another claim has taken.
OF_SESSIONS = {
    "default_transaction_isolation": "read committed",
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
}
_BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
ANY_PLAN = {"plan_cache_mode": "force_generic_plan"}
TRIES = 5
# Edges that the write ending a parent settles itself, and waiters of a key that the write freeing it releases; the
# resolver and admission do the rest.
AT_ONCE = 500
# Pause after the first deadlock: about the length of a transaction.
FIRST_PAUSE = 0.01
_LOCKED_UP = ("40001", "40P01")
_BLOCKED = "55P03"


@cache
def queries(schema: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    return {name: sql_files.numbered(in_schema(text, schema)) for name, text in sql_files.load("postgres").items()}


def in_schema(text: str, schema: str) -> str:
    """The files say `rota.jobs`; the schema may have another name."""
    return text.replace(f"{SCHEMA}.", f"{schema}.").replace(f"'{SCHEMA}'", f"'{schema}'")


class Pools(LoopPools):
    """The connections of one event loop, by purpose: a renewal must not wait for other calls."""

    def __init__(self, database: Database) -> None:
        self.vital = ConnectionPool(lambda: database.connect(STEADY_PLANS), 1)
        self.work = ConnectionPool(lambda: database.connect(STEADY_PLANS), 8)
        self.reads = ConnectionPool(lambda: database.connect(ANY_PLAN), 4)

    @property
    def all(self) -> tuple[ConnectionPool, ConnectionPool, ConnectionPool]:
        return self.vital, self.work, self.reads


class Database:
    def __init__(
        self,
        address: Address,
        clock: Clock,
        ageing_step: Duration,
        *,
        server_time: bool,
        chance: Chance | None = None,
    ) -> None:
        self.chance = chance or Chance()
        self.address, self.clock, self.ageing_step, self.server_time = address, clock, ageing_step, server_time
        self.place, self.schema = address.place, address.schema
        self.server_clock = ServerClock(clock)
        self.ties_lately = False  # recently ended jobs had children or keys
        self.pooled = False  # behind a pooler: sessions are shared with other clients
        self.queries = queries(address.schema)
        self._urls = address.urls
        self.loops = Loops(lambda: Pools(self))
        # What searches have found in the partitions of days that are over (store/search): the prefixes by partition and
        # user, and the lowest ids. Later these can only have become fewer, or higher.
        self.job_prefixes: dict[tuple[str, str | None, int], list[tuple[str, ...]]] = {}
        self.lowest_ids: dict[str, str] = {}
        self._closed = False

    # -- connections -------------------------------------------------------------------------------------------------
    async def connect(self, settings: dict[str, str]) -> asyncpg.Connection:
        if not self.pooled:
            try:
                return await self._connect(server_settings=SERVER_SIDE | OF_SESSIONS | settings)
            except asyncpg.ProtocolViolationError:
                self.pooled = True  # PgBouncer refuses settings that it does not know
        return await self._connect(statement_cache_size=0)

    async def _connect(self, **options: Any) -> asyncpg.Connection:
        connection = await self._dial(**options)
        try:
            _notice_silence(connection)
            sent = self.clock.monotonic()
            now, backend = await connection.fetchrow(
                "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, pg_backend_pid()",
                timeout=CONNECT_LIMIT,
            )
            self.server_clock.heard(now, sent)
            # A pooler reports a made-up backend pid.
            if backend != connection.get_server_pid() and not self.pooled:
                self.pooled = True
                connection.terminate()
                return await self._connect(statement_cache_size=0)
        except BaseException:
            connection.terminate()
            raise
        return connection

    async def _dial(self, **options: Any) -> asyncpg.Connection:
        """Connects to the writable server, trying the last known one first; each host gets its share of the time. If
        none is writable, raises the worst error: a silent host is worse than one that is down."""
        failures: list[Exception] = []
        for url in list(self._urls):
            try:
                found = await asyncpg.connect(url, timeout=CONNECT_LIMIT / len(self._urls), **options)
            except (OSError, asyncpg.InternalClientError, asyncpg.CannotConnectNowError) as error:
                failures.append(error)
            else:
                self._urls.sort(key=lambda one: one != url)
                return found
        raise next((error for error in failures if not refused(error)), failures[-1])

    def pools(self) -> Pools:
        return self.loops.here()

    async def close(self) -> None:
        self._closed = True
        await self.loops.close()

    def let_go(self) -> None:
        self._closed = True
        self.loops.let_go()

    # -- time --------------------------------------------------------------------------------------------------------
    def now(self) -> Instant:
        return self.server_clock.now() if self.server_time else self.clock.now()

    @property
    def given_now(self) -> Instant | None:
        """The parameter `now` of statements. None: the server uses its own clock."""
        return None if self.server_time else self.clock.now()

    # -- units of work -----------------------------------------------------------------------------------------------
    async def call(
        self,
        pool: ConnectionPool,
        work: Callable[Concatenate[Unit, P], Awaitable[T]],
        *args: P.args,
        **named: P.kwargs,
    ) -> tuple[T, set[Topic]]:
        """Carries out a unit of work; returns its answer and the topics to announce."""
        for tries_left in range(TRIES - 1, -1, -1):
            try:
                async with self.unit(pool) as unit:
                    return await work(unit, *args, **named), unit.topics
            except LockedUp:
                if not tries_left:
                    raise
                await self._let_others_pass(TRIES - tries_left)
        raise AssertionError("unreachable")

    async def _let_others_pass(self, tries: int) -> None:
        """Exponential back-off with jitter, so that deadlocked transactions don't retry in step."""
        await asyncio.sleep(FIRST_PAUSE * 2 ** (tries - 1) * (0.5 + self.chance.random()))

    @asynccontextmanager
    async def unhurried(self) -> AsyncIterator[Unit]:
        """A unit for daily maintenance, with a long time limit and any query plan."""
        async with self.unit(self.pools().reads, UNHURRIED) as unit:
            await unit.begin()
            await unit.connection.execute(f"SET LOCAL statement_timeout = '{UNHURRIED:.0f}s'")
            yield unit

    @asynccontextmanager
    async def unit(self, pool: ConnectionPool, limit: float = LIMIT) -> AsyncIterator[Unit]:
        if self._closed:
            raise StoreUnavailable(f"{self.place}: the store was closed")
        with translated(self.place):
            async with asyncio.timeout(limit):
                try:
                    connection = await pool.take()
                except Exception as error:
                    if not shut_out(error) or pool is self.pools().work:
                        raise
                    pool = self.pools().work  # it may have an open connection to share
                    connection = await pool.take()
            sound = False
            try:
                async with asyncio.timeout(limit):
                    unit = Unit(self, connection, ANY_PLAN if pool is self.pools().reads else STEADY_PLANS)
                    if self.pooled:
                        await unit.begin()
                    yield unit
                    await unit.end()
                sound = True
            except asyncpg.PostgresError as error:
                sound = not broken(error) and await unit.give_up()
                if elsewhere(error):
                    pool.clear()
                if error.sqlstate in _LOCKED_UP:
                    raise LockedUp(f"{self.place}: {error}") from None
                if error.sqlstate == _BLOCKED:
                    raise Blocked(f"{self.place}: {error}") from None
                raise
            except (asyncpg.InterfaceError, OSError, EOFError, asyncio.CancelledError):
                raise  # don't wait for a connection in an unknown state
            except Exception:
                sound = await unit.give_up()
                raise
            finally:
                pool.give(connection, sound)


class LockedUp(StoreUnavailable):
    """The server ended this transaction because of a deadlock."""


class Blocked(StoreUnavailable):
    """A lock was not free within the lock timeout of this transaction."""


class Unit:
    """Statements on one connection; in one transaction once `begin` was called."""

    def __init__(self, database: Database, connection: asyncpg.Connection, plans: dict[str, str]) -> None:
        self.database, self.connection, self._plans = database, connection, plans
        self.topics: set[Topic] = set()  # to be announced after the commit
        self.in_transaction = False

    @property
    def now(self) -> Instant | None:
        return self.database.given_now

    @property
    def ageing_step(self) -> Duration:
        return self.database.ageing_step

    async def begin(self) -> None:
        """From here on all statements are one transaction."""
        if not self.in_transaction:
            self.in_transaction = True
            await self.connection.execute(self._beginning)

    @property
    def _beginning(self) -> str:
        """Behind a pooler settings last for one transaction, so BEGIN and the limits are sent in one message."""
        limits = SERVER_SIDE | self._plans if self.database.pooled else {}
        return "; ".join([_BEGIN, *(f"SET LOCAL {name} = '{value}'" for name, value in limits.items())])

    async def end(self) -> None:
        if self.in_transaction and await self.connection.execute("COMMIT") == "ROLLBACK":
            raise asyncpg.InFailedSQLTransactionError("a statement had failed, so nothing was committed")

    async def give_up(self) -> bool:
        """Rolls back; returns whether the connection can be used again."""
        if not self.in_transaction:
            return not self.connection.is_closed()
        with suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError):
            async with asyncio.timeout(CONNECT_LIMIT):
                await self.connection.execute("ROLLBACK")
            return True
        return False

    @asynccontextmanager
    async def attempt(self) -> AsyncIterator[None]:
        """A savepoint: if this part fails, only this part is undone."""
        await self.begin()
        await self.connection.execute("SAVEPOINT attempt")
        try:
            yield
        except Exception:
            await self.connection.execute("ROLLBACK TO attempt")
            raise
        await self.connection.execute("RELEASE attempt")

    def _prepare(self, name: str, columns: Columns | None, values: dict[str, Any]) -> tuple[str, list[Any]]:
        text, names = self.database.queries[name]
        if columns:
            values |= columns
        return text, [values[name] for name in names]

    async def rows(self, name: str, columns: Columns | None = None, /, **values: Any) -> list[Record]:
        text, arguments = self._prepare(name, columns, values)
        found: list[Record] = await self.connection.fetch(text, *arguments)
        return found

    async def row(self, name: str, columns: Columns | None = None, /, **values: Any) -> Record | None:
        text, arguments = self._prepare(name, columns, values)
        found: Record | None = await self.connection.fetchrow(text, *arguments)
        return found

    async def value(self, name: str, columns: Columns | None = None, /, **values: Any) -> Any:
        """The first column of the first row, or None."""
        text, arguments = self._prepare(name, columns, values)
        return await self.connection.fetchval(text, *arguments)

    async def run(self, name: str, columns: Columns | None = None, /, **values: Any) -> int:
        """Carries out a change; returns how many rows it touched."""
        text, arguments = self._prepare(name, columns, values)
        status = await self.connection.execute(text, *arguments)
        return int(status.rpartition(" ")[2])

    async def copy(self, table: str, columns: Sequence[str], records: Iterable[Sequence[Any]]) -> None:
        await self.connection.copy_records_to_table(
            table, schema_name=self.database.schema, columns=columns, records=records
        )

    async def settle(self, ended: Collection[str] | None, most: int = AT_ONCE) -> tuple[int, bool]:
        """Settles the children of these jobs and of jobs that are skipped because of them; None: of all jobs on the
        settling list. Returns how many jobs moved, and whether more are left."""
        only = None if ended is None else list(ended)
        row = await self.row("settle", only=only, now=self.now, step=self.ageing_step, most=most)
        assert row is not None
        ready, later, skipped, unsettled = row
        left = unsettled and ended is not None  # a caller that asked for all gets it in the answer
        rings = {Topic.READY: ready, Topic.DUE: later, Topic.NEWS: skipped, Topic.TIES: left}
        self.topics |= {topic for topic, rung in rings.items() if rung}
        return ready + later + skipped, unsettled

    async def hand_on(self) -> None:
        """Releases jobs that waited for freed keys."""
        row = await self.row("hand_on", every=False, now=self.now, most=AT_ONCE)
        assert row is not None
        moved, next_at, more = row
        if moved:
            self.topics.add(Topic.READY)
        if more or next_at is not None:
            self.topics.add(Topic.GATE)

    def ids(self, texts: Iterable[str]) -> list[str]:
        return ids_only(texts)

    def text(self, text: str | None) -> str | None:
        return clean(text)

    async def look_at_the_clock(self, again: bool = False) -> None:
        """Measures the server's clock if the last measurement is too old, or with `again` because ours seems wrong."""
        if self.database.server_time and (again or self.database.server_clock.stale):
            sent = self.database.clock.monotonic()
            self.database.server_clock.heard(await self.value("server_now"), sent)

    async def emit(self, kind: str, owner: str, subject: str, data: dict[str, Any] | None = None) -> None:
        """Appends to the outbox, in this transaction."""
        text = encode(data or {}).decode()
        await self.run("append_event", now=self.now, kind=kind, owner=owner, subject=subject, data=text)

    async def emit_for_jobs(self, kind: str, jobs: Sequence[tuple[str, str, dict[str, Any]]]) -> None:
        """Appends one event per (job, its owner, data)."""
        await self.run(
            "append_events", now=self.now, kind=kind, subjects=[job for job, _, _ in jobs],
            owners=[owner for _, owner, _ in jobs], data=[encode(data).decode() for _, _, data in jobs],
        )  # fmt: skip


def _notice_silence(connection: asyncpg.Connection) -> None:
    """Turns TCP keepalive on: a cut connection closes without a message."""
    peer = connection._transport.get_extra_info("socket")
    if peer is None or peer.family not in (socket.AF_INET, socket.AF_INET6):
        return
    options = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 10_000}
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in options.items():
        if hasattr(socket, name):
            peer.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
