"""Requests as bytes: shapes that a proxy and a server may read in different ways, and values that no client sends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from rota.telemetry.events import ApiServing
from tests.api.caller import secret
from tests.api.serving import LIVE, Serving, answer_of, serving
from tests.contracts.world import World

KEY = f"authorization: Bearer {secret('admin')}\r\n".encode()
HOST = b"host: localhost\r\n"
HEAD = HOST + KEY
JSON = b"content-type: application/json\r\n"
ORDER = b'{"command": ["true"]}'
CHUNKED = b"transfer-encoding: chunked\r\n"
BROKEN = (400, "broken_request")
INVALID = (400, "invalid_input")


def get(path: bytes, more: bytes = b"", version: bytes = b"1.1") -> bytes:
    return b"GET " + path + b" HTTP/" + version + b"\r\n" + HEAD + more + b"\r\n"


def post(body: bytes, more: bytes = b"", path: bytes = b"/api/v1/jobs") -> bytes:
    length = b"content-length: %d\r\n" % len(body)
    return b"POST " + path + b" HTTP/1.1\r\n" + HEAD + JSON + length + more + b"\r\n" + body


def framed(more: bytes, body: bytes, version: bytes = b"1.1") -> bytes:
    """A POST whose framing is given by hand."""
    return b"POST /api/v1/jobs HTTP/" + version + b"\r\n" + HEAD + JSON + more + b"\r\n" + body


@pytest.fixture
async def served(world: World) -> AsyncIterator[Serving]:
    async with serving(world) as made:
        yield made
        assert [type(event) for event in made.told] == [ApiServing]  # no defect was found


async def answered(served: Serving, sent: bytes) -> tuple[int, str]:
    """The status and the code of the problem."""
    async with asyncio.timeout(10):
        answer = await served.ask(sent)
    assert b"content-type: application/problem+json\r\n" in answer
    code = answer.partition(b'"code":"')[2].partition(b'"')[0]
    return int(answer[9:12]), code.decode()


TWO_READINGS = {
    "two lengths": framed(b"content-length: 2\r\ncontent-length: 3\r\n", b"{} "),
    "the same length twice": framed(b"content-length: 2\r\ncontent-length: 2\r\n", b"{}"),
    "a list of lengths": framed(b"content-length: 2, 2\r\n", b"{}"),
    "a length with a sign": framed(b"content-length: +2\r\n", b"{}"),
    "a negative length": framed(b"content-length: -1\r\n", b"{}"),
    "a length in hexadecimal": framed(b"content-length: 0x2\r\n", b"{}"),
    "a length that is empty": framed(b"content-length:\r\n", b""),
    "a length beyond 64 bits": framed(b"content-length: " + b"9" * 26 + b"\r\n", b"{}"),
    "a length and chunks": framed(b"content-length: 5\r\n" + CHUNKED, b"0\r\n\r\n"),
    "chunks and a length": framed(CHUNKED + b"content-length: 5\r\n", b"0\r\n\r\n"),
    "an unknown coding": framed(b"transfer-encoding: xchunked\r\n", b"2\r\n{}\r\n0\r\n\r\n"),
    "a coding below the chunks": framed(b"transfer-encoding: gzip, chunked\r\n", b"2\r\n{}\r\n0\r\n\r\n"),
    "a coding above the chunks": framed(b"transfer-encoding: chunked, identity\r\n", b"2\r\n{}\r\n0\r\n\r\n"),
    "two codings": framed(CHUNKED + CHUNKED, b"2\r\n{}\r\n0\r\n\r\n"),
    "a coding behind a control character": framed(b"transfer-encoding: \x0bchunked\r\n", b"0\r\n\r\n"),
    "chunks in HTTP/1.0": framed(CHUNKED, b"2\r\n{}\r\n0\r\n\r\n", b"1.0"),
    "chunks with bare line feeds": framed(CHUNKED, b"2\n{}\n0\n\n"),
    "a chunk longer than it says": framed(CHUNKED, b"2\r\n{}xx0\r\n\r\n"),
    "a chunk with a sign": framed(CHUNKED, b"-2\r\n{}\r\n0\r\n\r\n"),
    "a chunk beyond 64 bits": framed(CHUNKED, b"ffffffffffffffff1\r\n{}\r\n0\r\n\r\n"),
    "bare line feeds": b"GET /health/live HTTP/1.1\nhost: localhost\n\n",
    "a bare carriage return": b"GET /health/live HTTP/1.1\r\nhost: localhost\rx: y\r\n\r\n",
    "a folded header": get(b"/health/live", b"x-a: b\r\n c\r\n"),
    "a folded coding": framed(b"transfer-encoding:\r\n chunked\r\n", b"0\r\n\r\n"),
    "a blank before the colon": get(b"/health/live", b"content-length : 0\r\n"),
    "a header that begins with a blank": b"GET /health/live HTTP/1.1\r\n host: localhost\r\n\r\n",
    "the whole address": b"GET http://localhost/health/live HTTP/1.1\r\n" + HOST + b"\r\n",
    "a host and port": b"CONNECT localhost:80 HTTP/1.1\r\n" + HOST + b"\r\n",
    "a fragment": get(b"/health/live#x"),
    "a query without a path": get(b"?a=b"),
    "no path": b"GET  HTTP/1.1\r\n" + HOST + b"\r\n",
    "a blank in the path": get(b"/health/live /x"),
    "HTTP/2.0": get(b"/health/live", version=b"2.0"),
    "HTTP/1.2": get(b"/health/live", version=b"1.2"),
    "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a method in small letters": b"get /health/live HTTP/1.1\r\n" + HOST + b"\r\n",
    "a method that nobody knows": b"FOO /health/live HTTP/1.1\r\n" + HOST + b"\r\n",
    "NUL in the path": get(b"/health/live\0"),
    "NUL in a header": get(b"/health/live", b"x-a: a\0b\r\n"),
    "a control character in a header": get(b"/health/live", b"if-match: \x01\r\n"),
    "raw bytes in the query": get(b"/api/v1/jobs?queue=\xff"),
}


async def test_what_can_be_read_in_two_ways_is_refused_and_the_connection_closed(served: Serving) -> None:
    for what, sent in TWO_READINGS.items():
        reader, writer = await served.open(sent + LIVE)
        async with asyncio.timeout(10):
            answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 400 "), what
        assert answer.count(b"HTTP/1.1 ") == 1, what  # what follows is never taken for a request
        assert b'"code":"broken_request"' in answer, what
        writer.close()


OTHERS: dict[str, tuple[bytes, tuple[int, str]]] = {
    "a length of 64 bits": (framed(b"content-length: 9223372036854775808\r\n", b"{}"), (413, "too_large")),
    "no host": (b"GET /health/live HTTP/1.1\r\n\r\n", (421, "wrong_host")),
    "two hosts": (get(b"/health/live", HOST), (400, "wrong_header")),
    "two keys": (get(b"/api/v1/me", KEY), (400, "wrong_header")),
    "two types": (post(ORDER, b"content-type: text/plain\r\n"), (400, "wrong_header")),
    "two idempotency keys": (post(ORDER, b"idempotency-key: a\r\nidempotency-key: b\r\n"), (400, "wrong_header")),
    "bytes in the key": (
        b"GET /api/v1/me HTTP/1.1\r\n" + HOST + b"authorization: Bearer \xff\r\n\r\n",
        (401, "wrong_key"),
    ),
    "bytes in the host": (b"GET /health/live HTTP/1.1\r\nhost: \xff\r\n\r\n", (421, "wrong_host")),
    "a method of other servers": (
        b"PROPFIND /api/v1/me HTTP/1.1\r\n" + HEAD + b"\r\n",
        (405, "method_not_allowed"),
    ),
    "TRACE": (b"TRACE /api/v1/me HTTP/1.1\r\n" + HEAD + b"\r\n", (405, "method_not_allowed")),
    "a compressed body": (post(ORDER, b"content-encoding: gzip\r\n"), (415, "wrong_media_type")),
    "NaN": (post(b'{"command": ["true"], "priority": NaN}'), INVALID),
    "a number beyond floats": (post(b'{"command": ["true"], "priority": 1e999}'), INVALID),
    "an argument beyond floats": (post(b'{"task": "x", "args": {"a": -1e999}}'), INVALID),
    "a number beyond 64 bits": (post(b'{"command": ["true"], "priority": 18446744073709551616}'), INVALID),
    "a number of 5,000 digits": (post(b'{"task": "x", "args": {"a": 1' + b"0" * 5000 + b"}}"), INVALID),
    "no UTF-8": (post(b'{"command": ["\xff"]}'), INVALID),
    "no UTF-8 in a name": (post(b'{"\xff": 1}'), INVALID),
    "UTF-8 in a longer form": (post(b'{"command": ["\xc0\xaf"]}'), INVALID),
    "half a surrogate pair": (post(b'{"command": ["\\ud800"]}'), INVALID),
    "NUL in a text": (post(b'{"command": ["a\\u0000b"]}'), INVALID),
    "NUL in JSON": (post(b'{"command": ["a\0b"]}'), INVALID),
    "a byte order mark": (post(b"\xef\xbb\xbf" + ORDER), INVALID),
    "UTF-16": (post(ORDER.decode().encode("utf-16")), INVALID),
    "deep arrays": (post(b'{"args": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"), INVALID),
    "deep arrays without an end": (post(b"[" * 100_000), INVALID),
    "two values": (post(ORDER * 2), INVALID),
    "12,000 parameters": (get(b"/api/v1/jobs?" + b"a=1&" * 12_000), INVALID),
    "100,000 parameters": (get(b"/api/v1/jobs?" + b"a=1&" * 100_000), (431, "head_too_large")),
    "NUL in the query": (get(b"/api/v1/jobs?queue=%00"), INVALID),
    "no UTF-8 in the query": (get(b"/api/v1/jobs?queue=%ff"), INVALID),
    "a surrogate in the query": (get(b"/api/v1/jobs?queue=%ed%a0%80"), INVALID),
    "a percent sign that means nothing": (get(b"/api/v1/jobs?queue=%zz"), INVALID),
    "a number of 6,000 digits in the query": (get(b"/api/v1/jobs?limit=" + b"9" * 6000), INVALID),
    "a cursor of brackets": (get(b"/api/v1/jobs?cursor=" + b"W1tbW1tb" * 240), INVALID),
    "a sort key": (get(b"/api/v1/jobs?sort=id%3Bdrop"), INVALID),
    "no event": (get(b"/api/v1/events", b"last-event-id: \xff\r\n"), INVALID),
}


async def test_values_that_no_client_sends_are_refused_by_name(served: Serving) -> None:
    for what, (sent, expected) in OTHERS.items():
        assert await answered(served, sent) == expected, what


@pytest.mark.parametrize("more", [b"authorization: Bearer x\r\n", b"host: evil\r\n", b"idempotency-key: a\r\n"])
async def test_a_trailer_is_no_header(served: Serving, more: bytes) -> None:
    """A proxy that sets or removes a header looks at the head alone."""
    body = b"%x\r\n" % len(ORDER) + ORDER + b"\r\n0\r\n" + more + b"\r\n"
    for _ in range(2):
        answer = await served.ask(framed(CHUNKED, body))
        assert answer.startswith(b"HTTP/1.1 201 ")
        assert b'"created":true' in answer


@pytest.mark.parametrize(
    "endless", [b"2;" + b"a" * 100_000, b"0\r\nx-a: " + b"b" * 100_000, b"0\r\n" + b"a: b\r\n" * 20_000]
)
async def test_what_frames_a_body_has_a_bound(served: Serving, endless: bytes) -> None:
    reader, writer = await served.open(framed(CHUNKED + b"expect: 100-continue\r\n", b""))
    await reader.readuntil(b"\r\n\r\n")
    writer.write(endless)
    async with asyncio.timeout(10):
        answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 400 ")
    writer.close()


async def test_a_body_may_come_in_chunks_of_one_byte(served: Serving) -> None:
    body = b'{"command": ["echo", "%s"]}' % (b"x" * 50_000)
    pieces = b"".join(b"1\r\n%c\r\n" % byte for byte in body)
    assert (await served.ask(framed(CHUNKED, pieces + b"0\r\n\r\n"))).startswith(b"HTTP/1.1 201 ")


async def test_continue_is_said_when_the_body_is_wanted(served: Serving) -> None:
    reader, writer = await served.open(framed(b"expect: 100-continue\r\ncontent-length: %d\r\n" % len(ORDER), b""))
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    writer.write(ORDER)
    assert (await answer_of(reader)).startswith(b"HTTP/1.1 201 ")
    writer.close()
    other = framed(b"expect: 100-continue\r\ncontent-length: 99999999\r\n", b"")
    assert await answered(served, other) == (413, "too_large")  # not asked for


async def test_a_caller_of_http_1_0_is_answered_and_left(served: Serving) -> None:
    reader, writer = await served.open(get(b"/api/v1/me", b"connection: keep-alive\r\n", b"1.0"))
    answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"connection: close\r\n" in answer
    writer.close()


async def test_requests_that_do_not_wait_for_answers_are_answered_in_their_order(served: Serving) -> None:
    many = 2_000
    reader, writer = await served.open()
    writer.write(b"".join(get(b"/api/v1/limits/%d" % place) for place in range(many)))
    async with asyncio.timeout(60):
        for place in range(many):
            assert b"'%d'" % place in await answer_of(reader)
    writer.close()


async def test_head_is_get_without_the_body(served: Serving) -> None:
    for path in (b"/health/live", b"/api/v1/me", b"/api/v1/jobs", b"/api/v1/jobs/nothing", b"/nowhere"):
        reader, writer = await served.open(get(path))
        whole = await answer_of(reader)
        writer.write(b"HEAD" + get(path)[3:] + LIVE)
        assert await reader.readuntil(b"\r\n\r\n") == whole.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
        assert (await answer_of(reader)).startswith(b"HTTP/1.1 200 ")
        writer.close()
