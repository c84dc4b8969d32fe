"""Requests with an idempotency key: carried out once, and answered as the first time when they come again.

The store remembers them (`api.trails`), so a repeat may reach any server, also after a restart. A repeat that comes to
the same server while the first try still runs waits for it; on another server it is refused with 409, and may be sent
again. Orders are recognised by the keys or ids of their jobs instead (`resources.orders`, `api.repeated_orders`).
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from rota.api.problems import Refusal
from rota.api.trails import Overtaken, RequestName, SecretMaker, Trail, TrailChance
from rota.errors import IdempotencyKeyReused, RotaError, StoreError, StoreUnavailable
from rota.model.options import LONGEST_KEY
from rota.model.principal import SYSTEM
from rota.model.readers import printable
from rota.model.repeats import key_name
from rota.model.times import DAY, Duration
from rota.remote.hello import CALLS, IDEMPOTENCY_KEY, REPEAT

if TYPE_CHECKING:
    from rota.api.desk import Desk
    from rota.api.requests import Request
    from rota.api.routes import Route

LONGEST_LIFE: Duration = DAY  # that a repeat is recognised; less if the store keeps the keys of orders for less
TRIES = 10  # another server can't overtake us for ever: a request has few writes
# What a request asks for is in these headers, too.
_CONDITIONS = ("if-match", "if-none-match")
_Place = tuple[str, str, str]  # the access key, its user, and the name of the idempotency key


class _Running(NamedTuple):
    name: RequestName
    answer: asyncio.Future[Any]


def checked_key(request: Request[Any, Any]) -> str | None:
    """The idempotency key of a request; None: it has none."""
    given = request.header(IDEMPOTENCY_KEY.lower())
    if given is not None:
        expected = f"a text of 1 to {LONGEST_KEY} printable characters"
        printable(given, IDEMPOTENCY_KEY, 1, LONGEST_KEY, expected)
    return given


class Repeats:
    """Of one server."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._running: dict[_Place, _Running] = {}
        self._secret: str | None = None

    async def answer(self, route: Route, request: Request[Any, Any]) -> Any:
        """The answer of the route's handler."""
        if not route.keyed or (key := checked_key(request)) is None:
            return await route.handler(request)
        name = _name(route, request, key)
        place = (request.grant.key, name.user, name.key)  # another access key may have other rights
        running = self._running.get(place)
        if running is None:
            future = asyncio.ensure_future(self._carry_out(route, request, name))
            running = self._running[place] = _Running(name, future)
            future.add_done_callback(self._ended(place))
        elif running.name != name:
            raise IdempotencyKeyReused
        return await asyncio.shield(running.answer)  # a caller that goes away must not stop it for its next try

    def _ended(self, place: _Place) -> Callable[[asyncio.Future[Any]], None]:
        def ended(done: asyncio.Future[Any]) -> None:
            self._running.pop(place, None)
            if not done.cancelled():
                done.exception()  # asked for, in case all callers are gone

        return ended

    async def _carry_out(self, route: Route, request: Request[Any, Any], name: RequestName) -> Any:
        store, chance = self._desk.store, self._desk.chance
        life = min(LONGEST_LIFE, self._desk.settings.key_retention)
        # rota's own clients make their secrets themselves. Their first try has a new key; if it has not, it is
        # overtaken by the write that has it.
        own = route.path.startswith(CALLS)
        maker = SecretMaker("" if own else await self._store_secret(), request.header("authorization") or "")
        look = not own or request.header(REPEAT) is not None
        for _ in range(TRIES):
            steps = await store.repeat_steps(SYSTEM, name.user, name.key) if look else []
            trail = Trail(store, name, steps, life, chance.token() + chance.token(), maker.name)
            request.follow(trail.store, TrailChance(trail, maker))
            try:
                return await _followed(route, request, trail)
            except Overtaken:
                look = True
        raise StoreUnavailable("other servers carry out the same request all the time; try again")

    async def _store_secret(self) -> str:
        if self._secret is None:
            self._secret = await self._desk.store.secret(SYSTEM, "repeats")
        return self._secret


async def _followed(route: Route, request: Request[Any, Any], trail: Trail) -> Any:
    try:
        answer = await route.handler(request)
    except StoreError:
        raise  # nothing is known, and nothing kept
    except (RotaError, Refusal):
        await trail.check()
        raise
    await trail.end()
    return answer


def _name(route: Route, request: Request[Any, Any], key: str) -> RequestName:
    conditions = [request.header(one) for one in _CONDITIONS]
    content = msgspec.json.encode([request.path, request.query, request.body, conditions])
    return RequestName(
        request.grant.user, key_name(key), f"{route.method} {route.path}", hashlib.sha256(content).hexdigest()
    )
