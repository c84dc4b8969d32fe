"""The pytest plugin: fixtures for tests of code that uses rota (docs/testing.md).

It is loaded with every pytest run where rota is installed, so it imports the rest of rota only when a fixture is used.
All fixtures are sync: they work with pytest-asyncio, with anyio's plugin, and in tests without an event loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from rota.app import App
    from rota.testing import Harness, SyncHarness


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("rota_app", "the app of the fixture rota_app, such as shop:app")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "rota(**options): options of rota.testing.harness for this test's harness")


class _Harnesses(NamedTuple):
    waiting: Harness
    sync: SyncHarness


@pytest.fixture
def rota_app(request: pytest.FixtureRequest) -> App:
    """The app under test: the one that `rota_app` in pytest's settings names. Override it to give another."""
    from rota.cli.app_target import load_app
    from rota.errors import InvalidInput

    target = request.config.getini("rota_app")
    if not target:
        raise InvalidInput("rota_app", target, "rota_app = shop:app in pytest's settings, or a fixture of that name")
    try:
        return load_app(target)
    except InvalidInput as error:
        raise InvalidInput("rota_app", target, f"MODULE or MODULE:APP ({error})") from None


@pytest.fixture
def _rota_harness(request: pytest.FixtureRequest, rota_app: App) -> Iterator[_Harnesses]:
    from rota.testing.harnesses import harness

    with harness(rota_app, **_options(request)) as sync:
        yield _Harnesses(sync.waiting, sync)


@pytest.fixture
def rota_test(_rota_harness: _Harnesses) -> Harness:
    """The harness of this test, for async code: `await rota_test.drain()`."""
    return _rota_harness.waiting


@pytest.fixture
def rota_test_sync(_rota_harness: _Harnesses) -> SyncHarness:
    """The same harness for sync code: `rota_test_sync.drain()`."""
    return _rota_harness.sync


def _options(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Those of all marks: the nearest to the test counts."""
    from rota.errors import InvalidInput

    options: dict[str, Any] = {}
    for mark in reversed(list(request.node.iter_markers("rota"))):
        if mark.args:
            raise InvalidInput("pytest.mark.rota", mark.args, "options by name, such as pytest.mark.rota(eager=True)")
        options |= mark.kwargs
    return options
