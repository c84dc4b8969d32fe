"""The plugin, in runs of pytest as a user would start them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SHOP = """
import rota

app = rota.App("sqlite:///never-made.db")

@app.task
def add(a: int, b: int = 1) -> int:
    print("adding")
    return a + b

@app.task
async def broken() -> None:
    raise ZeroDivisionError
"""

TESTS = """
import asyncio
import pytest
import rota
from shop import add, app, broken

pytestmark = pytest.mark.rota(now="2027-01-01T09:00:00+01:00")

@pytest.mark.{marker}
async def test_async(rota_test):
    job = await add.options(delay="1h").submit(1)
    await rota_test.drain()
    assert await job.result() == 2
    assert await job.logs() == "adding\\n"
    assert rota_test.now.isoformat() == "2027-01-01T09:00:00+00:00"

def test_sync(rota_test_sync, capsys):
    job = add.submit_sync(1)
    rota_test_sync.run_due()
    assert job.result_sync() == 2
    assert job.logs_sync() == "adding\\n"
    assert capsys.readouterr().out == ""
    rota_test_sync.assert_submitted(add, a=1)

@pytest.mark.rota(eager=True, raise_errors=True)
def test_marks(rota_test_sync, rota_test):
    with pytest.raises(ZeroDivisionError):
        broken.submit_sync()
    assert rota_test.orders == rota_test_sync.orders != []
    assert rota_test.now.year == 2027

def test_the_app_is_as_before():
    assert app.settings.store == "sqlite:///never-made.db"

class TestAnotherApp:
    @pytest.fixture
    def rota_app(self):
        return rota.App("sqlite:///other.db", user="other")

    def test_other(self, rota_test_sync, rota_app):
        rota_app.submit_command_sync(["true"])
        rota_test_sync.assert_submitted(["true"])
"""

WRONG = """
import pytest

@pytest.mark.rota(True)
def test_wrong_mark(rota_test_sync): ...

@pytest.mark.rota(colour="red")
def test_wrong_option(rota_test): ...
"""

LIGHT = """
import sys

def test_the_plugin_imports_little(pytestconfig):
    assert pytestconfig.pluginmanager.hasplugin("rota")
    assert not [name for name in sys.modules if name.startswith("rota.") and name != "rota.pytest_plugin"]
"""


ASYNCIO = ("-o", "asyncio_default_fixture_loop_scope=function")  # else pytest-asyncio warns


def pytest_run(folder: Path, *options: str) -> tuple[int, str]:
    outside = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV"))}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-W", "error", "--strict-markers", *options]
    done = subprocess.run(command, cwd=folder, env=outside, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


def written(folder: Path, ini: str, **files: str) -> Path:
    (folder / "pytest.ini").write_text(f"[pytest]\npythonpath = .\n{ini}\n")
    (folder / "shop.py").write_text(SHOP)
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return folder


@pytest.mark.slow
def test_with_pytest_asyncio_and_without_a_loop(tmp_path: Path) -> None:
    folder = written(tmp_path, "rota_app = shop:app", test_shop=TESTS.format(marker="asyncio"))
    code, text = pytest_run(folder, *ASYNCIO)
    assert (code, "5 passed" in text) == (0, True), text
    assert not list(tmp_path.glob("*.db"))


@pytest.mark.slow
def test_with_the_plugin_of_anyio(tmp_path: Path) -> None:
    anyio = "\n@pytest.fixture\ndef anyio_backend():\n    return 'asyncio'\n"
    folder = written(tmp_path, "rota_app = shop", test_shop=TESTS.format(marker="anyio") + anyio)
    code, text = pytest_run(folder, "-p", "no:asyncio")
    assert (code, "5 passed" in text) == (0, True), text


@pytest.mark.slow
def test_wrong_use_is_one_clear_error(tmp_path: Path) -> None:
    code, text = pytest_run(written(tmp_path, "rota_app = shop:app", test_wrong=WRONG), *ASYNCIO)
    assert (code, "2 errors" in text) == (1, True), text
    assert "InvalidInput: pytest.mark.rota: (True,) is not valid; expected options by name" in text
    assert "colour" in text
    code, text = pytest_run(written(tmp_path, "rota_app = nowhere:app"), "-k", "option", *ASYNCIO)
    assert "InvalidInput: rota_app: 'nowhere:app' is not valid; expected MODULE or MODULE:APP" in text
    code, text = pytest_run(written(tmp_path, ""), "-k", "option", *ASYNCIO)
    assert "InvalidInput: rota_app: '' is not valid; expected rota_app = shop:app in pytest's settings" in text


@pytest.mark.slow
def test_it_imports_little_and_can_be_left_out(tmp_path: Path) -> None:
    code, text = pytest_run(written(tmp_path, "", test_light=LIGHT), *ASYNCIO)
    assert (code, "1 passed" in text) == (0, True), text
    code, text = pytest_run(tmp_path, "-p", "no:rota", *ASYNCIO)
    assert "assert False" in text, "the plugin is gone"
