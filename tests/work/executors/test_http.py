"""HTTP calls against a real server on a loopback port: what it hears, and what becomes of its answers."""

from __future__ import annotations

import gzip
import json
import ssl
from typing import Any

import msgspec
import pytest
import trustme

from rota import __version__
from rota.model.job import Spec
from rota.model.outcome import Succeeded
from rota.model.times import SECOND
from tests.servers.ports import free_port
from tests.servers.web import Web, raw, reply, web
from tests.work.executors.calling import (
    JOB,
    attempt_at,
    call,
    executor,
    failure,
    output,
    perform,
    resolving,
    result,
)


# -- what is sent ------------------------------------------------------------------------------------------------------
async def test_what_a_server_hears(server: Web) -> None:
    url = server.on("/hook", reply(201, '{"id": 5}', content_type="application/json", etag='"e"', set_cookie="a=b"))
    spec = Spec.http("post", url + "?a=1", {"Authorization": "Bearer s3cret"}, "grüße")
    outcome = await perform(attempt_at(spec.body))
    (asked,) = server.asked
    assert (asked.method, asked.path, asked.body) == ("POST", "/hook?a=1", "grüße".encode())
    assert asked.headers == {
        "host": f"127.0.0.1:{server.port}", "connection": "close", "authorization": "Bearer s3cret",
        "content-type": "text/plain; charset=utf-8", "content-length": "7", "user-agent": f"rota/{__version__}",
        "accept": "*/*", "accept-encoding": "identity", "idempotency-key": JOB, "rota-job": JOB, "rota-attempt": "3",
        "rota-fence": "7",
    }  # fmt: skip
    assert isinstance(outcome, Succeeded)
    assert json.loads(outcome.result) == {
        "status": 201, "headers": {"content-type": "application/json", "etag": '"e"'}, "body": {"id": 5},
    }  # fmt: skip


async def test_an_order_may_name_what_is_usual(server: Web) -> None:
    url = server.on("/", reply())
    await result("GET", url, headers={"user-agent": "me", "idempotency-key": "k", "ACCEPT": "a/b"})
    headers = server.asked[0].headers
    assert (headers["user-agent"], headers["idempotency-key"], headers["accept"]) == ("me", "k", "a/b")
    assert "content-length" not in headers


async def test_binary_bodies_and_a_head(server: Web) -> None:
    url = server.on("/", raw(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n"))
    assert (await result("HEAD", url))["body"] == ""
    url = server.on("/up", reply())
    await result("PUT", url, body=bytes(range(256)) * 4_000)
    assert server.asked[1].body == bytes(range(256)) * 4_000


async def test_proxies_of_the_environment_are_not_asked(server: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    assert (await result("GET", server.on("/", reply())))["status"] == 200


async def test_cookies_are_not_kept(server: Web) -> None:
    url, made = server.on("/", reply(200, set_cookie="a=b")), executor()
    for _ in range(2):
        await result("GET", url, made)
    assert all("cookie" not in asked.headers for asked in server.asked)


# -- what comes of the answer ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("body", "kind", "expected"),
    [
        (b'[1, "a"]', "application/json", {"body": [1, "a"]}),
        (b'{"a": null}', "application/problem+json; charset=utf-8", {"body": {"a": None}}),
        (b"{oops", "application/json", {"body": "{oops"}),
        (b"1" * 400, "application/json", {"body": int("1" * 400)}),
        (b"1" * 5_000, "application/json", {"body": "1" * 5_000}),
        (b"[" * 5_000, "application/json", {"body": "[" * 5_000}),
        ("grüße".encode(), "text/plain", {"body": "grüße"}),
        ("grüße".encode("latin-1"), 'text/plain; charset="ISO-8859-1"', {"body": "grüße"}),
        ("grüße".encode("latin-1"), "text/plain", {"base64": "Z3L832U="}),
        (b"xn--", "text/plain; charset=punycode", {"body": "xn--"}),
        (b"\0\xff", "image/png", {"base64": "AP8="}),
        (b"", "text/plain", {"body": ""}),
    ],
)
async def test_bodies(server: Web, body: bytes, kind: str, expected: dict[str, Any]) -> None:
    attempt = attempt_at(Spec.http("GET", server.on("/", reply(200, body, content_type=kind))).body)
    outcome = await perform(attempt)
    assert isinstance(outcome, Succeeded)
    assert json.loads(outcome.result) == {"status": 200, "headers": {"content-type": kind}, **expected}
    assert output(attempt) == body


async def test_a_body_beyond_what_a_result_may_have_is_left_out_and_in_the_output(server: Web) -> None:
    attempt = attempt_at(Spec.http("GET", server.on("/", reply(200, b"x" * 5_000))).body)
    outcome = await perform(attempt, executor(max_result=2_000))
    assert outcome == Succeeded('{"status":200,"headers":{},"cut":true}')
    assert output(attempt) == b"x" * 5_000
    url = server.on("/", reply(200, b"x" * 90))
    assert await call("GET", url, executor(max_result=100)) == Succeeded('{"status":200,"headers":{},"cut":true}')
    assert await call("GET", url, executor(max_result=30)) == Succeeded('{"status":200,"cut":true}')
    assert await call("GET", url, executor(max_result=5)) == Succeeded("null")


async def test_chunks_and_bodies_that_end_with_the_connection(server: Web) -> None:
    server.on("/chunks", raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"))
    server.on("/old", raw(b"HTTP/1.0 200 OK\r\n\r\nabcde"))
    server.on("/first", raw(b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde"))
    for path in ("/chunks", "/old", "/first"):
        assert (await result("GET", server.url + path))["body"] == "abcde"


async def test_packed_answers_are_never_unpacked(server: Web) -> None:
    bomb = gzip.compress(b"\0" * 50_000_000)
    attempt = attempt_at(
        Spec.http(
            "GET", server.on("/", reply(200, bomb, content_encoding="gzip", content_type="application/json"))
        ).body
    )
    outcome = await perform(attempt)
    assert isinstance(outcome, Succeeded)
    assert len(outcome.result) < 2 * len(bomb)
    assert output(attempt) == bomb


@pytest.mark.parametrize(
    ("status", "fatal"),
    [
        (304, True), (302, True), (400, True), (401, True), (404, True), (410, True), (422, True), (408, False),
        (425, False), (429, False), (500, False), (501, False), (502, False), (503, False), (599, False),
    ],
)  # fmt: skip
async def test_unexpected_statuses(server: Web, status: int, fatal: bool) -> None:
    failed = await failure("GET", server.on("/x", reply(status)) + "?token=s3cret")
    assert (failed.fatal, failed.problem.type, failed.retry_in) == (fatal, "rota.HttpStatus", None)
    assert failed.problem.message == f"status {status} from GET {server.url}/x?token=***"


async def test_what_is_expected_is_success(server: Web) -> None:
    server.on("/gone", reply(404))
    server.on("/move", reply(302, location="/elsewhere"))
    assert (await result("GET", server.url + "/gone", expect="2xx,404"))["status"] == 404
    found = await result("GET", server.url + "/move", expect="3xx")
    assert (found["status"], found["headers"]) == (302, {"location": "/elsewhere"})
    assert (await failure("GET", server.on("/", reply(200)), expect=201)).fatal


async def test_retry_after(server: Web) -> None:
    failed = await failure("GET", server.on("/", reply(503, retry_after="120")))
    assert (failed.retry_in, failed.fatal) == (120 * SECOND, False)
    assert "it asks to wait for 2m" in failed.problem.message
    dates = {"retry_after": "Fri, 15 Jan 2027 08:00:30 GMT", "date": "Fri, 15 Jan 2027 08:00:00 GMT"}
    assert (await failure("GET", server.on("/", reply(429, **dates)))).retry_in == 30 * SECOND
    assert (await failure("GET", server.on("/", reply(404, retry_after="120")))).retry_in is None


# -- redirects ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("status", "method", "then"),
    [
        (301, "POST", "GET"), (302, "POST", "GET"), (303, "PUT", "GET"), (302, "HEAD", "HEAD"), (303, "GET", "GET"),
        (307, "POST", "POST"), (308, "PUT", "PUT"),
    ],
)  # fmt: skip
async def test_redirects_are_followed(server: Web, status: int, method: str, then: str) -> None:
    server.on("/b/there", reply(200, content_type="text/plain"))
    url = server.on("/a", reply(status, location="b/there?x=1"))
    attempt = attempt_at(Spec.http(method, url, {"Authorization": "s3cret"}, "hello").body)
    outcome = await perform(attempt)
    assert isinstance(outcome, Succeeded), outcome
    second = server.asked[1]
    kept = status in (307, 308) or method == "HEAD"
    assert (second.method, second.path) == (then, "/b/there?x=1")
    assert (second.body, "content-type" in second.headers) == ((b"hello", True) if kept else (b"", False))
    assert (second.headers["authorization"], second.headers["rota-fence"]) == ("s3cret", "7")
    assert json.loads(outcome.result)["url"] == f"{server.url}/b/there?x=1"
    assert output(attempt, "log").decode() == f"{status}: on to {then} {server.url}/b/there?x=1\n"


async def test_secrets_stay_with_their_origin(server: Web) -> None:
    with web() as other:
        server.on("/a", reply(307, location=other.on("/b", reply(307, location=server.url + "/c"))))
        server.on("/c", reply())
        headers = {"Authorization": "s", "Cookie": "s", "X-Api-Key": "s", "Accept": "a/b"}
        await result("POST", server.url + "/a", headers=headers, body="x")
        (elsewhere,) = other.asked
    assert not {"authorization", "cookie", "x-api-key"} & elsewhere.headers.keys()
    assert (elsewhere.headers["accept"], elsewhere.headers["rota-job"], elsewhere.body) == ("a/b", JOB, b"x")
    assert "authorization" not in server.asked[1].headers  # what was left behind does not come back


async def test_redirects_have_an_end(server: Web) -> None:
    url = server.on("/loop", reply(302, location="/loop"))
    failed = await failure("GET", url)
    assert (failed.fatal, failed.problem.type) == (True, "rota.RedirectRefused")
    assert failed.problem.message == f"{url}: more than 5 redirects"
    assert len(server.asked) == 6
    assert "more than 1 redirects" in (await failure("GET", url, redirects=1)).problem.message
    assert (await failure("GET", url, redirects=0)).problem.type == "rota.HttpStatus"
    assert len(server.asked) == 6 + 2 + 1


@pytest.mark.parametrize(
    "location",
    [
        "http://169.254.169.254/latest/meta-data/", "http://[fd00:ec2::254]/", "http://[::ffff:169.254.169.254]/",
        "http://2852039166/", "http://0xa9fea9fe/", "http://0251.0376.0251.0376/", "//169.254.43518/",
        "http://127.0.0.2/", "http://[::1]/", "http://0/",
    ],
)  # fmt: skip
async def test_redirects_to_where_calls_must_not_go(server: Web, location: str) -> None:
    failed = await failure("GET", server.on("/", reply(302, location=location)))
    assert (failed.fatal, failed.problem.type) == (True, "rota.AddressDenied")
    assert "denied unless http_allow has them" in failed.problem.message


@pytest.mark.parametrize(
    "location", ["file:///etc/passwd", "ftp://a/", "http://u:s3cret@a/", "http://a b/", "http://[", "http://a:b/"]
)
async def test_redirects_to_what_is_no_url(server: Web, location: str) -> None:
    failed = await failure("GET", server.on("/", reply(302, location=location)))
    assert (failed.fatal, failed.problem.type) == (True, "rota.RedirectRefused")
    assert "s3cret" not in failed.problem.message


# -- TLS ---------------------------------------------------------------------------------------------------------------
@pytest.fixture
def authority(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> trustme.CA:
    """One that this machine trusts."""
    made = trustme.CA()
    path = tmp_path / "ca.pem"
    made.cert_pem.write_to_path(path)
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    return made


def certified(by: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    by.issue_cert(*names).configure_cert(context)
    return context


async def test_https(authority: trustme.CA) -> None:
    with web(certified(authority, "127.0.0.1", "a.example")) as secure:
        secure.on("/", reply(200, "safe"))
        assert (await result("GET", secure.url))["body"] == "safe"
        made = executor(resolving(["127.0.0.1"]))
        assert (await result("GET", secure.at("a.example"), made))["body"] == "safe"
        failed = await failure("GET", secure.at("b.example"), made)
    assert (failed.fatal, failed.problem.type) == (False, "rota.Unreachable")
    assert "its certificate is not to be trusted" in failed.problem.message


async def test_strangers_certificates_are_not_trusted(authority: trustme.CA) -> None:
    with web(certified(trustme.CA(), "127.0.0.1")) as secure:
        secure.on("/", reply())
        failed = await failure("POST", secure.url, headers={"Authorization": "s3cret"}, body="secret")
        assert secure.asked == []
    assert "its certificate is not to be trusted" in failed.problem.message


async def test_from_https_no_redirect_leads_to_http(authority: trustme.CA, server: Web) -> None:
    with web(certified(authority, "127.0.0.1")) as secure:
        failed = await failure("GET", secure.on("/", reply(302, location=server.url + "/?key=s3cret")))
        assert (failed.fatal, failed.problem.type) == (True, "rota.RedirectRefused")
        assert failed.problem.message == f"{secure.url}/ redirects to {server.url}/?key=***, which is not encrypted"
        assert server.asked == []
        server.on("/up", reply(302, location=secure.on("/safe", reply(200, "safe"))))
        assert (await result("GET", server.url + "/up"))["body"] == "safe"


async def test_http_to_a_port_that_speaks_tls(authority: trustme.CA) -> None:
    with web(certified(authority, "127.0.0.1")) as secure:
        assert (await failure("GET", f"http://127.0.0.1:{secure.port}/")).problem.type == "rota.BadResponse"


async def test_https_to_a_port_that_does_not(server: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.work.executors.http_connection.CONNECT", 0.5)
    failed = await failure("GET", f"https://127.0.0.1:{server.port}/")
    assert (failed.fatal, failed.problem.type) == (False, "rota.Unreachable")


def test_a_specification_is_small() -> None:
    assert msgspec.json.decode(Spec.http("GET", "http://a/").body) == {"method": "GET", "url": "http://a/"}
