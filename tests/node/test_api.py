"""A node with the HTTP API: ports, roles, health, and its end."""

from __future__ import annotations

import asyncio
import socket
import urllib.request
from pathlib import Path

import pytest

from rota.api import listening
from rota.errors import InvalidInput
from rota.model.principal import SYSTEM
from rota.telemetry.events import ApiNotServed, ApiServing, AttemptStarted
from tests.cli.program import Rota
from tests.node.running import make_app, running

EVERY = "control,worker,api"


async def ask(url: str, path: str = "/health/ready") -> int:
    host, _, port = url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return int(answer.split()[1])


async def test_a_node_serves_the_api_if_it_is_asked_to(tmp_path: Path) -> None:
    app = make_app(tmp_path, roles=EVERY, api_port=0)
    async with running(app, api=True) as (node, probe):
        url = (await probe.until(ApiServing)).url
        assert await ask(url) == 200
        (there,) = await node.store.nodes(SYSTEM)
        assert there.roles == ("control", "worker", "api")
        node.stop()
        assert not node.ready
    with pytest.raises(OSError, match=r"."):
        await ask(url)


async def test_a_node_of_a_program_opens_no_port_by_itself(tmp_path: Path) -> None:
    async with running(make_app(tmp_path, roles=EVERY)) as (node, _):
        (there,) = await node.store.nodes(SYSTEM)
        assert (node.api, there.roles) == (None, ("control", "worker"))
    app = make_app(tmp_path, roles="api")
    async with app:
        with pytest.raises(InvalidInput, match="roles"):
            await app.node()


async def test_a_node_with_no_other_role_works(tmp_path: Path) -> None:
    async with running(make_app(tmp_path, roles="api", api_port=0), api=True) as (_, probe):
        assert await ask((await probe.until(ApiServing)).url) == 200


async def test_the_default_port_may_be_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setattr(listening, "API_PORT", taken.getsockname()[1])
        async with running(make_app(tmp_path, roles=EVERY), api=True) as (node, probe):
            assert any(isinstance(event, ApiNotServed) for event in probe.seen)
            (there,) = await node.store.nodes(SYSTEM)
            assert there.roles == ("control", "worker")
        for settings in ({"roles": "api"}, {"roles": EVERY, "api_port": taken.getsockname()[1]}):
            app = make_app(tmp_path, **settings)
            async with app:
                with pytest.raises(InvalidInput, match="no other program listens"):
                    await app.node(api=True)


async def test_a_wrong_certificate_is_an_error_at_the_start_and_leaves_no_port_open(tmp_path: Path) -> None:
    files = {"api_tls_cert": str(tmp_path / "none.pem"), "api_tls_key": str(tmp_path / "none.pem")}
    app = make_app(tmp_path, roles=EVERY, api_port=0, **files)
    with pytest.raises(InvalidInput, match="api_tls_cert"):
        async with running(app, api=True):
            pass


async def test_the_api_answers_while_the_last_jobs_end(tmp_path: Path) -> None:
    app = make_app(tmp_path, roles=EVERY, api_port=0)
    async with running(app, api=True) as (node, probe):
        url = (await probe.until(ApiServing)).url
        await app.submit_command(["sh", "-c", "while [ ! -e go ]; do sleep 0.01; done"], cwd=str(tmp_path))
        await probe.until(AttemptStarted)
        node.stop()
        assert await ask(url, "/health/live") == 200
        assert await ask(url) == 503
        (tmp_path / "go").touch()


@pytest.mark.slow
def test_rota_up_prints_the_address_it_listens_at(rota: Rota) -> None:
    node = rota.start("up", "--port", "0", "--node", "one", "--roles", "control,worker,api")
    text = node.read_until("is up")
    url = next(word for word in text.split() if word.startswith("http://127.0.0.1:"))
    with urllib.request.urlopen(f"{url}/health/ready") as answer:
        assert answer.status == 200
    (told,) = rota.json("node", "list", "--json")
    assert told["roles"] == ["control", "worker", "api"]
    again = rota("up", "--port", url.rpartition(":")[2], "--roles", "control,worker,api")
    assert again.returncode == 2
    assert "no other program listens" in again.stderr
    assert node.stop() == 0


@pytest.fixture
def rota(tmp_path: Path) -> Rota:
    return Rota(tmp_path)
