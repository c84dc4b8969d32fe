"""The server as its clients meet it: what it is, and the stream of wake-ups (`Store.listen`)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import msgspec

from rota.api.answers import Answer, Stream
from rota.api.calls import OWN, check_version, stamped
from rota.api.requests import Request
from rota.api.routes import ANY_KEY, Routes
from rota.errors import InvalidInput
from rota.remote.hello import PATH, PING, WAKES, ServerInfo
from rota.remote.versions import OURS
from rota.store.base import Store
from rota.store.values import Topic

ROUTES = Routes("server")
# Wake-ups closer together than this share a line.
PAUSE = 0.02


@ROUTES.get(
    PATH, ANY_KEY, "The version and time of this server, and the rights of the caller's key", problems=(426,), **OWN
)
async def get_server(request: Request[None, None]) -> Answer[ServerInfo]:
    check_version(request)
    grant, desk = request.grant, request.desk
    info = ServerInfo(
        version=OURS, store=desk.settings.store.partition(":")[0].replace("postgres:", "postgresql"),
        now=desk.store.now(), user=grant.user, key=grant.key, role=grant.role,
        permissions=tuple(sorted(grant.permissions)), expires_at=grant.expires_at,
    )  # fmt: skip
    return Answer(info, headers=stamped(request))


class WakesQuery(msgspec.Struct, forbid_unknown_fields=True):
    topics: str


@ROUTES.get(WAKES, ANY_KEY, "Wake-ups for rota's own clients", media="text/plain", problems=(426,), **OWN)
async def get_wakes(request: Request[None, WakesQuery]) -> Stream:
    """Lines of topics; an empty line is a sign of life."""
    check_version(request)
    return Stream(_lines(request.desk.store, topics(request.query.topics)), "text/plain", stamped(request))


def topics(given: str) -> frozenset[Topic]:
    try:
        found = frozenset(map(Topic, given))
    except ValueError:
        found = frozenset()
    if not found:
        raise InvalidInput("topics", given, f"some of the letters {', '.join(Topic)}")
    return found


async def _lines(store: Store, wanted: frozenset[Topic]) -> AsyncIterator[bytes]:
    awake = asyncio.Event()
    pending: set[Topic] = set()

    def heard(topic: Topic) -> Callable[[], None]:
        def wake() -> None:
            pending.add(topic)
            awake.set()

        return wake

    ends = [store.listen(frozenset({topic}), heard(topic)) for topic in sorted(wanted)]
    try:
        yield b"\n"
        while True:
            try:
                async with asyncio.timeout(PING):
                    await awake.wait()
            except TimeoutError:
                yield b"\n"
                continue
            line = "".join(sorted(pending))
            pending.clear()
            awake.clear()
            yield line.encode() + b"\n"
            await asyncio.sleep(PAUSE)
    finally:
        for end in ends:
            end()
