"""What the settings name is opened, and what is unsafe about it is said."""

from __future__ import annotations

import pytest

import rota
from rota import opening
from rota.model.access import Role
from tests.api.caller import secret


@pytest.mark.parametrize(
    ("server", "warned"),
    [
        ("http://rota.example.com:8787", True),
        ("http://10.0.0.5:8787", True),
        ("http://[2001:db8::1]:8787", True),
        ("https://rota.example.com:8787", False),
        ("http://127.0.0.1:8787", False),
        ("http://[::1]:8787", False),
        ("http://localhost:8787", False),
    ],
)
async def test_an_app_says_once_that_its_key_travels_readable(
    server: str, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    opening._warn_readable.cache_clear()
    for _ in range(2):
        app = rota.App(server=server, key=secret(Role.ADMIN))
        store = app._core.make_store()
        await store.close()
    told = [record.getMessage() for record in caplog.records if record.name == "rota.server"]
    assert told == [f"rota: {server} is without TLS: others on the way can read the access key; use https"] * warned
