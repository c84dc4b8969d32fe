"""HTTP calls to where they must not go, and to servers that mean no good or are not there."""

from __future__ import annotations

import asyncio
import io
import socket
from typing import Any, cast

import pytest

from rota.dialing import Address
from rota.model.http import target
from rota.model.job import Spec
from rota.model.outcome import Cancelled, Failed, Snoozed, Succeeded, TimedOut
from rota.model.times import SECOND
from rota.work.attempt import Stop
from rota.work.executors import http_connection
from tests.servers.ports import bound_socket, free_port
from tests.servers.web import Asked, Web, in_turn, raw, reply
from tests.work.executors.calling import attempt_at, call, executor, failure, output, perform, resolving, result


# -- addresses ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0x7f.1", "[::1]", "0", "[::]",
        "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
    ],
)  # fmt: skip
async def test_loopback_is_denied_in_every_disguise(server: Web, host: str) -> None:
    failed = await failure("GET", server.at(host), executor(http_allow=()))
    assert (failed.fatal, failed.problem.type) == (True, "rota.AddressDenied")
    assert server.asked == []


async def test_a_denied_address_is_named_with_its_rule(server: Web) -> None:
    made = executor(resolving(["127.0.0.1"]), http_allow=())
    failed = await failure("GET", server.at("inside.example"), made)
    assert failed.problem.message == (
        "inside.example is 127.0.0.1: loopback addresses are denied unless http_allow has them"
    )
    failed = await failure("GET", server.url, executor(http_deny="127.0.0.0/8"))
    assert failed.problem.message == "127.0.0.1: http_deny has 127.0.0.0/8"


async def test_a_denied_name_is_not_even_looked_up() -> None:
    async def never(host: str, port: int) -> list[Address]:
        raise AssertionError(host)

    failed = await failure("GET", "http://db.internal/", executor(never, http_deny="*.internal"))
    assert failed.problem.message == "db.internal: http_deny has *.internal"


async def test_a_name_is_looked_up_once_and_that_address_is_connected_to(server: Web) -> None:
    """The first answer is a good one, all others lead inside: whoever asks twice is fooled."""
    server.on("/", reply(200, "good"))
    made = executor(resolving(["127.0.0.1"], ["127.0.0.2"]), http_deny="127.0.0.2")
    assert (await result("GET", server.at("rebinding.example"), made))["body"] == "good"
    assert server.asked[0].headers["host"] == f"rebinding.example:{server.port}"
    failed = await failure("GET", server.at("rebinding.example"), made)
    assert failed.problem.type == "rota.AddressDenied"


async def test_rebinding_between_redirects(server: Web) -> None:
    url = server.at("rebinding.example")
    server.on("/", reply(302, location=url + "/next"))
    failed = await failure("GET", url, executor(resolving(["127.0.0.1"], ["169.254.169.254"])))
    assert (failed.problem.type, failed.fatal) == ("rota.AddressDenied", True)
    assert server.paths() == ["/"]


async def test_of_several_addresses_those_that_are_denied_are_passed_over(server: Web) -> None:
    server.on("/", reply())
    made = executor(resolving(["::1", "169.254.169.254", "127.0.0.1"]))
    assert (await result("GET", server.at("a.example"), made))["status"] == 200


async def test_of_several_addresses_the_next_is_tried(server: Web) -> None:
    server.on("/", reply())
    made = executor(resolving(["127.0.0.9", "127.0.0.1"]), http_allow="loopback")
    assert (await result("GET", server.at("a.example"), made))["status"] == 200


async def test_a_name_may_be_allowed(server: Web) -> None:
    server.on("/", reply())
    made = executor(http_allow="localhost")
    assert (await result("GET", server.at("localhost"), made))["status"] == 200
    assert (await failure("GET", server.url, made)).problem.type == "rota.AddressDenied"


# -- trouble -----------------------------------------------------------------------------------------------------------
async def test_nobody_there() -> None:
    failed = await failure("GET", f"http://127.0.0.1:{free_port()}/")
    assert (failed.fatal, failed.problem.type) == (False, "rota.Unreachable")
    assert "Connect" in failed.problem.message


async def test_names_that_nobody_has() -> None:
    async def unknown(host: str, port: int) -> list[Address]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    failed = await failure("GET", "http://nowhere.example/", executor(unknown))
    assert failed.problem.message == "nowhere.example: its address can't be found (Name or service not known)"
    assert not failed.fatal
    failed = await failure("GET", "http://nowhere.example/", executor(resolving([])))
    assert failed.problem.message == "nowhere.example: it has no address"


async def test_a_lookup_that_does_not_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(host: str, port: int) -> list[Address]:
        await asyncio.Event().wait()
        return []

    monkeypatch.setattr(http_connection, "CONNECT", 0.05)
    failed = await failure("GET", "http://slow.example/", executor(never))
    assert failed.problem.message == "slow.example: no connection within 0.05s"


async def test_a_server_that_takes_no_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """It listens with a full queue: who connects hears nothing at all."""
    monkeypatch.setattr(http_connection, "CONNECT", 0.3)
    with bound_socket() as silent:
        silent.listen(0)
        full = [socket.socket() for _ in range(4)]
        for one in full:
            one.setblocking(False)
            one.connect_ex(silent.getsockname())
        failed = await failure("GET", f"http://127.0.0.1:{silent.getsockname()[1]}/")
        for one in full:
            one.close()
    assert (failed.fatal, failed.problem.type) == (False, "rota.Unreachable")


HOSTILE = {
    "closes at once": b"",
    "garbage": b"\x16\x03\x01 no HTTP at all\r\n\r\n",
    "huge headers": b"HTTP/1.1 200 OK\r\n" + b"X: " + b"a" * 300_000 + b"\r\n\r\n",
    "headers without end": b"HTTP/1.1 200 OK\r\n" + b"X: a\r\n" * 40_000,
    "a bad length": b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nabc",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\nabcde",
    "ends too soon": b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nabc",
    "bad chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc",
    "chunks that end too soon": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
    "a status of letters": b"HTTP/1.1 abc OK\r\n\r\n",
    "only hints": b"HTTP/1.1 100 Continue\r\n\r\n" * 100,
    "another protocol": b"SSH-2.0-OpenSSH_9.2\r\n",
    "switches": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n",
}


@pytest.mark.parametrize("what", HOSTILE)
async def test_servers_that_answer_badly(server: Web, what: str) -> None:
    failed = await failure("GET", server.on("/", raw(HOSTILE[what])), headers={"Authorization": "s3cret"})
    assert (failed.fatal, failed.problem.type) == (False, "rota.BadResponse"), failed
    assert "s3cret" not in failed.problem.message
    assert len(failed.problem.message) < 300


async def endless(_: Asked, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        writer.write(b"x" * 65_536)
        await writer.drain()


async def test_a_body_without_end_is_cut(server: Web) -> None:
    attempt = attempt_at(Spec.http("GET", server.on("/", endless)).body)
    outcome = await perform(attempt, executor(http_max_body=200_000))
    assert isinstance(outcome, Failed)
    assert (outcome.fatal, outcome.problem.type) == (True, "rota.ResponseTooLarge")
    assert outcome.problem.message == "its answer (200) has more than 200000 bytes, see http_max_body"
    assert output(attempt) == b"x" * 200_000
    await server.until(lambda web: web.broken == ["/"])  # it was hung up on


async def test_of_an_unexpected_status_the_body_does_not_matter(server: Web) -> None:
    async def failing(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 503 Busy\r\nRetry-After: 9\r\n\r\n")
        while True:
            writer.write(b"x" * 65_536)
            await writer.drain()

    failed = await failure("GET", server.on("/", failing), executor(http_max_body=200_000))
    assert (failed.problem.type, failed.retry_in) == ("rota.HttpStatus", 9 * SECOND)


async def dribble(_: Asked, writer: asyncio.StreamWriter) -> None:
    """Headers that come letter by letter, and never end."""
    writer.write(b"HTTP/1.1 200 OK\r\nX: ")
    while True:
        writer.write(b"a")
        await writer.drain()
        await asyncio.sleep(0.005)


async def hints(_: Asked, writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000)
        await writer.drain()


async def test_hints_without_end(server: Web) -> None:
    failed = await failure("GET", server.on("/", hints))
    assert (failed.fatal, failed.problem.type) == (False, "rota.BadResponse")


async def test_an_answer_in_tiny_pieces_does_not_hold_up_the_loop() -> None:
    """All of it is there at once, so that nobody ever has to wait for more."""
    reader, turns = asyncio.StreamReader(), 0
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    reader.feed_data(head + b"1\r\na\r\n" * 5000 + b"0\r\n\r\n")
    exchange = http_connection.Exchange(reader, cast(Any, io.BytesIO()), asyncio.Lock())
    exchange.send("GET", target("http://a/"), [], b"")

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    assert (await exchange.head()).status == 200
    assert len([part async for part in exchange.body()]) == 5000
    beside.cancel()
    assert turns >= 5000 // http_connection.AT_ONCE


async def test_a_server_that_never_comes_to_the_point(server: Web) -> None:
    outcome = await call("GET", server.on("/", dribble), executor(http_timeout="100ms"))
    assert isinstance(outcome, TimedOut)
    assert not outcome.fatal
    assert outcome.problem.message == "timed out after 100ms, as http_timeout says for jobs without a timeout"
    await server.until(lambda web: web.broken == ["/"])


async def test_a_timeout_of_its_own_counts_instead(server: Web) -> None:
    late = in_turn(reply(200, "late"))

    async def slow(asked: Asked, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.2)
        await late(asked, writer)

    attempt = attempt_at(Spec.http("GET", server.on("/", slow)).body, timeout=60 * SECOND)
    assert isinstance(await perform(attempt, executor(http_timeout="1ms")), Succeeded)


@pytest.mark.parametrize("reason", Stop)
@pytest.mark.parametrize("answer", [raw(b"", close=False), raw(b"HTTP/1.1 200 OK\r\n\r\nabc", close=False), dribble])
async def test_a_stop_ends_it_at_once(server: Web, reason: Stop, answer: Any) -> None:
    attempt = attempt_at(Spec.http("GET", server.on("/", answer)).body)
    running = asyncio.create_task(perform(attempt))
    await server.until(lambda web: bool(web.asked))
    attempt.stop(reason)
    assert await running == Cancelled(reason)
    await server.until(lambda web: web.broken == ["/"])


async def test_what_was_stopped_before_it_began_is_not_sent(server: Web) -> None:
    attempt = attempt_at(Spec.http("GET", server.on("/", reply())).body)
    attempt.stop(Stop.LOST)
    assert await perform(attempt) == Cancelled(Stop.LOST)
    assert server.asked == []


async def test_a_node_without_descriptors_comes_back_later() -> None:
    def none_left(*_: Any) -> None:
        raise OSError(24, "Too many open files")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rota.work.executors.http_connection.socket.socket", none_left)
        outcome = await call("GET", "http://127.0.0.1/")
    assert outcome == Snoozed(SECOND, "the node is short of something: Too many open files")


async def test_answers_before_the_request_was_read(server: Web) -> None:
    """A large body to a server that refuses it unread."""
    reader_gone = asyncio.Event()

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        await reader_gone.wait()
        writer.close()

    sock = bound_socket()
    port = sock.getsockname()[1]
    async with await asyncio.start_server(refuse, sock=sock):
        failed = await failure("POST", f"http://127.0.0.1:{port}/", body="x" * 20_000_000)
        reader_gone.set()
    assert failed.problem.message == f"status 413 from POST http://127.0.0.1:{port}/"


@pytest.mark.parametrize("spec", ["{", "[]", '{"method": "GET"}', '{"method": "GET", "url": "http://u:s3cret@a/"}'])
async def test_broken_specifications_are_refused_without_showing_them(spec: str) -> None:
    with pytest.raises(Exception, match=r"specification|url") as caught:
        await perform(attempt_at(spec))
    assert "s3cret" not in str(caught.value)
