"""Every mutant of the way to a server is caught by the tests of that way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.remote.mutants import MUTANTS, VARIABLE, patched

ROOT = Path(__file__).parents[2]
TESTS_FAILED = 1  # the exit code of pytest


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_changes_something(name: str) -> None:
    mutant = MUTANTS[name]
    before = vars(mutant.place)[mutant.name]
    with patched(name):
        assert vars(mutant.place)[mutant.name] is not before
    assert vars(mutant.place)[mutant.name] is before


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_the_tests_catch_every_mutant(name: str) -> None:
    options = ["-q", "-x", "-p", "tests.remote.mutants", "-p", "no:cacheprovider", "-n", "0", "-k", "not postgres"]
    found = subprocess.run(
        [sys.executable, "-m", "pytest", *options, MUTANTS[name].caught_by],
        cwd=ROOT, env={**os.environ, VARIABLE: name}, capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    assert found.returncode == TESTS_FAILED, f"{name} lives:\n{found.stdout[-2000:]}{found.stderr[-2000:]}"
