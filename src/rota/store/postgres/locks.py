"""Reports which processes block a change of the tables, to the person who waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime

from rota.errors import StoreError
from rota.store.postgres.database import Database, Record

Tell = Callable[[str], None]
# Seconds between looks: several fit into one lock timeout.
LOOK = 0.05
# Seconds until the same processes are reported again.
AGAIN = 10.0
_BLOCKERS = """
SELECT a.pid, a.usename, a.application_name, a.xact_start,
       extract(epoch FROM clock_timestamp() - a.xact_start)::float8
FROM unnest(pg_blocking_pids($1)) AS blocking(pid) JOIN pg_stat_activity a USING (pid)
ORDER BY a.xact_start, a.pid
"""


class Onlooker:
    """Looks on over another connection: a connection that waits for a lock can't ask who holds it."""

    def __init__(self, database: Database, tell: Tell) -> None:
        self._database, self._tell = database, tell
        self.last = "waits for others"  # the blockers seen last
        self._told: list[int] = []
        self._tell_again = 0.0

    @asynccontextmanager
    async def watching(self, process: int) -> AsyncIterator[None]:
        """Watches a backend process of the server while it may wait for locks."""
        await self._look(process)  # opens the connection before it is needed
        looking = asyncio.create_task(self._keep_looking(process))
        try:
            yield
        finally:
            looking.cancel()
            await asyncio.wait([looking])

    async def _keep_looking(self, process: int) -> None:
        while True:
            await asyncio.sleep(LOOK)
            await self._look(process)

    async def _look(self, process: int) -> None:
        with suppress(StoreError):  # it waits all the same
            async with self._database.unit(self._database.pools().work) as unit:
                found = await unit.connection.fetch(_BLOCKERS, process)
            if found:
                self._seen(found)

    def _seen(self, found: list[Record]) -> None:
        self.last = "waits for " + ", and ".join(_named(*one) for one in found[:3])
        if len(found) > 3:
            self.last += f", and {len(found) - 3} more"
        processes, now = [one[0] for one in found], self._database.clock.monotonic()
        if processes != self._told or now >= self._tell_again:
            self._told, self._tell_again = processes, now + AGAIN
            self._tell(self.last)


def _named(process: int, user: str | None, program: str | None, since: datetime | None, seconds: float | None) -> str:
    who = f"process {process} of the server (user {_shown(user)}, application {_shown(program)})"
    if since is None or seconds is None:  # none is open, or this user may not see it
        return who
    return f"{who}, in a transaction since {since.astimezone(UTC):%H:%M:%S} UTC, {seconds:.0f} s ago"


def _shown(name: str | None) -> str:
    """Makes names safe for a terminal: other users choose them."""
    return "".join(letter if letter.isprintable() else "?" for letter in name) if name else "unknown"
