"""The store inside a caller's own transaction: what is ordered there exists if and when that transaction commits.

Its verbs are those of every store on PostgreSQL, carried out on the connection that the caller brings
(`caller_drivers`). So no rule is decided twice. Wrong input is refused before anything is sent. An order that the store
refuses (a used key, an unknown parent) is an answer of the database function `accept` and not an error of the server,
so the transaction goes on. Errors of the driver reach the caller as they are: it is the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from copy import copy
from typing import Any, Concatenate, ParamSpec, TypeVar

from rota.clock import Chance, Clock
from rota.errors import SchemaMissing, StoreDenied
from rota.model.job import NewJob
from rota.model.principal import Principal
from rota.model.task import TaskInfo
from rota.model.times import Duration
from rota.store.postgres import migrate
from rota.store.postgres.caller_drivers import ROLLED_BACK, Driver, driver, failed_before, unusable
from rota.store.postgres.database import Unit
from rota.store.postgres.store import PostgresStore, Whereabouts
from rota.store.postgres.wire import read_answer, stray, wire
from rota.store.values import Answer, Topic

T = TypeVar("T")
P = ParamSpec("P")

# From the catalogues alone: a statement that fails would end the caller's transaction.
_FACTS = """
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, current_database()::text,
       pg_postmaster_start_time()::text, current_setting('transaction_read_only') = 'on', n.oid IS NOT NULL,
       coalesce(has_schema_privilege(n.oid, 'USAGE'), false), t.oid IS NOT NULL,
       coalesce(has_table_privilege(t.oid, 'INSERT'), false)
FROM (SELECT) AS one LEFT JOIN pg_namespace n ON n.nspname = '{schema}'
LEFT JOIN pg_class t ON t.relnamespace = n.oid AND t.relname = 'jobs'
"""
_ACCEPT = "SELECT {schema}.accept($1::text, $2::text::jsonb, $3::bigint, $4::bigint, $5::bigint, $6::boolean)::text"
_RING = "SELECT pg_notify($1::text, $2::text)"


class CallerUnit(Unit):
    """The caller has begun the transaction, and ends it."""

    async def begin(self) -> None: ...

    async def copy(self, table: str, columns: Sequence[str], records: Iterable[Sequence[Any]]) -> None:
        """Not every driver has COPY."""
        assert table == "jobs"
        lists = map(list, zip(*records, strict=True))
        await self.run("insert_jobs", **dict(zip(columns, lists, strict=True)))


class CallerStore(PostgresStore):
    """`ring`: transactions with orders notify the nodes when they commit. Its own parts are shared by the stores that
    `on` makes, each of them for one connection of a caller."""

    _driver: Driver

    def __init__(
        self, url: str, clock: Clock, chance: Chance, *, key_life: Duration, ring: bool, server_time: bool
    ) -> None:
        super().__init__(url, clock, chance, key_life=key_life, notify=False, server_time=server_time)
        self._ring_within = ring
        self.whereabouts = Whereabouts("", "")

    def on(self, connection: Any, waits: bool) -> CallerStore:
        """`waits`: the caller awaits its calls."""
        made = copy(self)
        made._driver = driver(connection, waits)
        return made

    @property
    def pause(self) -> Callable[[float], Awaitable[None]]:
        return self._driver.pause

    async def open(self) -> None:
        """Refuses connections that can't be used, with a reason; learns the server's time and the database."""
        sent = self._clock.monotonic()
        now, database, started, read_only, there, usable, complete, writable = await self._facts()
        self._driver.look_again()
        self._database.server_clock.heard(now, sent)
        self.whereabouts = Whereabouts(database, started)
        schema = self._database.schema
        if not there or (usable and not complete):
            missing = SchemaMissing(0, self._known.newest)
            problem = f"the database {database!r} of the connection has no schema {schema!r} with rota's tables"
            missing.args = (f"{problem}; give a connection to the database of the store, or run `rota migrate`",)
            raise missing
        if not usable or not writable:
            raise StoreDenied(f"the user of the connection may not write to the schema {schema!r}; grant it the rights")
        if read_only:
            raise self._driver.wrong("a connection whose transaction may write")

    async def check_schema(self) -> None:
        """Raises SchemaMissing or SchemaTooNew unless the schema fits this code."""
        await self._read(migrate.check, self._known)

    async def _facts(self) -> Any:
        self._driver.look()
        try:
            return await self._driver.fetchrow(_FACTS.format(schema=self._database.schema))
        except Exception as error:
            if failed_before(error):
                raise self._driver.wrong(ROLLED_BACK) from error
            if unusable(error):
                why = str(error).splitlines()[0]
                raise self._driver.wrong(f"a session or connection that can be used ({why})") from error
            raise

    # -- how calls run -----------------------------------------------------------------------------------------------
    async def _write(self, deed: Callable[Concatenate[Unit, P], Awaitable[T]], *args: P.args, **named: P.kwargs) -> T:
        unit = CallerUnit(self._database, self._driver, {})
        answer = await deed(unit, *args, **named)
        if unit.topics and self._ring_within:
            await self._driver.fetch(_RING, self._database.schema, _letters(unit.topics))
        return answer

    async def _read(self, deed: Callable[Concatenate[Unit, P], Awaitable[T]], *args: P.args, **named: P.kwargs) -> T:
        return await deed(CallerUnit(self._database, self._driver, {}), *args, **named)

    async def submit(self, who: Principal, /, orders: Sequence[Sequence[NewJob]]) -> list[Answer]:
        """Through `accept` alone: it locks no rows that others need until the caller commits."""
        return [stray(order) or await self._accept(who, order) for order in orders]

    async def _accept(self, who: Principal, order: Sequence[NewJob]) -> Answer:
        ring = self._ring_within or None  # NULL instead of false: inside a caller's transaction, without a notification
        values = (
            who.user, wire(order), self._key_life, self._database.ageing_step, self._database.given_now, ring,
        )  # fmt: skip
        found = await self._driver.fetchval(_ACCEPT.format(schema=self._database.schema), *values)
        answer, _ = read_answer(found)
        return answer

    async def make_known(self, who: Principal, /, tasks: Sequence[TaskInfo]) -> None:
        """Nothing: other clients of the app would wait for these rows until the caller commits."""


def _letters(topics: set[Topic]) -> str:
    return "".join(sorted(topics))
