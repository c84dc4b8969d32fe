"""Makes HTTP calls, on the node's own loop. The status decides the outcome: an expected status is a success; 408, 425,
429, 5xx and connection errors are retried, at the time the server names if it names one; all others fail for good."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Sequence
from contextlib import suppress
from urllib.parse import urljoin

import msgspec

from rota import __version__
from rota.clock import SystemClock
from rota.config import Settings
from rota.errors import InvalidInput
from rota.model import http
from rota.model.addresses import AddressRules, rules
from rota.model.http import HttpSpec, Target
from rota.model.job import Claimed
from rota.model.outcome import Cancelled, Failed, Outcome, Problem, Snoozed, Succeeded, TimedOut
from rota.model.times import SECOND, Duration, Instant, short
from rota.tasks.encoding import to_json
from rota.work.attempt import Attempt, Stop
from rota.work.executors.http_connection import (
    AddressDenied,
    BadResponse,
    Dialer,
    Exchange,
    Head,
    Resolve,
    Scarce,
    Unreachable,
)

TOLD = ("content-type", "etag", "location")  # response headers that are part of the result
# Decoders of other character sets are slow, and this is the node's own loop.
CHARSETS = ("utf-8", "us-ascii", "iso-8859-1", "windows-1252")
_spec = msgspec.json.Decoder(HttpSpec)


class Refused(Exception):
    """A redirect that is not followed."""


class TooLong(Exception):
    pass


class HttpExecutor:
    def __init__(
        self,
        dialer: Dialer,
        limit: Duration,
        max_body: int,
        max_result: int,
        now: Callable[[], Instant] | None = None,
    ) -> None:
        self._dialer, self._limit = dialer, limit
        self._max_body, self._max_result = max_body, max_result
        self._now = now or SystemClock().now

    @classmethod
    def of(cls, settings: Settings, resolve: Resolve | None = None) -> HttpExecutor:
        chosen = AddressRules(rules("http_allow", settings.http_allow), rules("http_deny", settings.http_deny))
        return cls(Dialer(chosen, resolve), settings.http_timeout, settings.http_max_body, settings.max_result)

    async def execute(self, attempt: Attempt) -> Outcome:
        spec = _read(attempt.claimed)
        _conceal(attempt, spec)
        call = asyncio.ensure_future(self._within_time(attempt, spec))

        def stop(_: Stop) -> None:
            call.cancel()

        attempt.on_stop(stop)
        try:
            return await call
        except asyncio.CancelledError:
            if attempt.stopped is None:
                raise  # the node's own loop is being torn down
            return Cancelled(attempt.stopped)

    async def _within_time(self, attempt: Attempt, spec: HttpSpec) -> Outcome:
        """Applies the default timeout, unless the job has its own."""
        limit = self._limit if attempt.claimed.timeout is None else None
        try:
            async with asyncio.timeout(None if limit is None else limit / SECOND):
                return await self._judged(attempt, spec)
        except TimeoutError:
            text = f"timed out after {short(limit or 0)}, as http_timeout says for jobs without a timeout"
            return TimedOut(Problem("rota.Timeout", text))

    async def _judged(self, attempt: Attempt, spec: HttpSpec) -> Outcome:
        try:
            return await self._call(attempt, spec)
        except AddressDenied as error:
            return _failed("AddressDenied", str(error), fatal=True)
        except Refused as error:
            return _failed("RedirectRefused", str(error), fatal=True)
        except TooLong as error:
            return _failed("ResponseTooLarge", str(error), fatal=True)
        except Unreachable as error:
            return _failed("Unreachable", str(error))
        except BadResponse as error:
            return _failed("BadResponse", f"{http.target(spec.url).authority}: {error}")
        except Scarce as error:  # not the job's fault: it comes back later, uncounted
            return Snoozed(SECOND, f"the node is short of something: {error}")

    async def _call(self, attempt: Attempt, spec: HttpSpec) -> Outcome:
        """Follows redirects; each address is checked like the first."""
        request = _first(spec, attempt.claimed)
        for left in range(spec.redirects, -1, -1):
            async with self._dialer.dial(request.target) as exchange:
                exchange.send(request.method, request.target, request.headers, request.body)
                head = await exchange.head()
                if not _leads_on(spec, head):
                    return await self._end(attempt, spec, request, head, exchange)
            request = _redirected(request, head)
            if left:
                line = f"{head.status}: on to {request.method} {http.shown_url(request.url)}\n"
                attempt.output.write("log", line.encode())
        raise Refused(f"{http.shown_url(spec.url)}: more than {spec.redirects} redirects")

    async def _end(
        self, attempt: Attempt, spec: HttpSpec, request: HttpRequest, head: Head, exchange: Exchange
    ) -> Outcome:
        good = http.is_expected(spec, head.status)
        body, whole = await self._receive(attempt, exchange, head, lenient=not good)
        if not good:
            return self._unexpected(request, head)
        kept = body if whole else None
        return Succeeded(_result(request, head, kept, self._max_result, redirected=request.url != spec.url))

    async def _receive(self, attempt: Attempt, exchange: Exchange, head: Head, lenient: bool) -> tuple[bytes, bool]:
        """The body, up to the limit of results, and whether it is complete. The whole body goes to the attempt's
        output. `lenient`: a body that is too long or ends too soon is no error, because the status decides."""
        kept, size = bytearray(), 0
        try:
            async for part in exchange.body():
                size += len(part)
                room = self._max_body - (size - len(part))
                attempt.output.write("stdout", part[:room])
                if size <= self._max_result:
                    kept += part
                if size > self._max_body:
                    raise TooLong(f"its answer ({head.status}) has more than {self._max_body} bytes, see http_max_body")
        except (TooLong, BadResponse):
            if not lenient:
                raise
        return bytes(kept), size == len(kept)

    def _unexpected(self, request: HttpRequest, head: Head) -> Outcome:
        text = f"status {head.status} from {request.method} {http.shown_url(request.url)}"
        if not http.may_be_tried_again(head.status):
            return _failed("HttpStatus", text, fatal=True)
        wait = http.retry_after(head.headers.get("retry-after"), head.headers.get("date"), self._now())
        if wait is not None:
            text += f"; it asks to wait for {short(wait)}"
        return _failed("HttpStatus", text, retry_in=wait)


class HttpRequest(msgspec.Struct, frozen=True):
    """One request to one server."""

    method: str
    url: str
    target: Target
    headers: list[tuple[str, str]]
    body: bytes


def _conceal(attempt: Attempt, spec: HttpSpec) -> None:
    """Headers are secrets by default: a server may send them back."""
    if values := http.secrets_in(spec.headers):
        attempt.conceal(values)
    if attempt.secrets:
        with suppress(msgspec.MsgspecError, RecursionError, ValueError):
            body = msgspec.json.decode(spec.content() or b"null")
            attempt.conceal_named(spec.headers, body if isinstance(body, dict) else {})


def _read(claimed: Claimed) -> HttpSpec:
    """Errors don't quote the text: it may contain secrets."""
    try:
        spec = _spec.decode(claimed.spec)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidInput("specification", http.HIDDEN, f"that of an HTTP call ({error})") from None
    http.check(spec)
    return spec


def _first(spec: HttpSpec, claimed: Claimed) -> HttpRequest:
    given = {name.lower() for name in spec.headers}
    usual = {
        "User-Agent": f"rota/{__version__}",
        "Accept": "*/*",
        "Accept-Encoding": "identity",  # nothing is unpacked here
        "Idempotency-Key": claimed.job_id,
    }
    headers = [
        *spec.headers.items(),
        *((name, value) for name, value in usual.items() if name.lower() not in given),
        ("Rota-Job", claimed.job_id),
        ("Rota-Attempt", str(claimed.number)),
        ("Rota-Fence", str(claimed.fence)),
    ]
    return HttpRequest(spec.method, spec.url, http.target(spec.url), headers, spec.content())


def _leads_on(spec: HttpSpec, head: Head) -> bool:
    follows = spec.redirects > 0 and not http.is_expected(spec, head.status)
    return follows and head.status in http.REDIRECTS and bool(head.headers.get("location"))


def _redirected(request: HttpRequest, head: Head) -> HttpRequest:
    try:
        url = urljoin(request.url, head.headers["location"])
        target = http.target(url)
    except ValueError:  # InvalidInput is one
        raise Refused(f"{http.shown_url(request.url)} redirects to what is no URL") from None
    if (request.target.scheme, target.scheme) == ("https", "http"):
        raise Refused(f"{http.shown_url(request.url)} redirects to {http.shown_url(url)}, which is not encrypted")
    method, headers, body = request.method, request.headers, request.body
    if head.status in (301, 302, 303) and method != "HEAD":
        method, body = "GET", b""
        headers = [(name, value) for name, value in headers if not name.lower().startswith("content-")]
    if target.origin != request.target.origin:
        headers = _for_strangers(headers)
    return HttpRequest(method, url, target, headers, body)


def _for_strangers(headers: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    ours = [pair for pair in headers if pair[0].lower() in http.OURS]
    return [*http.sent_elsewhere(pair for pair in headers if pair not in ours), *ours]


def _failed(kind: str, text: str, *, fatal: bool = False, retry_in: Duration | None = None) -> Failed:
    return Failed(Problem(f"rota.{kind}", text), (f"rota.{kind}",), fatal, retry_in)


# -- the result -------------------------------------------------------------------------------------------------------
def _result(request: HttpRequest, head: Head, body: bytes | None, limit: int, redirected: bool) -> str:
    """The response as a result, cut to the limit of results."""
    about: dict[str, object] = {"status": head.status}
    headers = {name: head.headers[name] for name in TOLD if name in head.headers}
    longer = about | ({"url": http.shown_url(request.url)} if redirected else {}) | {"headers": headers}
    wholes = [] if body is None else [longer | content for content in _contents(head, body)]
    for one in (*wholes, longer | {"cut": True}, about | {"cut": True}):
        with suppress(InvalidInput, RecursionError):
            return to_json(one, limit, "result")
    return "null"


def _contents(head: Head, body: bytes) -> list[dict[str, object]]:
    """The possible forms of the body, best first: JSON, text, base64."""
    kind, _, parameters = head.headers.get("content-type", "").lower().partition(";")
    found: list[dict[str, object]] = []
    if head.headers.get("content-encoding", "identity").lower() == "identity":
        if kind.strip() == "application/json" or kind.strip().endswith("+json"):
            with suppress(msgspec.MsgspecError, ValueError, RecursionError):  # the content type may be wrong
                found.append({"body": msgspec.json.decode(body)})
        with suppress(UnicodeDecodeError):
            found.append({"body": body.decode(_charset(parameters))})
    return [*found, {"base64": base64.b64encode(body).decode()}]


def _charset(parameters: str) -> str:
    for parameter in parameters.split(";"):
        name, _, value = parameter.strip().partition("=")
        if name == "charset" and value.strip('"') in CHARSETS:
            return value.strip('"')
    return "utf-8"
