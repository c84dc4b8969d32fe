"""`rota doctor --server`: each finding says what is wrong and what to do."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trustme

from rota.app_core import AppCore
from rota.cli import server_doctor
from rota.clock import ManualClock, SystemClock
from rota.model.access import Role
from rota.model.times import DAY, SECOND
from tests.remote.serving import Server, key_of, server_on


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server_on(tmp_path_factory.mktemp("server") / "rota.db") as server:
        yield server


async def found(url: str, key: str | None = key_of(Role.ADMIN), **settings: Any) -> dict[str, tuple[bool, str]]:
    clock = settings.pop("clock", None)
    findings = await server_doctor.examine(AppCore(server=url, key=key, clock=clock, **settings))
    return {one.name: (one.ok, one.text) for one in findings}


async def test_all_is_well(server: Server) -> None:
    findings = await found(server.url)
    assert list(findings) == ["server", "connection", "version", "key", "clock"]
    assert all(ok for ok, _ in findings.values()), findings
    assert "of user local: key" in findings["key"][1]
    assert "role admin" in findings["key"][1]


async def test_no_server_is_set() -> None:
    assert await found("") == {"server": (False, "none is set; set ROTA_SERVER, or run `rota login URL`")}


async def test_nobody_listens(tmp_path: Path) -> None:
    with server_on(tmp_path / "rota.db") as server:
        pass
    ok, text = (await found(server.url))["connection"]
    assert not ok
    assert text.startswith("connection refused; is `rota up` with the role api running there")


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_another_program_listens_or_tls_is_mistaken(scheme: str) -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as listening:
        findings = await found(f"{scheme}://127.0.0.1:{listening.sockets[0].getsockname()[1]}")
    ok, text = findings["answer" if scheme == "http" else "connection"]
    assert not ok
    assert "it closed the connection" in text
    assert "is it rota that listens there, and does it speak TLS (https://)" in text


async def test_a_wrong_key_and_none(server: Server) -> None:
    ok, text = (await found(server.url, key_of(Role.ADMIN, "nobody")))["key"]
    assert (ok, "refuses the key" in text) == (False, True)
    ok, text = (await found(server.url, None))["key"]
    assert (ok, "needs an access key" in text) == (False, True)


async def test_a_key_that_expires_soon(server: Server) -> None:
    key = key_of(Role.VIEWER)
    grant = server.ring.grants[key]
    server.ring.grants[key] = msgspec.structs.replace(grant, expires_at=SystemClock().now() + DAY)
    ok, text = (await found(server.url, key))["key"]
    assert (ok, "it expires soon: ask for a new one" in text) == (False, True)


async def test_a_clock_that_is_wrong(server: Server) -> None:
    ok, text = (await found(server.url, clock=ManualClock(SystemClock().now() - 100 * SECOND)))["clock"]
    assert (ok, "behind the server's; set the clock of this machine" in text) == (False, True)


async def test_certificates(tmp_path: Path) -> None:
    authority = trustme.CA()
    soon = datetime.now(UTC) + timedelta(days=3)
    issued = authority.issue_cert("localhost", "127.0.0.1", not_after=soon)
    cert, key, ca = (tmp_path / name for name in ("cert.pem", "key.pem", "ca.pem"))
    issued.private_key_and_cert_chain_pem.write_to_path(str(cert))
    issued.private_key_pem.write_to_path(str(key))
    authority.cert_pem.write_to_path(str(ca))
    with server_on(tmp_path / "rota.db", api_tls_cert=str(cert), api_tls_key=str(key)) as server:
        ok, text = (await found(server.url, server_ca=str(ca)))["certificate"]
        assert (ok, text) == (False, "trusted; it expires in 2d: renew it on the server")
        ok, text = (await found(server.url))["connection"]
        assert (ok, "name the authority that signed it with ROTA_SERVER_CA" in text) == (False, True)
