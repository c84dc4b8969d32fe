"""Connections to a server: kept for the next call, dropped when they can't be trusted, and made on every loop."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest
import trustme

from rota.dialing import Unreachable
from rota.errors import InvalidInput
from rota.model.http import target
from rota.remote import pool as pool_module
from rota.remote.connection import Lost
from rota.remote.pool import Dialer, ServerPool, cure, trusting
from tests.remote.servers import answer, scripted

REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


def pool_to(port: int, scheme: str = "http", host: str = "127.0.0.1", ca: str = "") -> ServerPool:
    return ServerPool(Dialer(target(f"{scheme}://{host}:{port}"), ca))


def abort(pool: ServerPool) -> None:
    for connection in pool._open:
        connection.abort()


async def test_calls_one_after_the_other_share_a_connection() -> None:
    async with scripted(lambda _: answer(b"[1]")) as server:
        pool = pool_to(server.port)
        for _ in range(5):
            assert (await pool.ask(REQUEST, 5)).body == b"[1]"
        assert server.connections == 1
        await pool.close()


async def test_calls_at_once_have_connections_of_their_own_and_no_more_than_the_bound() -> None:
    async with scripted(lambda _: answer()) as server:
        pool = pool_to(server.port)
        await asyncio.gather(*(pool.ask(REQUEST, 5) for _ in range(100)))
        assert 1 < server.connections <= pool_module.MOST
        await pool.close()


async def test_a_connection_that_the_server_closes_is_not_used_again() -> None:
    async with scripted(lambda _: answer(headers="Connection: close\r\n")) as server:
        pool = pool_to(server.port)
        await pool.ask(REQUEST, 5)
        await pool.ask(REQUEST, 5)
        assert server.connections == 2
        await pool.close()


async def test_one_that_was_quiet_for_long_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scripted(lambda _: answer()) as server:
        pool = pool_to(server.port)
        await pool.ask(REQUEST, 5)
        monkeypatch.setattr(pool_module, "QUIET", 0.0)
        await pool.ask(REQUEST, 5)
        assert server.connections == 2
        await pool.close()


async def test_a_cancelled_call_leaves_no_answer_for_the_next() -> None:
    replies = iter([b"", answer(b'"mine"')])  # the first request gets no answer
    async with scripted(lambda _: next(replies)) as server:
        pool = pool_to(server.port)
        with pytest.raises(TimeoutError):
            await pool.ask(REQUEST, 0.05)
        assert (await pool.ask(REQUEST, 5)).body == b'"mine"'
        assert server.connections == 2
        await pool.close()


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (None, "closed the connection"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", "closed the connection"),
        (b"no such thing\r\n\r\n", "no HTTP"),
    ],
)
async def test_half_an_answer_is_none(reply: bytes | None, why: str) -> None:
    replies = iter([reply, None])
    async with scripted(lambda _: next(replies)) as server:
        pool = pool_to(server.port)
        if reply and why == "closed the connection":
            asyncio.get_running_loop().call_later(0.05, lambda: abort(pool))
        with pytest.raises(Lost, match=why):
            await pool.ask(REQUEST, 5)
        await pool.close()


async def test_an_interim_answer_is_skipped_and_a_body_may_come_in_chunks() -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n[1,\r\n2\r\n2]\r\n0\r\n\r\n"
    async with scripted(lambda _: b"HTTP/1.1 103 Early Hints\r\n\r\n" + chunked) as server:
        pool = pool_to(server.port)
        assert (await pool.ask(REQUEST, 5)).body == b"[1,2]"
        assert (await pool.ask(REQUEST, 5)).body == b"[1,2]"
        assert server.connections == 1
        await pool.close()


async def test_nobody_listens() -> None:
    async with scripted(lambda _: answer()) as server:
        port = server.port
    with pytest.raises(Unreachable, match="connection refused"):
        await pool_to(port).ask(REQUEST, 5)


async def test_a_name_without_an_address() -> None:
    with pytest.raises(Unreachable, match="address can't be found"):
        await pool_to(80, host="no-such-host.invalid").ask(REQUEST, 5)


@pytest.mark.parametrize(
    ("problem", "ca", "hint"),
    [
        ("its certificate is not to be trusted: self-signed", "", "ROTA_SERVER_CA"),
        ("its certificate is not to be trusted: self-signed", "ca.pem", "check ca.pem"),
        ("its address can't be found", "", "check the name"),
        ("connection refused", "", "rota up"),
    ],
)
def test_each_problem_has_a_cure(problem: str, ca: str, hint: str) -> None:
    assert hint in cure(problem, ca)


# -- TLS -------------------------------------------------------------------------------------------------------------
async def test_a_certificate_is_checked_against_the_own_authority(tmp_path: Path) -> None:
    authority = trustme.CA()
    ca = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(ca))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer(b'"safe"'))
        await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    pool = pool_to(port, "https", "localhost", str(ca))
    assert (await pool.ask(REQUEST, 5)).body == b'"safe"'
    await pool.close()
    with pytest.raises(Unreachable, match="not to be trusted"):
        await pool_to(port, "https", "localhost").ask(REQUEST, 5)
    with pytest.raises(Unreachable, match="not to be trusted: IP address mismatch"):
        await pool_to(port, "https", "127.0.0.1", str(ca)).ask(REQUEST, 5)
    server.close()


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_an_authority_that_can_t_be_read_is_named(tmp_path: Path, content: str | None) -> None:
    ca = tmp_path / "ca.pem"
    if content is not None:
        ca.write_text(content)
    with pytest.raises(InvalidInput, match="server_ca"):
        trusting(str(ca))


async def test_a_server_without_tls_is_called_so() -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        with pytest.raises(Unreachable, match="does not speak TLS") as raised:
            await ServerPool(Dialer(target(f"https://127.0.0.1:{port}"))).ask(REQUEST, 5)
    assert "http://" in cure(str(raised.value), "")
