"""Bad days of an object store: wrong addresses, servers that stop, break off, are slow, and lie."""

from __future__ import annotations

import asyncio
import os
import re
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from rota.artifacts.place import ObjectPlace, PlaceAway, PlaceRefused
from rota.artifacts.publish import publish
from rota.artifacts.s3 import S3Place
from rota.clock import Chance
from tests.artifacts.places import InBucket, content, keys, read, s3_address
from tests.servers.ports import free_port
from tests.servers.proxy import Proxy
from tests.servers.seaweed import KEY, SECRET, VISITOR, VISITOR_SECRET, Seaweed, seaweed, shared_seaweed
from tests.servers.web import Answer, Asked, Web, raw, reply, web

MIB = 1 << 20
HASTY = 0.5
DELETED = b"<Deleted><Key>%s</Key></Deleted>"
FOUND = {"last_modified": "Thu, 19 Nov 2026 04:00:00 GMT", "connection": "close"}


@pytest.fixture
def server() -> Seaweed:
    return shared_seaweed()


@pytest.fixture
def fake() -> Iterator[Web]:
    with web() as server:
        yield server


def opened(url: str, limit: float = 20.0) -> S3Place:
    return S3Place(s3_address(url), Chance(1), limit=limit)


def at(server: Web, limit: float = 20.0) -> S3Place:
    return opened(f"s3://key:hidden@bucket?endpoint={server.url}", limit)


async def large(count: int) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield bytes(MIB)


CALLS: dict[str, Callable[[ObjectPlace], Awaitable[object]]] = {
    "probe": lambda place: place.probe(),
    "put": lambda place: place.put("a/b", content(b"x")),
    "put large": lambda place: place.put("a/b", large(12)),
    "put new": lambda place: place.put_new("a/c", b"x"),
    "get": lambda place: read(place, "a/b"),
    "head": lambda place: place.head("a/b"),
    "delete": lambda place: place.delete(["a/b"]),
    "page": lambda place: place.page(""),
    "copy": lambda place: place.copy("a/b", "a/d"),
}
all_calls = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


@all_calls
async def test_wrong_credentials_are_refused(server: Seaweed, call: Callable[[ObjectPlace], Awaitable[object]]) -> None:
    for login in (f"{KEY}:not-the-secret", f"nobody:{SECRET}"):
        with pytest.raises(PlaceRefused, match="credentials") as raised:
            await call(opened(server.url(login=login)))
        assert SECRET not in str(raised.value)
        assert "not-the-secret" not in str(raised.value)


async def test_who_may_only_read_may_not_write(server: Seaweed) -> None:
    place = InBucket(server)
    await place.open().put("a/b", content(b"x"))
    visitor = opened(server.url(login=f"{VISITOR}:{VISITOR_SECRET}", prefix=place.prefix))
    assert await read(visitor, "a/b") == b"x"
    for name in ("probe", "put", "put large", "put new", "copy", "delete"):
        with pytest.raises(PlaceRefused, match="the credentials don't allow that; rota reads, writes"):
            await CALLS[name](visitor)


@all_calls
async def test_without_the_bucket_all_is_refused(
    server: Seaweed, call: Callable[[ObjectPlace], Awaitable[object]]
) -> None:
    with pytest.raises(PlaceRefused, match="there is no such bucket: create it"):
        await call(opened(server.url("another-bucket")))


@all_calls
async def test_without_a_server_it_is_away(call: Callable[[ObjectPlace], Awaitable[object]]) -> None:
    place = opened(f"s3://key:hidden@bucket?endpoint=http://127.0.0.1:{free_port()}")
    with pytest.raises(PlaceAway, match="no answer: Connection refused"):
        await call(place)


@all_calls
async def test_a_server_that_stops_is_away_for_that_time(
    server: Seaweed, call: Callable[[ObjectPlace], Awaitable[object]]
) -> None:
    place = InBucket(server)
    await place.open().put("a/b", content(b"old"))
    server.pause()
    try:
        with pytest.raises(PlaceAway, match=r"no answer"):
            async with asyncio.timeout(20):
                await call(place.open(HASTY))
    finally:
        server.resume()
    await place.open().put("a/b", content(b"new"))
    assert await read(place.open(), "a/b") == b"new"


async def test_a_connection_that_ends_in_the_middle_is_no_end(server: Seaweed) -> None:
    kept = InBucket(server)
    await kept.open().put("a/b", large(32))
    async with Proxy("127.0.0.1", server.port) as proxy:
        url = server.url(prefix=kept.prefix).replace(str(server.port), str(proxy.port))
        async with aclosing(opened(url, 2.0).get("a/b")) as pieces:
            await anext(pieces)
            proxy.cut()
            with pytest.raises(PlaceAway):
                await drained(pieces)
        proxy.mend()
        async with aclosing(opened(url, HASTY).get("a/b")) as pieces:
            await anext(pieces)
            proxy.freeze()
            with pytest.raises(PlaceAway, match="no answer"):
                await drained(pieces)
            proxy.thaw()


async def drained(pieces: AsyncIterator[bytes]) -> None:
    async for _ in pieces:
        pass


async def test_an_upload_that_is_cut_off_leaves_nothing(server: Seaweed) -> None:
    kept = InBucket(server)
    async with Proxy("127.0.0.1", server.port) as proxy:
        url = server.url(prefix=kept.prefix).replace(str(server.port), str(proxy.port))

        async def cut() -> AsyncIterator[bytes]:
            for number in range(20):
                yield bytes(MIB)
                if number == 12:
                    proxy.cut()

        with pytest.raises(PlaceAway):
            await opened(url, 2.0).put("a/b", cut())
    assert await keys(kept.open()) == []


def objects(kept: dict[str, bytes], *, honours: bool | None = True, etags: Iterator[str] | None = None) -> Answer:
    """A little S3. `honours`: If-None-Match; None: it answers that it does not know it. `etags`: what it says they
    are, another one each time it is asked."""

    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        path = asked.path.partition("?")[0]
        said = FOUND | {"etag": next(etags) if etags else '"same"'}
        if asked.method == "PUT" and "if-none-match" in asked.headers and honours is None:
            told = reply(501, "<Error><Code>NotImplemented</Code></Error>", **said)
        elif asked.method == "PUT" and "if-none-match" in asked.headers and honours and path in kept:
            told = reply(412, "<Error><Code>PreconditionFailed</Code></Error>", **said)
        elif asked.method == "PUT":
            kept[path] = asked.body
            told = reply(200, **said)
        elif asked.method == "POST":
            for key in (deleted := re.findall(rb"<Key>(.*?)</Key>", asked.body)):
                kept.pop(f"/bucket/{key.decode()}", None)
            told = reply(200, b"<DeleteResult>%s</DeleteResult>" % b"".join(map(DELETED.__mod__, deleted)), **said)
        elif path not in kept:
            told = reply(404, "<Error><Code>NoSuchKey</Code></Error>", **said)
        else:
            told = reply(200, kept[path], **said)
        await told(asked, writer)

    return answer


async def test_a_server_that_honours_if_none_match(fake: Web) -> None:
    fake.otherwise = objects({})
    assert (await at(fake).probe()).exclusive


@pytest.mark.parametrize("honours", [False, None])
async def test_a_server_that_ignores_if_none_match_is_found_out(fake: Web, honours: bool | None) -> None:
    kept: dict[str, bytes] = {}
    fake.otherwise = objects(kept, honours=honours)
    place = at(fake)
    state = await place.probe()
    assert kept == {}
    assert not state.exclusive
    assert "two writers of one key may both win" in state.warning
    assert "hidden" not in state.warning
    assert await place.put_new("a/b", b"first") is True  # as well as it can be done there
    assert await place.put_new("a/b", b"second") is False
    assert await read(place, "a/b") == b"first"


async def test_lies_about_etags_change_nothing(fake: Web) -> None:
    """Each answer has another ETag, and none is that of the content."""
    kept: dict[str, bytes] = {}
    fake.otherwise = objects(kept, etags=(f'"{number}"' for number in range(1000)))
    place = at(fake)
    assert (await place.probe()).exclusive
    whole = bytes(3 * MIB) + b"x"
    await place.put("a/b", content(whole))
    assert await read(place, "a/b") == whole
    assert (await place.head("a/b")).size == len(whole)


async def test_a_probe_finds_out_that_nothing_can_be_deleted(fake: Web) -> None:
    little = objects({})

    async def keeping(asked: Asked, writer: asyncio.StreamWriter) -> None:
        told = reply(403, "<Error><Code>AccessDenied</Code></Error>", **FOUND) if asked.method == "POST" else little
        await told(asked, writer)

    fake.otherwise = keeping
    with pytest.raises(PlaceRefused, match="lists and deletes"):
        await at(fake).probe()


async def test_a_server_that_gives_back_something_else_is_refused(fake: Web) -> None:
    fake.otherwise = reply(200, b"something else", etag='"x"', **FOUND)
    with pytest.raises(PlaceRefused, match="does not give back what was written"):
        await at(fake).probe()


@pytest.mark.parametrize("etag", ['ETag: "x"\r\n', ""])
async def test_a_truncated_answer_is_no_answer(fake: Web, etag: str) -> None:
    head = f"HTTP/1.1 200 OK\r\n{etag}Last-Modified: {FOUND['last_modified']}\r\nContent-Length: 4000000\r\n\r\n"
    fake.otherwise = raw(head.encode() + bytes(3_000_000))
    with pytest.raises(PlaceAway):
        await read(at(fake, 2.0), "a/b")


async def test_a_trickle_is_no_answer(fake: Web) -> None:
    """Each byte comes in time, and yet it would take for ever."""
    going_on = threading.Event()

    async def trickle(_: Asked, writer: asyncio.StreamWriter) -> None:
        head = (
            f"HTTP/1.1 200 OK\r\nETag: x\r\nLast-Modified: {FOUND['last_modified']}\r\nContent-Length: 4000000\r\n\r\n"
        )
        writer.write(head.encode())
        while not going_on.is_set():
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.05)

    fake.otherwise = trickle
    try:
        with pytest.raises(PlaceAway, match=r"no answer within 0\.5s"):
            async with asyncio.timeout(10):
                await read(at(fake, HASTY), "a/b")
    finally:
        going_on.set()


@pytest.mark.parametrize(
    ("status", "code", "kind", "words"),
    [
        (503, "SlowDown", PlaceAway, "busy or broken"),
        (500, "InternalError", PlaceAway, "busy or broken"),
        (502, "", PlaceAway, "502"),
        (429, "", PlaceAway, "429"),
        (409, "OperationAborted", PlaceAway, "busy or broken"),
        (507, "", PlaceRefused, "it is full"),
        (507, "XMinioStorageFull", PlaceRefused, "it is full"),
        (403, "QuotaExceeded", PlaceRefused, "it is full: the quota"),
        (403, "", PlaceRefused, "denies access"),
        (401, "", PlaceRefused, "denies access"),
        (403, "RequestTimeTooSkewed", PlaceRefused, "clocks"),
        (400, "ExpiredToken", PlaceRefused, "session token has expired"),
        (400, "Odd", PlaceRefused, "refused with 400 Odd"),
        (400, "AuthorizationHeaderMalformed", PlaceRefused, "region"),
        (404, "", PlaceRefused, "nothing at this address"),
        (501, "NotImplemented", PlaceRefused, "501"),
    ],
)
async def test_answers_have_words(fake: Web, status: int, code: str, kind: type[Exception], words: str) -> None:
    fake.otherwise = reply(status, f"<Error><Code>{code}</Code></Error>" if code else "", **FOUND)
    calls = ["put new"] if status >= 500 or status == 429 else ["put", "put new", "put large", "delete", "page"]
    for name in calls:  # the others are tried again, which takes a moment
        with pytest.raises(kind, match=words) as raised:
            await CALLS[name](at(fake))
        assert str(raised.value).startswith("s3://bucket at http://127.0.0.1:")
        assert "hidden" not in str(raised.value)
        assert "\n" not in str(raised.value)


async def test_a_passing_failure_is_tried_again(fake: Web) -> None:
    kept: dict[str, bytes] = {}
    answers = [reply(503, "<Error><Code>SlowDown</Code></Error>", **FOUND), objects(kept)]

    async def busy_at_first(asked: Asked, writer: asyncio.StreamWriter) -> None:
        await answers.pop(0)(asked, writer) if len(answers) > 1 else await answers[0](asked, writer)

    fake.otherwise = busy_at_first
    assert await at(fake).put("a/b", content(b"x")) == 1
    assert kept == {"/bucket/a/b": b"x"}


async def test_put_new_is_never_tried_again(fake: Web) -> None:
    """The first try may have got through: the second would say that another call was first."""
    fake.otherwise = reply(503, "<Error><Code>SlowDown</Code></Error>", **FOUND)
    with pytest.raises(PlaceAway):
        await at(fake).put_new("a/b", b"x")
    assert len(fake.asked) == 1


async def test_credentials_come_from_the_environment(server: Seaweed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    place = opened(f"s3://tests{InBucket(server).prefix}?endpoint={server.endpoint}")
    assert (await place.probe()).exclusive


async def test_the_address_outdoes_the_environment(server: Seaweed, monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    for name, value in {
        "AWS_ENDPOINT": nobody, "AWS_ENDPOINT_URL": nobody, "AWS_ENDPOINT_URL_S3": nobody, "AWS_REGION": "mars",
        "AWS_DEFAULT_REGION": "mars", "AWS_ACCESS_KEY_ID": "other", "AWS_SECRET_ACCESS_KEY": "other",
        "AWS_SESSION_TOKEN": "other", "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true", "AWS_BUCKET": "other",
        "AWS_CONDITIONAL_PUT": "disabled",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    assert (await InBucket(server).open().probe()).exclusive


async def test_a_forked_process_needs_a_place_of_its_own(server: Seaweed, monkeypatch: pytest.MonkeyPatch) -> None:
    place = InBucket(server).open()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    for call in CALLS.values():
        with pytest.raises(PlaceRefused, match="this process was forked"):
            await call(place)


async def test_a_place_serves_several_event_loops(server: Seaweed) -> None:
    place = InBucket(server).open()
    await place.put("a/b", content(b"x"))
    assert await asyncio.to_thread(lambda: asyncio.run(read(place, "a/b"))) == b"x"
    assert await read(place, "a/b") == b"x"


@pytest.mark.slow
async def test_a_server_that_is_killed_in_the_middle_of_an_upload() -> None:
    with seaweed() as server:
        kept = InBucket(server)
        await kept.open().put("a/b", content(b"old"))

        async def killing() -> AsyncIterator[bytes]:
            for number in range(20):
                yield bytes(MIB)
                if number == 12:
                    server.kill()

        with pytest.raises(PlaceAway):
            await kept.open(2.0).put("a/b", killing())
        server.start()
        assert await read(kept.open(), "a/b") == b"old"
        assert await keys(kept.open()) == ["a/b"]


def memory() -> int:
    """The most that this process has needed since it was asked to forget."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


@pytest.mark.slow
async def test_the_memory_of_the_process_is_constant(server: Seaweed) -> None:
    place = InBucket(server).open()
    await place.probe()
    await place.put("staging/upload-0/00001", large(20))
    Path("/proc/self/clear_refs").write_text("5")
    before = memory()
    await place.put("staging/upload-1/00001", large(250))
    async with aclosing(place.get("staging/upload-1/00001")) as pieces:
        assert sum([len(piece) async for piece in pieces]) == 250 * MIB
    digest = "d13a4a5c8ee5a5b9e3ea1b1b7d8d1ad9"  # of nothing: it is read and joined to the end, then refused
    with pytest.raises(Exception, match="digest"):
        await publish(place, ["staging/upload-1/00001"], digest * 2, 250 * MIB, "0123456789ab")
    assert memory() - before < 64 * MIB
