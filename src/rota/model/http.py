"""An HTTP call as a value: its checks, its expected statuses, and the parts that may be shown.

Values of headers are secrets unless their name is known to be harmless. Secrets are kept with the job, because it must
be able to send them; they are never shown, and never sent on to another origin.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from rota.errors import InvalidInput
from rota.model.readers import whole
from rota.model.times import DAY, SECOND, Duration, Instant

DEFAULT_REDIRECTS = 5
MOST_REDIRECTS = 20
LONGEST_URL = 8_000
LONGEST_WAIT: Duration = DAY  # the longest Retry-After
GOOD = ("2xx",)
HIDDEN = "***"
SHORTEST_SECRET = 8  # of a header that is masked where it comes back
PORTS = {"http": 80, "https": 443}
# Headers that are shown with the job, and sent to the target of a redirect.
HARMLESS = frozenset({
    "accept", "accept-charset", "accept-encoding", "accept-language", "cache-control", "content-disposition",
    "content-encoding", "content-language", "content-type", "date", "from", "idempotency-key", "if-match",
    "if-modified-since", "if-none-match", "if-range", "if-unmodified-since", "origin", "pragma", "prefer", "range",
    "traceparent", "tracestate", "user-agent", "x-request-id",
})  # fmt: skip
# Headers that orders can't set: framing of the message, and rota's own.
OURS = frozenset({
    "connection", "content-length", "expect", "host", "keep-alive", "proxy-connection", "te", "trailer",
    "transfer-encoding", "upgrade", "rota-attempt", "rota-fence", "rota-job",
})  # fmt: skip
TRY_AGAIN = (408, 425, 429)
REDIRECTS = (301, 302, 303, 307, 308)
_URL = re.compile(r"(https?)://(\[[^\]]*\]|[^:/?#\[\]]*)(?::([0-9]{1,5}))?([/?][^#]*)?(?:#.*)?", re.IGNORECASE)
_IN_URL = re.compile(r"[!#-;=?-\[\]-~]*")  # visible characters without quotes, backslash, < and >
_HOST = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*", re.ASCII)
_ADDRESS = re.compile(r"\[[0-9a-f:.]{2,45}\]")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_VALUE = re.compile(r"[\t\x20-\x7e]*")
_STATUS = re.compile(r"[2-5](xx|[0-9][0-9])")
_USERINFO = re.compile(r"^([^/?#]*)//[^/?#]*@")
_SECRET_PARAMETER = re.compile(
    r"([?&][^=&#]*(?:token|secret|passw|pwd|key|sig|auth|credential|session)[^=&#]*=)[^&#]*", re.IGNORECASE
)


class HttpSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    method: str
    url: str
    headers: dict[str, str] = {}
    body: str | None = None
    binary: bool = False  # the body stands here in base64
    expect: list[str] = []  # none: 2xx
    redirects: int = DEFAULT_REDIRECTS

    def content(self) -> bytes:
        text = self.body or ""
        return base64.b64decode(text, validate=True) if self.binary else text.encode()


class Target(msgspec.Struct, frozen=True):
    """The target of a URL."""

    scheme: str
    host: str  # a name in lower case, or an address without brackets
    port: int
    path: str

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port

    @property
    def authority(self) -> str:
        """The value of the header Host."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"


def call(
    method: str,
    url: str,
    headers: Mapping[str, str] | None = None,
    body: str | bytes | None = None,
    expect: object = None,
    redirects: Any = DEFAULT_REDIRECTS,
) -> HttpSpec:
    """Builds a valid call, or raises InvalidInput."""
    target(url)
    fields = _headers(headers)
    text, kind = _body(body)
    if kind and not any(name.lower() == "content-type" for name in fields):
        fields["Content-Type"] = kind
    whole(redirects, "redirects", 0, MOST_REDIRECTS)
    chosen = statuses(expect)
    return HttpSpec(
        _method(method), url, fields, text, isinstance(body, bytes), [] if chosen == GOOD else list(chosen), redirects
    )


def check(spec: HttpSpec) -> None:
    """Checks a call from the store, which may have been written by anyone."""
    try:
        body = spec.content() if spec.binary else spec.body
    except ValueError:
        raise InvalidInput("body", HIDDEN, "base64") from None
    call(spec.method, spec.url, spec.headers, body, spec.expect or None, spec.redirects)


def target(url: object) -> Target:
    expected = "a URL such as https://example.com/path"
    if not isinstance(url, str):
        raise InvalidInput("url", url, expected)
    if len(url) > LONGEST_URL:
        raise InvalidInput("url", shown_url(url), f"at most {LONGEST_URL} characters")
    if not _IN_URL.fullmatch(url):
        raise InvalidInput("url", shown_url(url), f"{expected}, with other characters than ASCII's percent-encoded")
    if _USERINFO.match(url):
        raise InvalidInput("url", shown_url(url), "no user and password in it: send them in an Authorization header")
    found = _URL.fullmatch(url)
    if found is None:
        raise InvalidInput("url", shown_url(url), expected)
    scheme, host, path = found[1].lower(), found[2].lower().removesuffix("."), found[4] or "/"
    port = int(found[3] or PORTS[scheme])
    if not (_ADDRESS.fullmatch(host) or (len(host) <= 253 and _HOST.fullmatch(host))):
        raise InvalidInput("url", shown_url(url), f"{expected}: a host name, or an address ([...] if IPv6)")
    if not 1 <= port <= 65_535:
        raise InvalidInput("url", shown_url(url), "a port from 1 to 65535")
    return Target(scheme, host.strip("[]"), port, path if path.startswith("/") else f"/{path}")


def _method(given: object) -> str:
    if not isinstance(given, str) or not _TOKEN.fullmatch(given) or given.upper() in ("CONNECT", "TRACE"):
        raise InvalidInput("method", given, "one such as GET, POST, PUT, PATCH or DELETE")
    return given.upper()


def _headers(given: object) -> dict[str, str]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidInput("headers", f"a {type(given).__name__}", "a mapping of names to texts")
    fields: dict[str, str] = {}
    for name, value in given.items():
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            raise InvalidInput("header", name, "a name of letters, digits and -")
        if name.lower() in OURS:
            raise InvalidInput("header", name, "one that rota does not send by itself")
        if name.lower() in (other.lower() for other in fields):
            raise InvalidInput("header", name, "each header once")
        if not isinstance(value, str) or not _VALUE.fullmatch(value):
            raise InvalidInput(f"header {name}", HIDDEN, "a text of printable ASCII characters, in one line")
        fields[name] = value.strip()
    return fields


def _body(given: object) -> tuple[str | None, str | None]:
    """The body as it is kept, and its content type."""
    if given is None:
        return None, None
    if isinstance(given, bytes):
        return base64.b64encode(given).decode(), "application/octet-stream"
    if not isinstance(given, str):
        raise InvalidInput("body", f"a {type(given).__name__}", "a text or bytes; json= takes other values")
    try:
        given.encode()
    except UnicodeEncodeError:
        raise InvalidInput("body", HIDDEN, "a text in UTF-8") from None
    return given, "text/plain; charset=utf-8"


def statuses(given: object) -> tuple[str, ...]:
    """200, "2xx", "2xx,404" or a list of such."""
    if given is None:
        return GOOD
    several = given.split(",") if isinstance(given, str) else given
    if not isinstance(several, list | tuple | set | frozenset):
        several = [several]
    found = {_status(one, given) for one in several}
    if not found:
        raise InvalidInput("expected statuses", given, "some such as 200 or 2xx")
    return tuple(sorted(found))


def _status(one: object, given: object) -> str:
    text = str(one).strip().lower() if isinstance(one, str | int) and not isinstance(one, bool) else ""
    if not _STATUS.fullmatch(text):
        raise InvalidInput("expected statuses", given, "some such as 200 or 2xx, from 200 to 599")
    return text


def is_expected(spec: HttpSpec, status: int) -> bool:
    return any(one in (str(status), f"{status // 100}xx") for one in spec.expect or GOOD)


def may_be_tried_again(status: int) -> bool:
    return status in TRY_AGAIN or status >= 500


def retry_after(text: str | None, date: str | None, now: Instant) -> Duration | None:
    """The wait that a server asks for: in seconds, or until a date by its own clock if it tells that, else by ours.
    None: it does not ask for any."""
    if text is None:
        return None
    text = text.strip()
    if text.isascii() and text.isdecimal():
        wait = int(text[:10]) * SECOND
    else:
        until, since = _moment(text), _moment(date or "")
        if until is None:
            return None
        wait = until - (now if since is None else since)
    return min(wait, LONGEST_WAIT) if wait > 0 else None


def _moment(text: str) -> Instant | None:
    from email.utils import parsedate_to_datetime  # rarely needed, and slow to load

    try:
        return int(parsedate_to_datetime(text).timestamp()) * SECOND
    except (ValueError, TypeError, IndexError, OverflowError, OSError):
        return None


def is_secret(header: str) -> bool:
    return header.lower() not in HARMLESS


def secrets_in(headers: Mapping[str, str]) -> list[str]:
    """The secret values of headers, and those behind a scheme: `Bearer ...`. Short ones may be plain words, which would
    be masked everywhere."""
    hidden = [value for name, value in headers.items() if is_secret(name)]
    parts = (part for value in hidden for part in (value, value.partition(" ")[2]))
    return [part for part in parts if len(part) >= SHORTEST_SECRET]


def shown_url(url: str) -> str:
    return _SECRET_PARAMETER.sub(rf"\1{HIDDEN}", _USERINFO.sub(rf"\1//{HIDDEN}@", url))


def shown(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A specification without secrets. It may have been written by anyone."""
    clear = dict(spec)
    if isinstance(clear.get("url"), str):
        clear["url"] = shown_url(clear["url"])
    headers = clear.get("headers")
    if isinstance(headers, Mapping):
        clear["headers"] = {name: HIDDEN if is_secret(name) else value for name, value in headers.items()}
    elif headers is not None:
        clear["headers"] = HIDDEN
    return clear


def sent_elsewhere(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The headers that are sent when a redirect leads to another origin."""
    return [(name, value) for name, value in headers if not is_secret(name)]
