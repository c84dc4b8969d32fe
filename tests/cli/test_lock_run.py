"""`rota lock run`: a command while a lock is held."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import pytest

import rota as package
from rota.cli.lock_run import LOST, NOT_EXECUTABLE, NOT_FOUND, TAKEN
from tests.cli.program import Rota, on_terminal

# Says that it has begun, and stands until it is told to end.
STANDS = [sys.executable, "-c", "import time; print('begun', flush=True); time.sleep(600)"]


@pytest.fixture(autouse=True)
def mine(rota: Rota) -> package.App:
    """An app on the store of the program, which is there."""
    app = package.App(f"sqlite:///{rota.folder / 'rota.db'}")
    app.locks_sync()
    app.close_sync()
    return app


def test_a_command_runs_with_its_fence_and_its_exit_code_is_ours(rota: Rota, mine: package.App) -> None:
    done = rota("lock", "run", "report", "--", "sh", "-c", 'echo "$ROTA_LOCK $ROTA_LOCK_FENCE"; exit 7')
    assert (done.returncode, done.stderr) == (7, "")
    with mine:
        (lock,) = mine.locks_sync()
    assert done.stdout == f"report {lock.fence}\n"
    assert not lock.held


def test_on_a_terminal_the_command_reads_from_it(rota: Rota) -> None:
    command = ("sh", "-c", "read line; echo it said $line; exit 3")
    code, shown = on_terminal(rota.folder, "lock", "run", "report", "--", *command, answer="yes\n")
    assert (code, "it said yes" in shown) == (3, True)


def test_the_command_may_use_rota(rota: Rota) -> None:
    done = rota("lock", "run", "report", "--", sys.executable, "-m", "rota", "--json", "lock", "list")
    assert (done.returncode, done.stderr) == (0, "")
    assert [(one["name"], one["held"]) for one in json.loads(done.stdout)] == [("report", True)]


@pytest.mark.parametrize(
    ("command", "code"),
    [(["true"], 0), (["sh", "-c", "kill -9 $$"], 137), (["no-such-program"], NOT_FOUND), (["/"], NOT_EXECUTABLE)],
)
def test_exit_codes_are_those_of_a_shell(rota: Rota, command: list[str], code: int) -> None:
    assert rota("lock", "run", "report", "--", *command).returncode == code


def test_a_taken_lock(rota: Rota, mine: package.App, tmp_path: Path) -> None:
    with mine, mine.lock_sync("report"):
        done = rota("lock", "run", "report", "--wait", "0s", "--", "touch", str(tmp_path / "ran"))
    assert done.returncode == TAKEN
    assert done.stderr.startswith("rota: lock 'report' is taken; its holder has had it for ")
    assert not (tmp_path / "ran").exists()


def test_a_command_is_ended_with_all_it_started_when_the_lock_is_lost(rota: Rota, mine: package.App) -> None:
    script = (
        f"trap '' TERM; {sys.executable} -c 'print(\"begun\", flush=True); import time; time.sleep(600)' & wait; wait"
    )
    running = rota.start("lock", "run", "report", "--ttl", "1s", "--", "sh", "-c", script)
    running.read_until("begun", "out")
    with mine:
        mine.sync(_free(mine))
        # The command's output has an end only when all its processes have ended.
        assert running.end() == LOST
        assert "rota: lock 'report' is lost: " in running.err


async def _free(app: package.App) -> None:
    await (await app._core.locks()).free("report")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_are_the_command_s_to_follow(rota: Rota, mine: package.App, number: int) -> None:
    running = rota.start("lock", "run", "report", "--", *STANDS)
    running.read_until("begun", "out")
    running.signal(number)
    # Python ends with 1 and a trace after SIGINT: as a shell has it, 130.
    assert running.end() in (128 + number, 1)
    with mine:
        assert not any(lock.held for lock in mine.locks_sync())


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["report"], "give a command after `--`, as in: rota lock run backup -- ./backup.sh"),
        (["report", "--"], "give a command after `--`"),
        (["report", "--ttl", "2h", "--", "true"], "ttl: '2h' is not valid; expected a duration from 1s to 1h"),
        (["report", "--wait", "soon", "--", "true"], "wait: 'soon' is not valid"),
        (["", "--", "true"], "lock: '' is not valid"),
    ],
)
def test_wrong_input(rota: Rota, words: list[str], says: str) -> None:
    done = rota("lock", "run", *words)
    assert done.returncode == 2
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_store_that_is_not_there_is_not_made(rota: Rota) -> None:
    """Two spellings of a store would be two locks."""
    done = rota("lock", "run", "report", "--store", "sqlite:///other.db", "--", "true")
    assert (done.returncode, "no store at other.db" in done.stderr) == (1, True)
