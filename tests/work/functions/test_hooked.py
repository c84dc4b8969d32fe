"""Hooks in real processes: where they run, when processes start and stop, and what a failing start does."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rota.errors import JobFailed, RotaError
from rota.model.retry import Retry
from rota.tasks.hooks import Hooks, ProcessInfo
from rota.telemetry.events import PoolFailed
from rota.work.functions import client, hooked
from rota.work.functions.hooked import NodeHooks
from tests.node.running import LONG, Probe, running

APP = """
import asyncio, os, pathlib, time
import rota

FOLDER = pathlib.Path({folder!r})
app = rota.App(f"sqlite:///{{FOLDER}}/a.db", queues="default:4", warm_processes=1, kill_grace="1s")
ENGINE = None


def note(*words):
    with (FOLDER / "notes").open("a") as file:
        print(*words, file=file)


@app.on("process.start")
async def begin(process):
    global ENGINE
    await asyncio.sleep(0)
    if (FOLDER / f"broken {{process.kind}}").exists():
        raise ConnectionError("no database")
    if (FOLDER / f"leaving {{process.kind}}").exists():
        raise SystemExit("no database")
    if (FOLDER / f"exiting {{process.kind}}").exists():
        os._exit(3)
    if (FOLDER / f"hanging {{process.kind}}").exists():
        time.sleep(60)
    ENGINE = f"engine of {{process.kind}} {{process.pid == os.getpid()}}"
    note("start", process.kind)


@app.on("process.stop")
def end(process):
    note("stop", process.kind)


@app.around("submit")
def tag(submission):
    submission.meta["trace"] = "t1"
    yield


@app.around("attempt")
async def around(ctx):
    ctx.log(f"trace {{ctx.meta.get('trace')}}")
    try:
        yield
    finally:
        ctx.log("out")


@app.on("attempt.after")
def after(ctx, end):
    note("after", ctx.job.task, end.outcome)


@app.task(retry=0)
def sync() -> str:
    return ENGINE


@app.task(retry=0)
async def shared() -> str:
    return ENGINE


@app.task(retry=0, isolation="thread")
def thread() -> str:
    return ENGINE


@app.task(retry=0, timeout="300ms")
def slow() -> None:
    time.sleep(60)


@app.task(retry=0, timeout="300ms")
async def slow_async() -> None:
    await asyncio.sleep(60)
"""


@pytest.fixture
def hooked_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    (tmp_path / "hooked_app.py").write_text(APP.format(folder=str(tmp_path)))
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    yield importlib.import_module("hooked_app")
    del sys.modules["hooked_app"]


async def test_hooks_run_where_functions_run(hooked_app: Any, tmp_path: Path) -> None:
    async with running(hooked_app.app):
        jobs = [await one.submit() for one in (hooked_app.sync, hooked_app.shared, hooked_app.thread)]
        assert [await job.result(LONG) for job in jobs] == [
            f"engine of {kind} True" for kind in ("pool", "host", "host")
        ]
        assert [await job.logs() for job in jobs] == ["trace t1\nout\n"] * 3
        stopped = [await one.submit() for one in (hooked_app.slow, hooked_app.slow_async)]
        assert [(await job.wait(LONG)).attempts[-1].outcome for job in stopped] == ["timed_out"] * 2
        await (await hooked_app.sync.submit()).result(LONG)  # in a new process: the other was killed
    notes = (tmp_path / "notes").read_text().splitlines()
    assert notes[0] == "start node"
    assert notes[-1] == "stop node"
    assert sorted(line for line in notes if line.startswith("after")) == [
        "after shared succeeded", "after slow stopped", "after slow_async stopped", "after sync succeeded",
        "after sync succeeded", "after thread succeeded",
    ]  # fmt: skip
    for kind in ("pool", "host"):
        assert f"start {kind}" in notes
        assert f"stop {kind}" in notes


@pytest.mark.sampled
@pytest.mark.parametrize("how", ["broken", "leaving"])
async def test_a_start_that_fails_fails_attempts_until_it_succeeds(how: str, hooked_app: Any, tmp_path: Path) -> None:
    broken = [tmp_path / f"{how} {kind}" for kind in ("pool", "host")]
    for place in broken:
        place.touch()
    async with running(hooked_app.app):
        jobs = [await one.submit() for one in (hooked_app.sync, hooked_app.shared)]
        for job in jobs:
            with pytest.raises(JobFailed, match="no database"):
                await job.result(LONG)
        for place in broken:
            place.unlink()
        jobs = [await one.submit() for one in (hooked_app.sync, hooked_app.shared)]
        assert [await job.result(LONG) for job in jobs] == ["engine of pool True", "engine of host True"]


@pytest.mark.sampled
@pytest.mark.parametrize(("kind", "task"), [("pool", "sync"), ("host", "shared")])
async def test_a_start_that_hangs_is_killed_and_told_and_no_job_is_blamed(
    kind: str, task: str, hooked_app: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "START_LIMIT", 0.3)
    hanging = [tmp_path / "hanging pool", tmp_path / "hanging host"]
    for place in hanging:
        place.touch()
    async with running(hooked_app.app) as (_, probe):
        # Both are killed: one of them has nothing to do.
        job = await getattr(hooked_app, task).submit()
        for count in (2, 4):
            await probe.until(PoolFailed, lambda _, least=count: told(probe) >= least)  # type: ignore[misc]
        monkeypatch.setattr(client, "START_LIMIT", LONG)
        for place in hanging:
            place.unlink()
        assert await job.result(LONG) == f"engine of {kind} True"
        assert [one.outcome for one in (await job.info()).attempts] == ["succeeded"]


@pytest.mark.slow
async def test_a_start_that_ends_its_process_is_told_once_and_fails_attempts(hooked_app: Any, tmp_path: Path) -> None:
    exiting = [tmp_path / "exiting pool", tmp_path / "exiting host"]
    for place in exiting:
        place.touch()
    async with running(hooked_app.app) as (_, probe):
        for _ in range(2):
            jobs = [await one.submit() for one in (hooked_app.sync, hooked_app.shared)]
            for job in jobs:
                with pytest.raises(JobFailed, match=r"process\.start \(begin\) .* exited with code 3") as failed:
                    await job.result(LONG)
                assert failed.value.type == "rota.StartFailed"
        said = [event.error for event in probe.seen if isinstance(event, PoolFailed)]
        assert len(said) == 2, "one line for each kind of process"
        assert all("did not start; the hooks process.start (begin) have ended" in one for one in said)
        for place in exiting:
            place.unlink()
        # With retries: a process that was forked before may still end.
        again = {"retry": Retry(5, backoff="50ms")}
        jobs = [await one.options(**again).submit() for one in (hooked_app.sync, hooked_app.shared)]
        assert [await job.result(LONG) for job in jobs] == ["engine of pool True", "engine of host True"]


def told(probe: Probe) -> int:
    said = [event.error for event in probe.seen if isinstance(event, PoolFailed)]
    return sum("process.start hooks took longer than 0.3 s" in one for one in said)


async def test_a_node_whose_start_fails_does_not_start(hooked_app: Any, tmp_path: Path) -> None:
    (tmp_path / "broken node").touch()
    with pytest.raises(RotaError, match=r"a hook process\.start of the node failed: ConnectionError: no database"):
        async with running(hooked_app.app):
            pass


async def test_the_hooks_of_a_node_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    hooks, over, told = Hooks(), threading.Event(), list[str]()
    for event in ("process.start", "process.stop"):
        hooks.on(event)(lambda process: over.wait(LONG))
    monkeypatch.setattr(hooked, "START_LIMIT", 0.05)
    monkeypatch.setattr(hooked, "STOP_LIMIT", 0.05)
    try:
        with pytest.raises(RotaError, match=r"process\.start of the node took longer than 0\.05 s"):
            await NodeHooks(hooks, told.append).start()
        await NodeHooks(hooks, told.append).stop()
        assert told == ["the hooks process.stop of the node took longer than 0.05 s"]
    finally:
        over.set()


async def test_a_stop_hook_of_a_node_that_fails_is_told_and_the_others_run() -> None:
    hooks, told, ran = Hooks(), list[str](), list[str]()
    hooks.on("process.stop")(lambda process: ran.append(process.kind))

    @hooks.on("process.stop")
    def late(process: ProcessInfo) -> None:
        raise TimeoutError("its own limit")

    @hooks.on("process.stop")
    async def fails(process: ProcessInfo) -> None:
        raise ConnectionError("no database")

    await NodeHooks(hooks, told.append).stop()
    assert ran == ["node"]
    first, second = told
    assert "fails of the node failed: ConnectionError: no database (" in first
    assert first.endswith("in fails)")
    assert "late of the node failed: TimeoutError: its own limit (" in second
