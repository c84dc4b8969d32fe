"""The one connection that is a session: it listens for wake-ups, and holds the locks that show that nodes live.

A node takes an advisory lock that belongs to this session. When the process dies the server frees the lock within
milliseconds, so other nodes learn of the death long before the lease ends. But a free lock only proves that the
*session* has ended, and sessions end for other reasons too:

- The session was lost and the node lives. The node is *exposed* from that moment on: others may take its work as soon
  as it has not renewed for the GRACE. So it renews at once, saying that it holds no lock (or a new one), which puts
  others back to waiting for its whole lease; and if it can't renew, it stops its work before the grace is over
  (`lease.py`).
- The server was restarted, or another took its place: all locks are gone. So a node's row names the server on which it
  holds its lock (its start and its timeline), and a free lock on any other server says nothing. While no server
  answers, no node can take work over, so nothing is exposed.
- Behind a pooler sessions are shared with other clients. Then there are no locks, and only silence for a whole lease
  counts.

The keeper holds a copy of each new session's socket (`guards`): after kill -9 the lock becomes free only when the
keeper, and everything the node had started, is gone.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from contextlib import suppress

import asyncpg

from rota import forking
from rota.model.times import SECOND, Duration
from rota.store.loops import may_be_abandoned
from rota.store.postgres.database import CONNECT_LIMIT, Database
from rota.store.postgres.errors import refused
from rota.store.postgres.loops import descriptors, drop
from rota.store.values import Topic

# A node whose lock is free counts as gone when it has not renewed for this long. Longer than a beat, so that a live
# node renews in between.
GRACE: Duration = 17 * SECOND // 10
# Seconds between checks that the connection is alive, and the limit of a check.
PROOF = 6.0
PROOF_LIMIT = 3.0
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
TRIES = 3
# Seconds after the loss of a session within which a reconnect shows whether the server is down.
A_LOOK = 0.15


def lock_number(schema: str, name: str) -> int:
    """The number of an advisory lock; all users of the database share the numbers."""
    return int.from_bytes(hashlib.sha256(f"rota/{schema}/{name}".encode()).digest()[:8], "big", signed=True)


class LockSession:
    def __init__(self, database: Database, name: str, heard: Callable[[set[Topic]], None]) -> None:
        self._database, self.name, self._heard = database, name, heard
        self._connection: asyncpg.Connection | None = None
        self._server: str | None = None  # where the locks are held
        self._locks: dict[str, int] = {}  # incarnation -> number
        self._held: set[str] = set()
        self._told: dict[str, str | None] = {}  # the server that the row of each incarnation names
        self._nobody_home = False
        self._lost_at = 0.0
        self._using = asyncio.Lock()  # the driver refuses two statements at once on one connection
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wanted = False  # opened and not closed

    # -- life --------------------------------------------------------------------------------------------------------
    async def open(self) -> None:
        """Connects before it returns, so that no later wake-up is missed, and stays connected."""
        self._wanted = True
        if not self._at_home and not self._database.pooled:
            self._loop = asyncio.get_running_loop()
            await self._connect()
            self._task = may_be_abandoned(self._loop.create_task(self._stay()))

    def move_in(self) -> None:
        """Moves to the running loop if the loop it was opened on is closed, or belongs to the parent of a forked
        child."""
        if self._wanted and not self._at_home and not self._database.pooled:
            self._drop()
            self._loop = asyncio.get_running_loop()
            self._task = may_be_abandoned(self._loop.create_task(self._stay()))

    @property
    def _at_home(self) -> bool:
        return (
            self._task is not None and not self._task.done() and self._loop is not None and not self._loop.is_closed()
        )

    def let_go(self) -> None:
        """From any thread: its loop closes it."""
        self._wanted = False
        if self._task is not None and self._loop is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._task.cancel)

    def forget(self, name: str) -> None:
        """In a forked child: takes a new name, and leaves the connection to the parent."""
        forking.keep_for_ever(self.__dict__.copy())
        if not self._locks:  # locks stay open: a node is not gone while a process that it started is left
            forking.close_copies(self.descriptors())
        self.name, self._connection, self._task, self._loop = name, None, None, None
        self._using, self._server = asyncio.Lock(), None
        self._locks, self._held, self._told = {}, set(), {}

    async def close(self) -> None:
        self._wanted = False
        task, self._task = self._task, None
        connection, self._connection = self._connection, None
        self._held.clear()
        if self._loop is not asyncio.get_running_loop():
            if connection and self._loop:
                if self._loop.is_closed():
                    drop(connection)
                    return
                self._loop.call_soon_threadsafe(connection.terminate)
                if task:
                    self._loop.call_soon_threadsafe(task.cancel)
            return
        if task:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        if connection:
            connection.terminate()

    async def _connect(self) -> None:
        connection = await self._database.connect({})
        if self._database.pooled:
            connection.terminate()
            return
        try:
            async with asyncio.timeout(CONNECT_LIMIT):
                await connection.add_listener(self._database.schema, self._on_notice)
                if self._locks:
                    await self._identify(connection)
                await self._take_locks(connection)
        except BaseException:
            connection.terminate()
            self._held.clear()
            raise
        connection.add_termination_listener(self._on_end)
        self._connection, self._nobody_home = connection, False
        if connection.is_closed():
            self._on_end(connection)

    def _on_notice(self, _connection: object, _pid: int, _channel: str, payload: str) -> None:
        letters, _, origin = payload.partition("/")
        if origin != self.name:  # our own listeners were woken already
            # Nodes of a later version may have topics that we don't know.
            self._heard({Topic(letter) for letter in letters if letter in Topic._value2member_map_})

    def _on_end(self, connection: object) -> None:
        if connection is self._connection:
            self._connection = None
            self._held.clear()
            self._lost_at = self._database.clock.monotonic()
            # A node should renew its lease now, and look again when more is known.
            self._heard({Topic.CANCEL})
            if self._loop is not None:
                self._loop.call_later(A_LOOK, self._heard, {Topic.CANCEL})

    async def _stay(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            await self._look_after()
        finally:  # the loop ends; or it was closed by hand, and the session may belong to another loop by now
            if self._loop is loop and loop.is_closed():
                self._drop()
            elif self._loop is loop and self._connection is not None:
                self._connection.terminate()

    def _drop(self) -> None:
        """Closes the connection without its loop."""
        if self._connection is not None:
            drop(self._connection)
            self._connection = None
            self._held.clear()

    async def _look_after(self) -> None:
        """Reconnects when the connection is lost, and checks it when it is silent."""
        pause = FIRST_PAUSE
        while not self._database.pooled:
            connection = self._connection
            try:
                if connection is None or connection.is_closed():
                    await self._connect()
                    self._heard(set(Topic))  # wake-ups may have been missed
                    pause = FIRST_PAUSE
                else:
                    await self._prove(connection)
            except Exception as error:
                self._nobody_home = refused(error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    async def _prove(self, connection: asyncpg.Connection) -> None:
        ended = asyncio.Event()

        def end(_: object) -> None:
            ended.set()

        connection.add_termination_listener(end)
        with suppress(TimeoutError):
            async with asyncio.timeout(PROOF):
                await ended.wait()
        if connection.is_closed():
            return
        connection.remove_termination_listener(end)
        try:
            async with asyncio.timeout(PROOF_LIMIT), self._using:
                await connection.execute("SELECT 1")
                await self._take_locks(connection)
        except BaseException:
            connection.terminate()
            self._on_end(connection)
            raise

    # -- locks -------------------------------------------------------------------------------------------------------
    @property
    def own(self) -> list[str]:
        """The incarnations of this process."""
        return list(self._locks)

    def number(self, incarnation: str) -> int:
        return lock_number(self._database.schema, incarnation)

    async def hold(self, incarnation: str) -> None:
        """Takes the lock of a new incarnation, if there is a session to take it on."""
        self._locks[incarnation] = self.number(incarnation)
        connection = self._connection
        if connection is not None and not connection.is_closed():
            async with asyncio.timeout(CONNECT_LIMIT), self._using:
                await self._identify(connection)
                await self._take_locks(connection)

    async def _identify(self, connection: asyncpg.Connection) -> None:
        """Identifies the server. Called before the locks are taken: a renewal in between must not name the old
        server."""
        schema = self._database.schema
        await connection.execute(
            f"INSERT INTO {schema}.boot VALUES (true, gen_random_uuid()) ON CONFLICT DO NOTHING"  # noqa: S608
        )
        self._server = await connection.fetchval(f"SELECT {schema}.server()")

    async def _take_locks(self, connection: asyncpg.Connection) -> None:
        """Takes all locks that are not held. A lock may be taken briefly by a node that tests it, or for longer by an
        earlier session of ours that the server has not found dead yet. It is tried again later."""
        for incarnation, number in list(self._locks.items()):
            for _ in range(TRIES):
                if incarnation in self._held:
                    break
                if await connection.fetchval("SELECT pg_try_advisory_lock($1)", number):
                    self._held.add(incarnation)
                else:
                    await asyncio.sleep(FIRST_PAUSE)

    def server_of(self, incarnation: str) -> str | None:
        """The server on which this incarnation holds its lock at present; None: it holds none."""
        return self._server if incarnation in self._held else None

    def told(self, incarnation: str, server: str | None) -> None:
        """Records the server that the row of the incarnation names now."""
        self._told[incarnation] = server

    def exposed(self, incarnation: str) -> Duration | None:
        recorded = self._told.get(incarnation)
        if recorded is None or self._nobody_home or incarnation in self._held:
            return None
        if not self.listening and self._database.clock.monotonic() - self._lost_at < A_LOOK:
            return None  # not known yet whether the server is down
        if self.listening and self._server != recorded:
            return None  # its row names a server that is gone: other nodes ignore that lock
        return GRACE

    async def drop(self, incarnation: str) -> None:
        number, connection = self._locks.pop(incarnation, None), self._connection
        self._told.pop(incarnation, None)
        if incarnation in self._held and connection is not None:
            self._held.discard(incarnation)
            with suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError):
                async with asyncio.timeout(CONNECT_LIMIT), self._using:
                    await connection.execute("SELECT pg_advisory_unlock($1)", number)

    def descriptors(self) -> list[int]:
        return descriptors(self._connection) if self._connection is not None else []

    @property
    def listening(self) -> bool:
        return self._connection is not None and not self._connection.is_closed()
