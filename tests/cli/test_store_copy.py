"""`rota store copy`: what it says and refuses. tests/store/test_copy.py has what it copies."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from rota.app_core import AppCore
from rota.model.node import NewNode
from rota.model.principal import SYSTEM
from rota.model.times import SECOND
from rota.store.copy import Copy
from tests.cli.program import LONG, Rota
from tests.servers.postgres import fresh_schema_name, shared_server


class Refused:
    """Runs verbs that fail, and returns the one line that they say."""

    def __init__(self, rota: Rota, capsys: pytest.CaptureFixture[str]) -> None:
        self._rota, self._capsys = rota, capsys

    def __call__(self, *words: str, code: int) -> str:
        self._capsys.readouterr()
        found, _ = self._rota.here(*words)
        said = self._capsys.readouterr().err
        assert (found, said.count("\n")) == (code, 1), said
        return said


@pytest.fixture
def refused(rota: Rota, capsys: pytest.CaptureFixture[str]) -> Refused:
    return Refused(rota, capsys)


def store(rota: Rota, name: str) -> str:
    return f"sqlite:///{rota.folder / name}"


def test_a_copy_with_its_words(rota: Rota, refused: Refused) -> None:
    rota.ok("submit", "--in", "1h", "--", "true")
    here, there = store(rota, "rota.db"), store(rota, "other.db")
    shown = rota.ok("store", "copy", here, there, "--dry-run")
    assert "1 rows to copy" in shown
    assert not (rota.folder / "other.db").exists()
    copied = rota.json("store", "copy", here, there)
    assert (copied["tables"]["live"]["rows"], copied["verified"], copied["resumed"]) == (1, True, False)
    assert len(copied["tables"]["live"]["digest"]) == 32
    assert len(rota.json("job", "list", "--store", there)) == 1
    again = refused("store", "copy", here, there, code=2)
    assert "expected an empty store; it has 1 jobs in 'live'" in again
    assert "expected an empty store" in refused("store", "copy", here, there, "--dry-run", code=2)


def test_wrong_stores(rota: Rota, refused: Refused) -> None:
    here = store(rota, "rota.db")
    assert "no store at" in refused("store", "copy", here, store(rota, "b.db"), code=1)
    rota.ok("submit", "--in", "1h", "--", "true")
    assert "another store than SOURCE" in refused("store", "copy", here, f"sqlite:///{rota.folder}/./rota.db", code=2)
    assert "in memory" in refused("store", "copy", here, "sqlite:///:memory:", code=2)
    assert "secret" not in refused("store", "copy", here, "postgresql://u:secret@127.0.0.1:1/x", code=1)
    assert "expected" in refused("store", "copy", here, "mysql://x", code=2)


@pytest.mark.slow
def test_living_nodes_are_in_the_way_and_dead_ones_are_not(rota: Rota, refused: Refused) -> None:
    here, there = store(rota, "rota.db"), store(rota, "other.db")
    node = rota.up("--node", "first")
    try:
        job = rota.ok("submit", "--retries", "0", "--", "sh", "-c", "echo started; sleep 60").strip()
        follow = rota.start("job", "logs", job, "--follow")
        follow.read_until("started", "out")
        assert "nodes use" in refused("store", "copy", here, there, code=1)
        rota.ok("submit", "--in", "1h", "--store", there, "--", "true")
        assert "nodes use" in refused("store", "copy", there, here, code=1)
    finally:
        node.kill()
    follow.kill()
    third = store(rota, "third.db")
    until = time.monotonic() + LONG
    while rota.here("store", "copy", here, third)[0]:  # until all that the node had started has ended
        assert time.monotonic() < until
    info = rota.json("job", "show", job, "--store", third)
    assert (info["crashes"], info["attempts"][0]["outcome"]) == (1, "crashed")
    assert info["state"] in ("scheduled", "ready")


KILLED = """
import os, sys
from rota.cli.main import main
from rota.store.sqlite.dump import SqliteSide
from rota.store.postgres.dump import PostgresSide
side, batches = {"sqlite": SqliteSide, "postgres": PostgresSide}[sys.argv[1]], int(sys.argv[2])
put = side.put
async def dying(self, table, columns, rows, place):
    global batches
    batches -= bool(rows)
    if batches < 0:
        os.kill(os.getpid(), 9)
    await put(self, table, columns, rows, place)
side.put = dying
sys.exit(main(["store", "copy", *sys.argv[3:]]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_killed_again_and_again(rota: Rota, engine: str) -> None:
    """Each process is killed after a few batches; in the end there is one copy of each job."""
    here = store(rota, "rota.db")
    schema = fresh_schema_name()
    there = store(rota, "other.db") if engine == "sqlite" else f"{shared_server().url()}?schema={schema}"
    lines = "import asyncio, rota\napp = rota.App()\n@app.task\ndef t(n: int) -> None: ...\n"
    lines += "asyncio.run(t.submit_many([{'n': n} for n in range(4000)]))\n"
    subprocess.run([sys.executable, "-c", lines], cwd=rota.folder, check=True, timeout=60)
    kills = 0
    while True:
        done = subprocess.run(
            [sys.executable, "-c", KILLED, engine, "3", here, there], cwd=rota.folder, timeout=60, check=False
        )
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL
        kills += 1
    assert kills == 2, "tasks and eight batches of jobs, three for each process"
    assert len(rota.json("job", "list", "--limit", "10000", "--store", there)) == 4000
    if engine == "postgres":
        shared_server().execute(f"DROP SCHEMA {schema} CASCADE")


def test_the_password_is_never_shown(rota: Rota) -> None:
    rota.ok("submit", "--in", "1h", "--", "true")
    schema = fresh_schema_name()
    there = shared_server().url().replace("postgres@", "postgres:secret@") + f"?schema={schema}"
    assert "secret" not in rota.ok("store", "copy", store(rota, "rota.db"), there)
    shared_server().execute(f"DROP SCHEMA {schema} CASCADE")


def test_a_node_that_came_and_went_during_the_copy_is_found(
    rota: Rota, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    rota.ok("submit", "--in", "1h", "--", "true")
    here, there = store(rota, "rota.db"), store(rota, "other.db")
    check = Copy._check_source

    async def check_beside_a_node(copy: Copy) -> None:
        await check(copy)
        beside = AppCore(here).make_store()
        await beside.open()
        await beside.register(SYSTEM, NewNode("late", "late1", ("worker",), {}, "", 10 * SECOND), [])
        await beside.leave(SYSTEM, "late1")
        await beside.close()

    with monkeypatch.context() as patched:
        patched.setattr(Copy, "_check_source", check_beside_a_node)
        assert "was used by nodes while it was copied (late); stop them" in refused(
            "store", "copy", here, there, code=1
        )
    assert rota.json("store", "copy", here, there)["resumed"]
