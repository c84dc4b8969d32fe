"""The contracts run on a backend of somebody else: `--store MODULE:BACKEND`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rota.clock import Chance, ManualClock
from rota.model.principal import SYSTEM
from rota.store.sqlite import SqliteStore
from tests.store.backends import named_backend

ROOT = Path(__file__).parents[2]


def contracts(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-o", "addopts=--import-mode=importlib"]
    return subprocess.run([*command, *options], cwd=ROOT, capture_output=True, text=True, timeout=110)


@pytest.mark.slow
def test_a_store_that_passes_calls_on_keeps_the_contracts() -> None:
    done = contracts("--store", "tests.contracts.forwarding:Forwarding", "tests/contracts/test_fences.py", "-v")
    assert done.returncode == 0, done.stdout[-3_000:]
    assert "[own" in done.stdout
    assert "postgres" not in done.stdout, "the others are left out"


async def test_it_is_a_store_of_its_own(tmp_path: Path) -> None:
    backend = named_backend("tests.contracts.forwarding:Forwarding")(tmp_path, ManualClock())
    store = backend.store(Chance(1))
    await backend.prepare(store)
    await store.open()
    assert not isinstance(store, SqliteStore)
    assert await store.counts(SYSTEM) == {}
    await store.close()


@pytest.mark.parametrize(
    ("store", "message"),
    [
        ("nowhere:Backend", "No module named 'nowhere'"),
        ("tests.contracts.forwarding", "expected MODULE:BACKEND"),
        ("tests.contracts.forwarding:forwarding", "expected a subclass of tests.store.backends.Backend"),
    ],
)
def test_a_wrong_backend_is_refused(store: str, message: str) -> None:
    with pytest.raises(pytest.UsageError, match=message):
        named_backend(store)
