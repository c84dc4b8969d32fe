"""Where the API listens: loopback, or with TLS; ports that are taken."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from rota.api import listening
from rota.api.listening import PortTaken, listen, url_of
from rota.config import Settings
from rota.errors import InvalidInput


def opened(**settings: Any) -> str:
    chosen = Settings(**settings)
    with listen(chosen) as one:
        return url_of(one, chosen)


def test_loopback_needs_nothing() -> None:
    for host in ("127.0.0.1", "localhost", "127.0.0.2"):
        assert opened(api_host=host, api_port=0).startswith("http://")


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_beyond_loopback_it_needs_tls_or_a_proxy(host: str) -> None:
    with pytest.raises(InvalidInput, match="--behind-proxy"):
        opened(api_host=host, api_port=0)
    if host == "0.0.0.0":
        assert opened(api_host=host, api_port=0, api_proxies=("10.0.0.0/8",), api_hosts=("rota.test",)).startswith(
            "http://rota.test:"
        )
        assert opened(api_host=host, api_port=0, api_tls_cert="a", api_tls_key="b").startswith("https://")


def test_a_certificate_without_its_key_is_refused() -> None:
    with pytest.raises(InvalidInput, match="api_tls_key"):
        opened(api_tls_cert="a", api_port=0)
    with pytest.raises(InvalidInput, match="api_tls_cert"):
        opened(api_tls_key="a", api_port=0)


@pytest.mark.parametrize("host", ["no.such.host.invalid", "192.0.2.1"])
def test_an_address_of_another_machine_is_refused(host: str) -> None:
    with pytest.raises(InvalidInput, match="api_host"):
        opened(api_host=host, api_port=0, api_proxies=("10.0.0.0/8",))


def test_a_taken_port_is_an_error_unless_it_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InvalidInput, match="no other program listens"):
            opened(api_port=port)
        monkeypatch.setattr(listening, "API_PORT", port)
        with pytest.raises(PortTaken):
            opened()
