"""The pool of connections, with connections that lead nowhere."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, cast

import asyncpg
import pytest

from rota.store.postgres.pool import ConnectionPool

SOON = 2.0


class Line:
    """What a pool needs of a connection."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.parted: str | None = None  # how it ended

    def is_closed(self) -> bool:
        return self.parted is not None

    def terminate(self) -> None:
        self.parted = self.parted or "terminated"

    async def close(self, timeout: float) -> None:
        self.parted = self.parted or "closed"


class Exchange:
    """A server: connects at once, unless told to wait or to refuse."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.refuses: Exception | None = None
        self.open = asyncio.Event()
        self.open.set()
        self.asked = 0

    async def connect(self) -> Line:
        self.asked += 1
        await self.open.wait()
        if self.refuses:
            raise self.refuses
        self.lines.append(Line(len(self.lines)))
        return self.lines[-1]

    def pool(self, size: int) -> ConnectionPool:
        return ConnectionPool(cast(Any, self.connect), size)


@pytest.fixture
async def exchange() -> Exchange:
    return Exchange()


async def settled() -> None:
    """Lets every task go as far as it can."""
    for _ in range(10):
        await asyncio.sleep(0)


def too_many() -> asyncpg.PostgresError:
    return asyncpg.TooManyConnectionsError("sorry, too many clients already")


async def test_it_opens_no_more_than_its_size_and_uses_them_again(exchange: Exchange) -> None:
    pool = exchange.pool(2)
    first, second = await pool.take(), await pool.take()
    third = asyncio.create_task(pool.take())
    await settled()
    assert not third.done()
    pool.give(first, True)
    assert await asyncio.wait_for(third, SOON) is first
    pool.give(first, True)
    pool.give(second, True)
    assert {await pool.take(), await pool.take()} == {first, second}
    assert len(exchange.lines) == 2


async def test_connections_that_are_being_opened_count(exchange: Exchange) -> None:
    pool = exchange.pool(2)
    exchange.open.clear()
    takers = [asyncio.create_task(pool.take()) for _ in range(5)]
    await settled()
    assert exchange.asked == 2
    exchange.open.set()
    await settled()
    assert [taker.done() for taker in takers] == [True, True, False, False, False]
    for taker in takers[2:]:
        taker.cancel()


async def test_those_who_wait_are_served_in_order(exchange: Exchange) -> None:
    pool = exchange.pool(1)
    connection = await pool.take()
    served: list[int] = []

    async def taker(number: int) -> None:
        taken = await pool.take()
        served.append(number)
        await asyncio.sleep(0)
        pool.give(taken, True)

    takers = [asyncio.create_task(taker(number)) for number in range(20)]
    await settled()
    pool.give(connection, True)
    await asyncio.wait_for(asyncio.gather(*takers), SOON)
    assert served == list(range(20))


async def test_nobody_jumps_the_queue(exchange: Exchange) -> None:
    """Someone who gives and takes all the time must not keep those who wait from their turn."""
    pool = exchange.pool(1)
    connection = await pool.take()
    waiting = asyncio.create_task(pool.take())
    await settled()
    for _ in range(3):
        pool.give(connection, True)
        again = asyncio.create_task(pool.take())
        await settled()
        if waiting.done():
            break
        connection = await again
    assert waiting.done()
    pool.give(await waiting, True)
    assert await asyncio.wait_for(again, SOON) is connection


async def test_a_busy_caller_does_not_starve_the_others(exchange: Exchange) -> None:
    """Its next call follows the last without a pause: it never lets the loop go on between giving and taking."""
    pool = exchange.pool(1)
    served = asyncio.Event()

    async def busy() -> None:
        for _ in range(1000):
            connection = await pool.take()
            await asyncio.sleep(0)
            pool.give(connection, True)
            if served.is_set():
                return
        raise AssertionError("a thousand calls, and the other still waits")

    async def other() -> None:
        pool.give(await pool.take(), True)
        served.set()

    async with asyncio.timeout(SOON), asyncio.TaskGroup() as tasks:
        tasks.create_task(busy())
        tasks.create_task(other())


async def test_closed_connections_are_passed_over(exchange: Exchange) -> None:
    pool = exchange.pool(3)
    taken = [await pool.take() for _ in range(3)]
    for connection in taken:
        pool.give(connection, True)
    exchange.lines[1].parted = exchange.lines[2].parted = "by the server"
    assert await pool.take() is taken[0]
    assert (await pool.take()) not in taken


async def test_an_unsound_connection_is_thrown_away_and_makes_room(exchange: Exchange) -> None:
    pool = exchange.pool(1)
    connection = await pool.take()
    waiting = asyncio.create_task(pool.take())
    await settled()
    pool.give(connection, False)
    assert (await asyncio.wait_for(waiting, SOON)) is not connection
    assert exchange.lines[0].parted == "terminated"


async def test_whoever_stops_waiting_takes_nobodys_turn(exchange: Exchange) -> None:
    pool = exchange.pool(1)
    connection = await pool.take()
    first, second = (asyncio.create_task(pool.take()) for _ in range(2))
    await settled()
    first.cancel()
    await settled()
    pool.give(connection, True)
    assert await asyncio.wait_for(second, SOON) is connection


async def test_whoever_stops_waiting_when_its_turn_has_come_passes_it_on(exchange: Exchange) -> None:
    pool = exchange.pool(1)
    connection = await pool.take()
    first, second = (asyncio.create_task(pool.take()) for _ in range(2))
    await settled()
    pool.give(connection, True)  # the first has its turn, and does not know it yet
    first.cancel()
    assert await asyncio.wait_for(second, SOON) is connection
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_whoever_stops_while_it_connects_leaves_its_place_to_others(exchange: Exchange) -> None:
    pool = exchange.pool(1)
    exchange.open.clear()
    first, second = (asyncio.create_task(pool.take()) for _ in range(2))
    await settled()
    first.cancel()
    await settled()
    exchange.open.set()
    await asyncio.wait_for(second, SOON)


async def test_a_failed_attempt_lets_the_next_one_try(exchange: Exchange) -> None:
    pool = exchange.pool(1)
    exchange.open.clear()
    exchange.refuses = ConnectionRefusedError("nobody at home")
    first, second = (asyncio.create_task(pool.take()) for _ in range(2))
    await settled()
    exchange.open.set()
    for taker in (first, second):
        with pytest.raises(ConnectionRefusedError):
            await asyncio.wait_for(taker, SOON)
    exchange.refuses = None
    await pool.take()


async def test_when_the_server_is_full_callers_share_what_is_open(exchange: Exchange) -> None:
    pool = exchange.pool(8)
    connection = await pool.take()
    exchange.refuses = too_many()
    takers = [asyncio.create_task(pool.take()) for _ in range(3)]
    await settled()
    for taker in takers:
        pool.give(connection, True)
        assert await asyncio.wait_for(taker, SOON) is connection


async def test_one_that_comes_back_while_the_server_refuses_another_is_used(exchange: Exchange) -> None:
    pool = exchange.pool(2)
    connection = await pool.take()
    exchange.open.clear()
    exchange.refuses = too_many()
    taker = asyncio.create_task(pool.take())
    await settled()
    pool.give(connection, True)
    exchange.open.set()
    assert await asyncio.wait_for(taker, SOON) is connection


async def test_when_the_server_is_full_and_none_is_open_everyone_hears_it(exchange: Exchange) -> None:
    """Those who wait for the one that is being opened too: there will be none to be given back."""
    pool = exchange.pool(1)
    exchange.open.clear()
    exchange.refuses = too_many()
    first, second = (asyncio.create_task(pool.take()) for _ in range(2))
    await settled()
    exchange.open.set()
    for taker in (first, second):
        with pytest.raises(asyncpg.TooManyConnectionsError):
            await asyncio.wait_for(taker, SOON)


async def test_it_grows_again_when_the_server_has_room(exchange: Exchange) -> None:
    pool = exchange.pool(2)
    connection = await pool.take()
    exchange.refuses = too_many()
    taker = asyncio.create_task(pool.take())
    await settled()
    exchange.refuses = None
    pool.give(connection, True)
    assert await asyncio.wait_for(taker, SOON) is connection
    assert (await pool.take()) is not connection


SHUT_OUT = [
    asyncpg.InvalidPasswordError("password authentication failed"),
    asyncpg.InvalidAuthorizationSpecificationError("no pg_hba.conf entry"),
    asyncpg.InvalidCatalogNameError("database does not exist"),
    asyncpg.InterfaceError("no password was given"),
    ssl.SSLCertVerificationError("certificate has expired"),
]


@pytest.mark.parametrize("refusal", SHUT_OUT, ids=lambda error: type(error).__name__)
async def test_those_who_are_shut_out_go_on_with_what_they_have(exchange: Exchange, refusal: Exception) -> None:
    pool = exchange.pool(4)
    connection = await pool.take()
    exchange.refuses = refusal
    takers = [asyncio.create_task(pool.take()) for _ in range(3)]
    await settled()
    for taker in takers:
        pool.give(connection, True)
        assert await asyncio.wait_for(taker, SOON) is connection
    pool.give(connection, False)  # and when that one is lost, they are told why there is no other
    with pytest.raises(type(refusal)):
        await pool.take()


async def test_a_server_that_goes_is_not_waited_for(exchange: Exchange) -> None:
    pool = exchange.pool(2)
    await pool.take()
    for refusal in (asyncpg.CannotConnectNowError("shutting down"), ConnectionRefusedError(), TimeoutError()):
        exchange.refuses = refusal
        with pytest.raises(type(refusal)):
            await asyncio.wait_for(pool.take(), SOON)


async def test_the_idle_ones_can_be_dropped(exchange: Exchange) -> None:
    pool = exchange.pool(2)
    first, out = await pool.take(), await pool.take()
    pool.give(first, True)
    pool.clear()
    assert [line.parted for line in exchange.lines] == ["terminated", None]
    pool.give(out, True)
    assert await pool.take() is out


async def test_close_parts_with_the_idle_ones_and_cuts_off_the_others(exchange: Exchange) -> None:
    pool = exchange.pool(2)
    idle, out = await pool.take(), await pool.take()
    pool.give(idle, True)
    await pool.close()
    assert [line.parted for line in exchange.lines] == ["closed", "terminated"]
    pool.give(out, True)
    with pytest.raises(asyncpg.InterfaceError, match="closed"):
        await pool.take()
    assert all(line.parted for line in exchange.lines)


async def test_close_ends_what_is_being_opened_and_those_who_wait(exchange: Exchange) -> None:
    pool = exchange.pool(1)
    exchange.open.clear()
    takers = [asyncio.create_task(pool.take()) for _ in range(3)]
    await settled()
    await pool.close()
    exchange.open.set()
    for taker in takers:
        with pytest.raises(asyncpg.InterfaceError, match="closed"):
            await asyncio.wait_for(taker, SOON)
    assert all(line.parted for line in exchange.lines)


async def test_a_server_that_does_not_say_good_bye_does_not_hold_up_the_close(exchange: Exchange) -> None:
    pool = exchange.pool(1)
    pool.give(await pool.take(), True)
    (line,) = exchange.lines

    async def silent(timeout: float) -> None:
        raise TimeoutError

    line.close = silent  # type: ignore[method-assign]
    await pool.close()
    assert line.parted == "terminated"
