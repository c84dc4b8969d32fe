"""Where a request comes from, and whom it is for: Host, Origin, and what a trusted proxy says.

A page in a browser can reach a server on loopback, under a name of its own that it lets point there (DNS rebinding).
So a request must name this server: by a name of the list, or by an address, which no page can choose for itself.
Requests that change something and come from another site's page are refused by Origin and Sec-Fetch-Site.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Any, NamedTuple

from rota.api.problems import Refusal

LOOPBACK_NAMES = frozenset({"localhost"})
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(?::[0-9]{1,5})?")
# Headers that may come once: two values could mean one thing to a proxy and another to us.
_ONCE = (
    b"host", b"authorization", b"content-type", b"content-length", b"content-encoding", b"origin", b"sec-fetch-site",
    b"idempotency-key", b"if-match", b"if-none-match", b"last-event-id", b"rota-version", b"rota-repeat",
)  # fmt: skip
_OWN_SITE = (None, b"same-origin", b"none")


class Origin(NamedTuple):
    address: str  # of the caller; behind a proxy, the one that the proxy saw
    scheme: str


def headers_of(scope: Mapping[str, Any]) -> dict[bytes, bytes]:
    pairs: Sequence[tuple[bytes, bytes]] = scope["headers"]
    headers = dict(pairs)
    if len(headers) != len(pairs):
        names = [name for name, _ in pairs]
        for name in _ONCE:
            if names.count(name) > 1:
                raise Refusal(
                    400, "wrong_header", f"header {name.decode()} is there more than once", what=name.decode()
                )
    return headers


class OriginCheck:
    """`names`: the host names of this server. `proxies`: networks whose X-Forwarded headers are believed."""

    def __init__(self, names: Iterable[str] = (), proxies: Sequence[IPv4Network | IPv6Network] = ()) -> None:
        self._names = LOOPBACK_NAMES | {name.lower().rstrip(".") for name in names}
        self._proxies = tuple(proxies)
        self._is_ours = lru_cache(maxsize=256)(self._ours)  # callers send the same few

    def check(self, scope: Mapping[str, Any], headers: Mapping[bytes, bytes]) -> Origin:
        """Raises a Refusal unless the request is meant for this server."""
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if not self._is_ours(host):
            detail = f"host {host[:100]!r} is not a name of this server; `rota up --hosts` lists names"
            raise Refusal(421, "wrong_host", detail, what="host", given=host[:100])
        origin = self._origin(scope, headers)
        if scope["method"] not in SAFE:
            _check_site(headers, f"{origin.scheme}://{host}")
        return origin

    def _ours(self, host: str) -> bool:
        found = _HOST.fullmatch(host)
        if not found:
            return False
        name = found["name"].rstrip(".")
        return name in self._names or _is_address(name)

    def _origin(self, scope: Mapping[str, Any], headers: Mapping[bytes, bytes]) -> Origin:
        client = scope.get("client")
        address, scheme = (client[0] if client else ""), scope["scheme"]
        if not self._proxies or not self._trusted(address):
            return Origin(address, scheme)
        if headers.get(b"x-forwarded-proto", b"").strip().lower() == b"https":
            scheme = "https"
        hops = headers.get(b"x-forwarded-for", b"").decode("latin-1").split(",")
        # Each proxy adds the address it saw at the end. The first from there that is no proxy is the caller.
        for hop in reversed([hop.strip() for hop in hops if hop.strip()]):
            if not _is_address(hop):
                break
            address = hop
            if not self._trusted(hop):
                break
        return Origin(address, scheme)

    def _trusted(self, address: str) -> bool:
        try:
            found = ip_address(address)
        except ValueError:
            return False
        return any(found in network for network in self._proxies if network.version == found.version)


def _check_site(headers: Mapping[bytes, bytes], own: str) -> None:
    origin = headers.get(b"origin")
    if headers.get(b"sec-fetch-site") not in _OWN_SITE or (
        origin is not None and origin.decode("latin-1").lower() != own
    ):
        raise Refusal(403, "cross_origin", "pages of other sites may not call this server", what="origin")


def _is_address(text: str) -> bool:
    try:
        ip_address(text.strip("[]"))
    except ValueError:
        return False
    return True
