"""A lane on a Redis (7.0 or newer) or a Valkey.

    rota:owner                 the id of the store that uses the server (of this database number)
    rota:{<store>}:due         sorted set: jobs by due time, and the epoch with an infinite score
    rota:{<store>}:report:...  a key for each report
    rota:{<store>}:order       sorted set: the jobs with reports, by their last write
    rota:{<store>}:sizes       hash: the size of each report and their total
    rota:{<store>}:wakes       the channel

Due times are scores, which are exact up to 2⁵³ microseconds (the year 2255). Nothing depends on the server's clock but
the lives of reports, which are durations.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import hiredis

from rota.dialing import descriptor
from rota.hot import opening
from rota.hot.batches import AT_ONCE, latest, pieces, weight
from rota.hot.connection import LIMIT, RedisConnection
from rota.hot.lane import Added, Due, HotAway, Lane, LaneState, Look, Report
from rota.hot.problems import OWNER, check_owner, problem
from rota.hot.scripts import LuaScript, lua_script
from rota.hot.subscription import Subscription
from rota.hot_address import hot_address
from rota.model.times import Instant

T = TypeVar("T")
Word = bytes | str | int  # of a command
AHEAD = 4  # scripts of one batch that are under way: more would keep other callers waiting
REPORTS_AT_ONCE = 200
LONGEST_LIFE = 10 * 366 * 86_400.0
_STORE = re.compile(r"[A-Za-z0-9_-]{1,40}")
_EPOCH = b"epoch "


class RedisLane(Lane):
    """`limit`: seconds for each answer, and twice that for a connection. Raises InvalidInput for a wrong address."""

    def __init__(self, url: str, limit: float = LIMIT) -> None:
        self._address, self._limit = hot_address(url), limit
        self.place = self._address.place
        self._connection: RedisConnection | None = None
        self._subscription: Subscription | None = None
        self._server = self._store = ""
        self._turn = 0  # counts `open` and `close`

    async def open(self, store: str) -> None:
        if not _STORE.fullmatch(store):
            raise ValueError(f"{store!r} can't be the id of a store")
        await self.close()
        turn = self._turn
        connection = await opening.connect(self._address, self._limit)
        try:
            facts = await opening.check(connection)
            await opening.own(connection, store)
            if turn != self._turn:
                raise HotAway(f"{self.place}: it was closed meanwhile")
        except BaseException:
            connection.abort()
            raise
        self._connection, self._store, self._server = connection, store, facts.name

    # -- the heap of due jobs ----------------------------------------------------------------------------------------
    async def add_due(self, entries: Sequence[Due]) -> Added:
        if not entries:
            return Added(False, (await self.look(0, 0)).epoch)
        first, *others = pieces(latest(entries))
        # The piece with the earliest comes first, so its answer is the one for all.
        earliest, epoch = await self._run("add_due", ["due"], _flat(first))
        await self._each("add_due", ["due"], map(_flat, others))
        return Added(bool(earliest), _epoch(epoch))

    async def look(self, until: Instant, limit: int) -> Look:
        epoch, upcoming, due = await self._run("look", ["due"], [until, max(limit, 0)])
        return Look(_epoch(epoch), _entries(due), _instant(upcoming) if upcoming else None)

    async def drop_due(self, entries: Sequence[Due]) -> None:
        await self._each("drop_due", ["due"], map(_flat, pieces(entries)))

    async def begin_epoch(self, epoch: str) -> None:
        owner = await self._run("begin_epoch", ["due", None], [_EPOCH + _bytes(epoch), self._store])
        check_owner(self.place, owner, self._store)

    async def page_due(self, after: Due, limit: int) -> list[Due]:
        if limit <= 0:
            return []
        return _entries(await self._run("page_due", ["due"], [after.at, after.at + 1, _bytes(after.job), limit]))

    # -- the latest news of running jobs -----------------------------------------------------------------------------
    async def report(self, reports: Sequence[Report], life: float, most: int) -> None:
        milliseconds = max(1, round(min(life, LONGEST_LIFE) * 1000))
        first: list[bytes | int] = [self._key("report:"), milliseconds, most]
        batches = pieces(reports, REPORTS_AT_ONCE)
        await self._each("report", ["order", "sizes"], (first + _reported(batch) for batch in batches))

    async def reports(self, jobs: Sequence[str]) -> list[Report | None]:
        prefix = self._key("report:")
        values: list[bytes | None] = []
        for batch in pieces(jobs, AT_ONCE):
            values += await self._call("MGET", *(prefix + _bytes(job) for job in batch))
        return [_report(job, value) for job, value in zip(jobs, values, strict=True)]

    # -- wake-ups ----------------------------------------------------------------------------------------------------
    async def publish(self, text: str) -> None:
        await self._call("PUBLISH", self._key("wakes"), _bytes(text))

    async def subscribe(self, hear: Callable[[str], None], lost: Callable[[], None]) -> None:
        self._usable()
        turn, subscription = self._turn, Subscription(hear, lost)
        await subscription.begin(self._address, self._limit, self._key("wakes"))
        if turn != self._turn:
            subscription.replace()
            raise HotAway(f"{self.place}: it was closed meanwhile")
        if self._subscription is not None:
            self._subscription.replace()
        self._subscription = subscription

    # -- life --------------------------------------------------------------------------------------------------------
    async def state(self) -> LaneState:
        found = opening.fields(await self._call("INFO", "memory"))
        _, memory, most = opening.facts(self._server, found)
        epoch = (await self.look(0, 0)).epoch
        entries = await self._call("ZCOUNT", self._key("due"), "-inf", "(inf")
        return LaneState(self._server, epoch, entries, await self._call("ZCARD", self._key("order")), memory, most)

    async def close(self) -> None:
        self._turn += 1
        if self._connection is not None:
            self._connection.abort()
        if self._subscription is not None:
            self._subscription.end()
        self._connection = self._subscription = None
        await asyncio.sleep(0)  # the transports close their sockets in the next turn of the loop

    def drop(self) -> None:
        for connection in self._connections():
            connection.drop()
        self._connection = self._subscription = None

    def descriptors(self) -> Iterable[int]:
        found = [descriptor(connection.transport) for connection in self._connections()]
        return [one for one in found if one is not None]

    # -- calls -------------------------------------------------------------------------------------------------------
    def _connections(self) -> list[RedisConnection]:
        listening = None if self._subscription is None else self._subscription.connection
        return [one for one in (self._connection, listening) if one is not None]

    def _usable(self) -> RedisConnection:
        if self._connection is None:
            raise HotAway(f"{self.place}: it is not open")
        return self._connection

    def _key(self, name: str) -> bytes:
        return f"rota:{{{self._store}}}:{name}".encode()

    async def _call(self, *command: Word) -> Any:
        return await self._answered(self._usable().call(*command))

    async def _answered(self, reply: Awaitable[T]) -> T:
        try:
            return await reply
        except hiredis.ReplyError as error:
            raise problem(self.place, error) from None

    async def _run(self, name: str, keys: Sequence[str | None], arguments: Sequence[Word]) -> Any:
        """`keys`: of this store; None: the one that names the owner."""
        return await self._result(self._start(name, keys, arguments))

    async def _each(self, name: str, keys: Sequence[str | None], batches: Iterable[Sequence[Word]]) -> None:
        """Runs a script for each batch, a few ahead of the answers."""
        under_way: deque[_Run] = deque()
        for arguments in batches:
            if len(under_way) == AHEAD:
                await self._result(under_way.popleft())
            under_way.append(self._start(name, keys, arguments))
        while under_way:
            await self._result(under_way.popleft())

    def _start(self, name: str, keys: Sequence[str | None], arguments: Sequence[Word]) -> _Run:
        connection, script = self._usable(), lua_script(name)
        rest = [len(keys), *(OWNER if key is None else self._key(key) for key in keys), *arguments]
        return _Run(connection, script, rest, connection.call("EVALSHA", script.digest, *rest))

    async def _result(self, run: _Run) -> Any:
        connection, script, rest, reply = run
        try:
            return await reply
        except hiredis.ReplyError as error:
            if not str(error).startswith("NOSCRIPT"):
                raise problem(self.place, error) from None
        connection.call("SCRIPT", "LOAD", script.text)  # if that fails, the next call tells
        return await self._answered(connection.call("EVALSHA", script.digest, *rest))


class _Run(NamedTuple):
    connection: RedisConnection
    script: LuaScript
    rest: list[Word]  # of the command
    reply: asyncio.Future[Any]


def _bytes(text: str) -> bytes:
    """Ids of others may be any bytes, and must find their way back."""
    return text.encode(errors="surrogateescape")


def _text(found: bytes) -> str:
    return found.decode(errors="surrogateescape")


def _epoch(member: bytes) -> str:
    return _text(member.removeprefix(_EPOCH))


def _instant(score: bytes) -> Instant:
    number = float(score)
    return math.floor(number) if math.isfinite(number) else 0


def _flat(entries: Iterable[Due]) -> list[bytes | int]:
    return [part for job, at in entries for part in (at, _bytes(job))]


def _entries(found: Sequence[bytes]) -> list[Due]:
    pairs: Iterator[tuple[bytes, bytes]] = zip(found[::2], found[1::2], strict=True)
    return [Due(_text(job), _instant(score)) for job, score in pairs if score != b"inf"]


def _reported(reports: Iterable[Report]) -> list[bytes | int]:
    return [part for one in reports for part in (_bytes(one.job), *one.version, weight(one), one.content)]


def _report(job: str, value: bytes | None) -> Report | None:
    """Somebody else may have written there."""
    parts = (value or b"").split(b" ", 2)
    if len(parts) < 3 or not (parts[0].isdigit() and parts[1].isdigit()):
        return None
    return Report(job, (int(parts[0]), int(parts[1])), parts[2])
