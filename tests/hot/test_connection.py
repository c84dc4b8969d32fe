"""Many callers on one connection: each gets its own reply, or hears that there is none."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import hiredis
import pytest
import uvloop

from rota.dialing import dial
from rota.hot.connection import RedisConnection
from rota.hot.lane import HotAway, HotRefused
from tests.hot.fake import Answers, bulk, fake
from tests.servers.valkey import Valkey, shared_valkey

SHORT = 0.2


@asynccontextmanager
async def connected(port: int, limit: float = 10.0) -> AsyncIterator[RedisConnection]:
    connection = await dial(lambda: RedisConnection("place", limit), "127.0.0.1", port, 10.0)
    try:
        yield connection
    finally:
        connection.abort()
        await asyncio.sleep(0)


def echo(command: list[bytes]) -> bytes:
    return bulk(command[-1])


def until_sleep() -> Answers:
    asleep = False

    def answer(command: list[bytes]) -> bytes | None:
        nonlocal asleep
        asleep = asleep or command[0] == b"SLEEP"
        return None if asleep else bulk(command[-1])

    return answer


@asynccontextmanager
async def talking(
    answers: Answers = echo, limit: float = 10.0, greeting: bytes = b""
) -> AsyncIterator[RedisConnection]:
    async with fake(answers, greeting) as port, connected(port, limit) as connection:
        yield connection


async def test_replies_come_in_order(server: Valkey) -> None:
    async with connected(server.port) as connection:
        replies = await asyncio.gather(*(connection.call("ECHO", str(number)) for number in range(5_000)))
        assert replies == [str(number).encode() for number in range(5_000)]


async def test_all_kinds_of_replies(server: Valkey) -> None:
    async with connected(server.port) as connection:
        assert await connection.call("SET", "a", b"\xff\0\r\n") == b"OK"
        assert await connection.call("GET", "a") == b"\xff\0\r\n"
        assert await connection.call("GET", "b") is None
        assert await connection.call("INCRBY", "c", 7) == 7
        assert await connection.call("MGET", "a", "b", "c") == [b"\xff\0\r\n", None, b"7"]
        with pytest.raises(hiredis.ReplyError, match="WRONGTYPE"):
            await connection.call("LPUSH", "a", "x")
        big = bytes(3_000_000)
        assert await connection.call("ECHO", big) == big


async def test_cancelled_callers_shift_nobodys_replies(server: Valkey) -> None:
    """Thousands of callers, of whom many leave before or while their reply comes."""
    chance = random.Random(3)
    got, left = 0, 0

    async def ask(number: int) -> None:
        nonlocal got, left
        words = [f"{number}.{turn}".encode() for turn in range(5)]
        try:
            for word in words:
                assert await connection.call("ECHO", word) == word
                got += 1
        except asyncio.CancelledError:
            left += 1

    async with connected(server.port) as connection:
        tasks = [asyncio.create_task(ask(number)) for number in range(4_000)]
        for _ in range(40):
            await asyncio.sleep(0)
            for task in chance.sample(tasks, 60):
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert got > 4_000
        assert left > 500
        assert await connection.call("ECHO", "last") == b"last"


async def test_one_that_gives_up_leaves_the_connection_as_it_is() -> None:
    together = bulk("first") + bulk("second") + bulk("third")
    async with talking(lambda command: together if command[-1] == b"third" else None) as connection:
        first, second = connection.call("ECHO", "first"), connection.call("ECHO", "second")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await first
        assert await connection.call("ECHO", "third") == b"third"
        assert await second == b"second"


async def test_after_a_time_out_nobody_gets_a_reply() -> None:
    async with talking(until_sleep(), limit=SHORT) as connection:
        assert await connection.call("ECHO", "x") == b"x"
        began = time.monotonic()
        calls = [connection.call("SLEEP"), *(connection.call("ECHO", "y") for _ in range(100))]
        calls[5].cancel()
        calls[0].cancel()  # a caller that has left proves the connection dead as well
        with pytest.raises(HotAway, match=r"place: no answer within 0.2s"):
            await asyncio.gather(*calls[1:5])
        assert SHORT <= time.monotonic() - began < 10 * SHORT
        assert not connection.usable
        for call in [*calls[6:], connection.call("ECHO", "z")]:
            with pytest.raises(HotAway, match="no answer within"):
                await call


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_process_that_was_stopped_finds_its_replies(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def ask() -> None:
        async with connected(shared_valkey().port, 3 * SHORT) as connection:
            words = [str(number).encode() * 10_000 for number in range(100)]  # more than a loop reads in one turn
            replies = [connection.call("ECHO", word) for word in words]
            await asyncio.sleep(0)
            time.sleep(4 * SHORT)  # the time-out is over before the loop turns again
            assert await asyncio.gather(*replies) == words

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(ask())


async def test_many_slow_replies_have_a_limit_each() -> None:
    """The limit is for the silence of one call, not for the connection."""
    async with talking(limit=SHORT) as connection:
        end = asyncio.get_running_loop().time() + 3 * SHORT
        while asyncio.get_running_loop().time() < end:
            assert await connection.call("ECHO", "x") == b"x"


@pytest.mark.parametrize(
    "garbage", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"SSH-2.0-x\r\n", b"\x15\x03\x03\0\x02", b"*-7\r\n"]
)
async def test_what_is_no_redis_is_called_so(garbage: bytes) -> None:
    async with talking(lambda _: garbage) as connection:
        calls = [connection.call("PING") for _ in range(3)]
        for call in calls:
            with pytest.raises(HotRefused, match="place: what answers there is neither Redis nor Valkey"):
                await call


async def test_one_that_talks_unasked_is_not_trusted() -> None:
    async with talking(lambda _: b"+1\r\n+2\r\n") as connection:
        assert await connection.call("PING") == b"1"
        with pytest.raises(HotRefused, match="talks unasked"):
            await connection.call("PING")


@pytest.mark.parametrize(
    ("greeting", "kind", "words"),
    [
        (b"-ERR max number of clients reached\r\n", HotAway, "maxclients"),
        (b"-DENIED Redis is running in protected mode ...\r\n", HotRefused, "protected mode"),
    ],
)
async def test_a_refusal_in_place_of_a_greeting(greeting: bytes, kind: type[Exception], words: str) -> None:
    ended = asyncio.Event()
    async with fake(echo, greeting) as port:
        connection = await dial(lambda: RedisConnection("place", ended=ended.set), "127.0.0.1", port, 10.0)
        await asyncio.wait_for(ended.wait(), 10)
        with pytest.raises(kind, match=words):
            await connection.call("PING")


@pytest.mark.parametrize("reply", [b"", b"$10\r\nhalf"])
async def test_a_connection_that_ends_is_away(reply: bytes) -> None:
    async with talking(lambda command: b"" if command[0] == b"END" else reply or None) as connection:
        calls = [connection.call("PING"), connection.call("END"), connection.call("PING")]
        for call in calls:
            with pytest.raises(HotAway, match="closed the connection"):
                await call
        with pytest.raises(HotAway, match="closed the connection"):
            await connection.call("PING")


async def test_what_can_not_be_sent_harms_nobody() -> None:
    async with talking() as connection:
        call = connection.call("ECHO", "before")
        for word in ("\ud800", 1.5j, None, ["x"]):
            with pytest.raises((UnicodeError, TypeError, ValueError)):
                connection.call("ECHO", word)  # type: ignore[arg-type]
        assert [await call, await connection.call("ECHO", "after")] == [b"before", b"after"]


async def test_errors_that_nobody_waits_for_are_no_complaints() -> None:
    complaints: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    async with talking(lambda _: b"-ERR no\r\n") as connection:
        connection.call("X")
        with pytest.raises(hiredis.ReplyError):
            await connection.call("X")
        connection.call("X")
    assert complaints == []
