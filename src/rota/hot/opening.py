"""Opens a connection to a server of the hot tier, and checks that the server can be used."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, NamedTuple

import hiredis

from rota import dialing
from rota.dialing import Unreachable, Untrusted
from rota.hot.connection import RedisConnection
from rota.hot.lane import HotAway, HotRefused
from rota.hot.problems import OWNER, check_owner, problem
from rota.hot_address import HotAddress

OLDEST = (7, 0)  # of Redis; every Valkey is newer


class ServerFacts(NamedTuple):
    name: str  # such as `Valkey 9.1.2`
    memory: int | None  # bytes that the server uses
    most: int | None  # bytes that it may use; None: no bound


async def connect(
    address: HotAddress,
    limit: float,
    hear: Callable[[bytes], None] | None = None,
    ended: Callable[[], None] | None = None,
) -> RedisConnection:
    """A connection that is logged in."""
    place = address.place
    try:
        context = _context(address)
        connection = await dialing.dial(
            lambda: RedisConnection(place, limit, hear, ended), address.host, address.port, 2 * limit, context
        )
    except Untrusted as error:
        raise HotRefused(f"{place}: {error}") from None
    except Unreachable as error:
        hint = "; does it speak TLS there?" if address.tls and "no answer" in str(error) else ""
        raise HotAway(f"{place}: {error}{hint}") from None
    try:
        await _log_in(connection, address)
    except BaseException:
        connection.abort()
        raise
    return connection


async def check(connection: RedisConnection) -> ServerFacts:
    """Refuses servers that are too old, of the wrong kind or without a right to write."""
    place = connection.place
    try:
        found = fields(await connection.call("INFO"))
    except hiredis.ReplyError as error:
        raise problem(place, error) from None
    if found.get("loading", "0") != "0":
        raise HotAway(f"{place}: it is loading its data")
    name = _name(place, found)
    if found.get("cluster_enabled") == "1" or found.get("redis_mode") == "cluster":
        raise HotRefused(f"{place}: it is part of a cluster; single servers are needed")
    if found.get("redis_mode") == "sentinel" or found.get("server_mode") == "sentinel":
        raise HotRefused(f"{place}: it is a sentinel; name the server itself")
    if found.get("role") != "master":
        primary = f" ({found['master_host']}:{found['master_port']})" if found.get("master_port") else ""
        raise HotRefused(f"{place}: it is a replica; name its primary{primary}")
    return facts(name, found)


async def own(connection: RedisConnection, store: str) -> None:
    """Takes a server for a store, and refuses one that serves another."""
    try:
        # Read first: memory that is full refuses every SET, and who owns the server must be able to make room.
        owner = await connection.call("GET", OWNER) or await connection.call("SET", OWNER, store, "NX", "GET")
        await connection.call("PERSIST", OWNER)  # a write that changes nothing: shows that writes are allowed
    except hiredis.ReplyError as error:
        raise problem(connection.place, error) from None
    check_owner(connection.place, owner, store)


def fields(info: Any) -> dict[str, str]:
    """The lines of an answer to INFO; empty if it is none."""
    lines = info.decode("utf-8", "replace").splitlines() if isinstance(info, bytes) else []
    pairs = (line.partition(":") for line in lines if ":" in line and not line.startswith("#"))
    return {name: value.strip() for name, _, value in pairs}


def facts(name: str, found: dict[str, str]) -> ServerFacts:
    return ServerFacts(name, _number(found.get("used_memory")), _number(found.get("maxmemory")) or None)


def _context(address: HotAddress) -> ssl.SSLContext | None:
    if not address.tls:
        return None
    try:
        return dialing.trusting(address.ca)
    except OSError as error:  # ssl.SSLError too
        expected = "a file with certificates in PEM form is needed"
        raise HotRefused(f"{address.place}: {address.ca} can't be read ({dialing.why(error)}); {expected}") from None


async def _log_in(connection: RedisConnection, address: HotAddress) -> None:
    calls: list[asyncio.Future[Any]] = []
    if address.login:
        calls.append(connection.call("AUTH", *address.login))
    if address.database:
        calls.append(connection.call("SELECT", address.database))
    for number, call in enumerate(calls):
        try:
            await call
        except hiredis.ReplyError as error:
            if address.login and number == 0:
                raise _not_logged_in(address.place, error) from None
            if str(error).startswith("ERR"):
                raise HotRefused(f"{address.place}: it has no database {address.database}") from None
            raise problem(address.place, error) from None


def _not_logged_in(place: str, error: Exception) -> HotAway | HotRefused:
    """The answer may repeat the password, so its text is not shown."""
    if not str(error).startswith("ERR"):
        return problem(place, error)
    if "without any password" in str(error):
        return HotRefused(f"{place}: it has no password; leave the password out of the address")
    return HotRefused(f"{place}: it does not know how to log in; it is no Redis or Valkey that can be used")


def _name(place: str, found: dict[str, str]) -> str:
    if version := found.get("valkey_version"):
        return f"Valkey {version}"
    version = found.get("redis_version")
    if version is None:
        raise HotRefused(f"{place}: what answers there is neither Redis nor Valkey")
    if _parts(version) < OLDEST:
        needed = ".".join(map(str, OLDEST))
        raise HotRefused(f"{place}: it is Redis {version}; Redis {needed} or newer, or Valkey, is needed")
    return f"Redis {version}"


def _parts(version: str) -> tuple[int, ...]:
    numbers = [part for part in version.split(".")[:2] if part.isascii() and part.isdecimal()]
    return tuple(map(int, numbers))


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdecimal() else None
