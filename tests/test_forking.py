"""Forks, event loops that come and go, and threads: each process and each loop has connections of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.hot.lanes import empty
from tests.servers.postgres import database, shared_server

LIMIT = 120.0
# Since 3.12 Python warns of every fork of a process with threads; that it goes well is what is tested here.
WARNINGS = ("-W", "ignore:This process:DeprecationWarning", "-W", "always::ResourceWarning")


@pytest.fixture(params=["sqlite", "postgres", "hot"])
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """`hot`: PostgreSQL with a hot tier that keeps what is ordered."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/a.db"
        return
    if request.param == "hot":
        monkeypatch.setenv("ROTA_HOT", empty("valkey").url())
        monkeypatch.setenv("FORKING_DELAY", "30m")
    with database(shared_server()) as url:
        yield url


def run(deed: str, url: str) -> dict[str, Any]:
    """What was not closed is told on stderr."""
    done = subprocess.run(
        [sys.executable, *WARNINGS, "-m", "tests.forking_program", deed, url],
        capture_output=True, text=True, timeout=LIMIT, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.slow
def test_children_of_a_parent_that_has_used_the_app(url: str) -> None:
    assert run("forks", url) == {"different": True, "kept": True, "waited": True}


@pytest.mark.sampled
def test_forks_while_other_threads_use_the_app(url: str) -> None:
    assert run("busy_forks", url) == {"different": True}


@pytest.mark.slow
def test_multiprocessing(url: str) -> None:
    assert run("pools", url) == {"different": True}


@pytest.mark.slow
def test_a_fork_that_python_is_not_told_of(tmp_path: Path) -> None:
    seen = run("unannounced", f"sqlite:///{tmp_path}/a.db")
    assert seen["said"].startswith("StoreUnavailable: this process was forked while a call to")
    assert seen["parent"]


@pytest.mark.slow
def test_sixty_loops_leave_nothing_open(url: str) -> None:
    seen = run("loops", url)
    if url.startswith("postgres"):
        assert seen == {"first": 0, "many": 0, "rude": 0, "closed": 0}
    else:
        assert seen["first"] == seen["many"] == seen["rude"] > seen["closed"]


CLOSED_BY_HAND = """
import asyncio, sys, rota
app = rota.App(sys.argv[1])
for _ in range(5):
    loop = asyncio.new_event_loop()
    loop.run_until_complete(app.submit_command(["true"]))
    loop.close()  # without what `asyncio.run` does before
print(asyncio.run(app.submit_command(["true"])).id)
loop = asyncio.new_event_loop()
loop.run_until_complete(app.submit_command(["true"]))
loop.close()
"""


@pytest.mark.slow
def test_loops_that_are_closed_by_hand_are_no_cause_for_complaint(url: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CLOSED_BY_HAND, url], capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


@pytest.mark.sampled
def test_sixteen_threads_at_once(url: str) -> None:
    seen = run("threads", url)
    assert seen["different"]
    if url.startswith("postgres"):
        assert seen["connections"] <= 13, "one session, and the pools of one loop"


@pytest.mark.sampled
def test_what_is_closed_or_dropped_leaves_nothing_open(url: str) -> None:
    seen = run("ends", url)
    assert seen["closed"] <= seen["before"]
    assert "rota-sync" not in seen["threads"]


@pytest.mark.sampled
def test_the_process_ends_though_nothing_was_closed(url: str) -> None:
    assert run("left_open", url) == {}


CHILDREN = """
import rota.store.sqlite  # before rota.App, which loads the rest in another order
import os, sys
assert "concurrent.futures.thread" in sys.modules, "a child forked while a thread loads it could never load it"
from rota.clock import Chance, SystemClock
store = rota.store.sqlite.SqliteStore(sys.argv[1], SystemClock(), Chance())
for _ in range(3):
    if (child := os.fork()) == 0:
        print(store._wakeups._name, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


def test_children_make_names_of_their_own_whatever_was_imported_first(tmp_path: Path) -> None:
    program = [sys.executable, *WARNINGS, "-c", CHILDREN, str(tmp_path / "a.db")]
    done = subprocess.run(program, capture_output=True, text=True, timeout=LIMIT, check=True)
    assert len(set(done.stdout.split())) == 3


# -- many loops, and servers that fork -------------------------------------------------------------------------------
@pytest.fixture
def server_url() -> Iterator[str]:
    with database(shared_server()) as url:
        yield url


@pytest.mark.slow
def test_a_thousand_loops(server_url: str) -> None:
    seen = run("thousand_loops", server_url)
    assert 0 < seen.pop("most") <= 4 * 4, "four loops at a time; the server ends sessions a moment later"
    assert seen == {"different": True, "left": 0, "closed": 0}


@pytest.mark.slow
def test_async_to_sync_in_threads(server_url: str) -> None:
    seen = run("async_to_sync", server_url)
    assert 0 < seen.pop("most") <= 4 * 6
    assert seen == {"different": True, "closed": 0}


WEB = """
import json, os, rota
app = rota.App(os.environ["WEB_STORE"])
first = app.submit_command_sync(["true"], delay="1d").id  # the master uses it before the fork

def web(environ, start_response):
    job = app.submit_command_sync(["true"], delay="1d")
    found = app.sync(app.job(first)).id == first
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps({"worker": os.getpid(), "job": job.id, "found": found}).encode()]
"""


@pytest.mark.slow
def test_gunicorn_with_preload(server_url: str, tmp_path: Path) -> None:
    (tmp_path / "web.py").write_text(WEB)
    command = [
        sys.executable, "-m", "gunicorn", "--preload", "--workers", "2", "--bind", "127.0.0.1:0",
        "--no-control-socket", "--worker-tmp-dir", str(tmp_path), "web:web",
    ]  # fmt: skip
    log = tmp_path / "log"
    with log.open("w") as out:
        environment = {**os.environ, "WEB_STORE": server_url}
        master = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=out, stderr=out)
    try:
        until(lambda: log.read_text().count("Booting worker") == 2)
        answers = ask_until_both_workers_answered(re.findall(r"Listening at: (http://\S+)", log.read_text())[0])
        assert len({answer["job"] for answer in answers}) == len(answers)
        assert all(answer["found"] for answer in answers)
        assert 0 < sessions(server_url) <= 3 * 4, "the master, and two workers"
        master.send_signal(signal.SIGTERM)
        assert master.wait(LIMIT) == 0
        until(lambda: sessions(server_url) == 0)
    finally:
        master.kill()
        master.wait()
    said = log.read_text()
    assert "Traceback" not in said
    assert "WORKER TIMEOUT" not in said


def ask_until_both_workers_answered(address: str) -> list[dict[str, Any]]:
    """Several requests at once: a worker takes one at a time."""

    def ask(_: int) -> dict[str, Any]:
        with urllib.request.urlopen(address, timeout=LIMIT) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    answers: list[dict[str, Any]] = []
    with ThreadPoolExecutor(8) as pool:
        while len({one["worker"] for one in answers}) < 2:
            answers += pool.map(ask, range(16))
            assert len(answers) < 1000, "one worker has got them all"
    return answers


def sessions(url: str) -> int:
    with psycopg.connect(url) as db:
        row = db.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'rota'"
        ).fetchone()
    assert row is not None
    return int(row[0])


def until(true: Callable[[], bool]) -> None:
    pause, end = threading.Event(), time.monotonic() + LIMIT
    while not true():
        assert time.monotonic() < end
        pause.wait(0.02)
