"""The ASGI application: every request goes through the same checks, in this order.

Host and Origin, exact route, key, permission, body and query, handler. Whoever has no valid key learns nothing: not
which paths there are, nor which methods they have.

HEAD is answered as GET is, by the same checks and the same handler, without the body. Streams have no HEAD: their
head says nothing that their length or content would. OPTIONS names the methods of a path to those who may use one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, cast

import msgspec

from rota.api import calls, health, openapi, wakes, workers
from rota.api.answers import WHOLE, Answer, Stream
from rota.api.authentication import Authenticator
from rota.api.decoding import BodyReader, Nothing, QueryReader, read_body
from rota.api.desk import Desk
from rota.api.origins import OriginCheck, headers_of
from rota.api.problems import MEDIA, Refusal, refusal_of, trace_of, unexpected
from rota.api.requests import Receive, Request
from rota.api.resources import ROUTES
from rota.api.routes import ANY_KEY, PUBLIC, Route, Table
from rota.errors import RotaError
from rota.model.access import Permission
from rota.telemetry import events

Send = Callable[[dict[str, Any]], Awaitable[None]]
Scope = Mapping[str, Any]
# An answer belongs to one caller, and is what its content type says.
_ALWAYS = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]
KEY_CHECK = 3.0  # seconds between two looks at the key of an open stream
IN_A_ROW = 16  # pieces of a stream
_JSON = (b"content-type", b"application/json")
_PROBLEM = (b"content-type", MEDIA.encode())


def table() -> Table:
    """All routes of rota."""
    return Table([health.ROUTES, openapi.ROUTES, wakes.ROUTES, calls.routes(), workers.ROUTES, *ROUTES])


class Api:
    def __init__(
        self, routes: Iterable[Route], desk: Desk, keys: Authenticator, origins: OriginCheck, max_body: int
    ) -> None:
        self.table = desk.table = Table([routes])
        self._desk, self._keys, self._origins, self._max_body = desk, keys, origins, max_body
        self._encode = msgspec.json.Encoder().encode
        self._bodies = {route.name: BodyReader(route.body) for route in self.table if route.body is not None}
        self._queries = {route.name: QueryReader(route.query) for route in self.table}
        self._streams: set[asyncio.Task[Any]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            await self._answer(scope, receive, send)
        except Nothing:
            return
        except Refusal as refusal:
            await self._refuse(refusal, scope, send)
        except Exception as error:
            known = refusal_of(error) if isinstance(error, RotaError) else None
            incident = known or self._incident(scope["method"], scope["raw_path"].decode("latin-1"), error)
            await self._refuse(incident, scope, send)

    def end_streams(self) -> None:
        """Ends all streams, each with its last piece complete, before the server stops."""
        for task in self._streams:
            task.cancel()

    # -- checks ------------------------------------------------------------------------------------------------------
    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = headers_of(scope)
        origin = self._origins.check(scope, headers)
        found = self.table.find(scope["raw_path"].decode("latin-1"))
        if found is not None and scope["method"] == "OPTIONS":
            allow = await self._options(found[0], headers, origin.address)
            await _respond(scope, send, 204, [*_ALWAYS, *_encoded({"allow": allow})], b"")
            return
        route = _route_for(scope["method"], found[0]) if found else None
        if found is None or route is None:
            await self._keys.grant(headers.get(b"authorization"), origin.address)
            raise _not_there(found[0] if found else None)
        grant = None
        if route.permission is not PUBLIC:
            grant = await self._keys.grant(headers.get(b"authorization"), origin.address)
            if isinstance(route.permission, Permission):
                grant.check(route.permission)
        query = self._queries[route.name].read(scope["query_string"])
        body = await self._body(route, headers, receive)
        path = dict(zip(route.parts, found[1], strict=True)) if found[1] else {}
        request: Request[Any, Any] = Request(
            self._desk, grant, path, query, body, headers, receive, scope.get("server")
        )
        answer = await self._desk.repeats.answer(route, request)
        given = answer if isinstance(answer, Answer) else Answer(answer)
        if isinstance(given.value, Stream):
            lost = partial(self._lost, headers, origin.address) if grant is not None else _never
            await self._stream(route, given.value, given.status or route.status, receive, send, lost)
        else:
            await self._send(route, given, scope, send)

    async def _options(self, methods: Mapping[str, Route], headers: Mapping[bytes, bytes], address: str) -> str:
        """The methods of a path, for those who may use one of them; whether the thing that it names is there is not
        looked at."""
        needed = [route.permission for route in methods.values()]
        if PUBLIC not in needed:
            grant = await self._keys.grant(headers.get(b"authorization"), address)
            if not any(one is ANY_KEY or one in grant.permissions for one in needed):
                grant.check(cast(Permission, needed[0]))
        _check_no_body(headers)
        return _allowed(methods)

    async def _body(self, route: Route, headers: Mapping[bytes, bytes], receive: Receive) -> Any:
        reader = self._bodies.get(route.name)
        if reader is not None:
            return reader.read(await read_body(receive, headers, self._max_body), headers.get(b"content-type"))
        _check_no_body(headers)
        return None

    # -- answers -----------------------------------------------------------------------------------------------------
    async def _send(self, route: Route, given: Answer[Any], scope: Scope, send: Send) -> None:
        status, more = given.status or route.status, _encoded(given.headers)
        if route.answer is None or status == 304:
            await _respond(scope, send, status, [*_ALWAYS, *more], b"")
        else:
            await _respond(scope, send, status, [*_ALWAYS, _JSON, *more], self._encode(given.value))

    async def _stream(
        self,
        route: Route,
        stream: Stream,
        status: int,
        receive: Receive,
        send: Send,
        lost: Callable[[], Awaitable[None]],
    ) -> None:
        """Sends pieces until there are no more, the caller has gone or lost their key, or the server stops. The answer
        begins with the first piece: what goes wrong before it is refused as on other routes. After a later error the
        answer stays without its end, so that the caller notices."""
        try:
            first = await anext(stream.pieces, b"")
            head = [*_ALWAYS, (b"content-type", stream.media.encode()), *_encoded(stream.headers)]
            # Proxies must pass pieces on as they come.
            head.append((b"x-accel-buffering", b"no"))
            await send({"type": "http.response.start", "status": status, "headers": head})
            error = await self._pieces(first, stream, receive, send, lost)
        finally:
            await stream.close()
        if error is None:
            await send({"type": "http.response.body", "body": b""})
        elif not isinstance(error, RotaError) or refusal_of(error) is None:  # the store may be away: no defect
            self._incident(route.method, route.path, error)

    async def _pieces(
        self, first: bytes, stream: Stream, receive: Receive, send: Send, lost: Callable[[], Awaitable[None]]
    ) -> BaseException | None:
        """Returns what went wrong."""
        pump: asyncio.Task[None] = asyncio.create_task(_pump(first, stream, send))
        ends = [asyncio.ensure_future(_gone(receive)), asyncio.ensure_future(lost())]
        self._streams.add(pump)
        try:
            await asyncio.wait({pump, *ends}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (*ends, pump):
                task.cancel()
            self._streams.discard(pump)
            await asyncio.wait({pump, *ends})
        return None if pump.cancelled() else pump.exception()

    async def _lost(self, headers: Mapping[bytes, bytes], address: str) -> None:
        """Returns when the key of the caller has expired or was revoked."""
        while True:
            await asyncio.sleep(KEY_CHECK)
            try:
                await self._keys.grant(headers.get(b"authorization"), address)
            except Refusal:
                return
            except RotaError:  # the store is away: nobody can tell
                continue

    async def _refuse(self, refusal: Refusal, scope: Scope, send: Send) -> None:
        head = [*_ALWAYS, _PROBLEM, *_encoded(refusal.headers)]
        await _respond(scope, send, refusal.status, head, self._encode(refusal.body))

    def _incident(self, method: str, path: str, error: BaseException) -> Refusal:
        incident = self._desk.chance.token()
        self._desk.bus.emit(events.RequestFailed(incident, method, path, trace_of(error)))
        return unexpected(incident)


def _route_for(method: str, methods: Mapping[str, Route]) -> Route | None:
    if method != "HEAD":
        return methods.get(method)
    route = methods.get("GET")
    return route if route is not None and route.media is None else None


def _allowed(methods: Mapping[str, Route]) -> str:
    head = {"HEAD"} if _route_for("HEAD", methods) is not None else set()
    return ", ".join(sorted({*methods, *head, "OPTIONS"}))


def _check_no_body(headers: Mapping[bytes, bytes]) -> None:
    if b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0":
        raise Refusal(400, "invalid_input", "this route takes no body", what="body")


def _not_there(methods: Mapping[str, Route] | None) -> Refusal:
    if methods is None:
        return Refusal(404, "no_such_route", "there is no such route")
    allowed = _allowed(methods)
    return Refusal(405, "method_not_allowed", f"this route takes {allowed}", {"allow": allowed})


async def _respond(scope: Scope, send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    if status not in (204, 304):
        headers.append((b"content-length", b"%d" % len(body)))
    if scope["method"] == "HEAD":
        body = b""
    if (send_whole := scope.get("extensions", {}).get(WHOLE)) is not None:
        await send_whole(status, headers, body)
        return
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _pump(first: bytes, stream: Stream, send: Send) -> None:
    await send({"type": "http.response.body", "body": first, "more_body": True})
    sent = 1
    async for piece in stream.pieces:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
        sent += 1
        if sent % IN_A_ROW == 0:
            # Nothing waits in a stream that always has more, once its caller is gone: others must have their turn.
            await asyncio.sleep(0)


async def _never() -> None:
    await asyncio.Event().wait()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    for name, value in headers.items():
        if not value.isprintable():  # a line break would begin another header
            raise ValueError(f"header {name}: {value!r} can't be sent")
    return [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
