"""Host, Origin and proxies: which requests are meant for this server, and who sent them."""

from __future__ import annotations

from ipaddress import ip_network

import pytest

from rota.api.origins import OriginCheck, headers_of
from rota.api.problems import Refusal

CHECK = OriginCheck(["rota.example.com", "Other.Example."])


def scope(method: str = "GET", client: str = "10.0.0.9", **headers: str) -> dict[str, object]:
    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return {"method": method, "scheme": "http", "client": (client, 1), "headers": pairs}


def refused(given: dict[str, object], check: OriginCheck = CHECK) -> str | None:
    try:
        check.check(given, headers_of(given))
    except Refusal as refusal:
        return refusal.code
    return None


@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:8787", "LOCALHOST", "127.0.0.1:80", "[::1]:8787", "rota.example.com", "other.example."],
)
def test_hosts_of_this_server(host: str) -> None:
    assert refused(scope(host=host)) is None


@pytest.mark.parametrize(
    "host",
    ["", "evil.example", "localhost.evil.example", "rota.example.com.evil", "a@localhost", "localhost:x", "lo calhost"],
)
def test_other_hosts_are_refused_for_every_method(host: str) -> None:
    for method in ("GET", "POST", "DELETE", "OPTIONS"):
        assert refused(scope(method, host=host)) == "wrong_host"


def test_a_header_that_may_come_once_comes_once() -> None:
    twice = scope(host="localhost")
    twice["headers"] = [(b"host", b"localhost"), (b"host", b"evil")]
    with pytest.raises(Refusal, match="more than once"):
        headers_of(twice)
    twice["headers"] = [(b"host", b"localhost"), (b"cookie", b"a"), (b"cookie", b"b")]
    headers_of(twice)


@pytest.mark.parametrize(
    ("headers", "fine"),
    [
        ({}, True),
        ({"origin": "http://localhost:8787"}, True),
        ({"origin": "http://localhost:8787", "sec_fetch_site": "same-origin"}, True),
        ({"sec_fetch_site": "none"}, True),
        ({"origin": "http://localhost:8788"}, False),
        ({"origin": "https://localhost:8787"}, False),
        ({"origin": "http://evil.example"}, False),
        ({"origin": "null"}, False),
        ({"sec_fetch_site": "same-site"}, False),
        ({"sec_fetch_site": "cross-site"}, False),
    ],
)
def test_pages_of_other_sites_may_not_change_anything(headers: dict[str, str], fine: bool) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE", "BREW"):
        assert refused(scope(method, host="localhost:8787", **headers)) == (None if fine else "cross_origin")
    assert refused(scope(host="localhost:8787", **headers)) is None


def test_only_proxies_are_believed() -> None:
    check = OriginCheck([], [ip_network("10.0.0.0/24")])
    told = {"x_forwarded_for": "1.1.1.1, 2.2.2.2, 10.0.0.7", "x_forwarded_proto": "https", "host": "localhost"}
    for client, address, scheme in (
        ("10.0.0.9", "2.2.2.2", "https"),
        ("10.0.1.9", "10.0.1.9", "http"),
        ("::1", "::1", "http"),
    ):
        given = scope(client=client, **told)
        assert check.check(given, headers_of(given)) == (address, scheme)
    given = scope(host="localhost", x_forwarded_for="nonsense, 3.3.3.3")
    assert check.check(given, headers_of(given)).address == "3.3.3.3"
    assert OriginCheck().check(given, headers_of(given)).address == "10.0.0.9"


def test_the_scheme_of_the_proxy_counts_for_origins() -> None:
    check = OriginCheck(["rota.example.com"], [ip_network("10.0.0.0/24")])
    given = {"host": "rota.example.com", "origin": "https://rota.example.com", "x_forwarded_proto": "https"}
    assert refused(scope("POST", **given), check) is None
    assert refused(scope("POST", client="10.9.9.9", **given), check) == "cross_origin"
