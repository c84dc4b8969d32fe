"""Commands, from order to end, on a real node."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import rota
from rota.model.lifecycle import State
from rota.model.outcome import Ending
from rota.store.values import Cancelling
from tests.node.running import LONG, make_app, running


async def follow_until(job: rota.Job[Any], text: bytes) -> bytes:
    """The job's output so far, once it contains the text."""
    seen = b""
    async with asyncio.timeout(LONG):
        async for chunk in job.output(follow=True):
            seen += chunk.body
            if text in seen:
                return seen
    raise AssertionError(f"{text!r} never came; only {seen!r}")


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_folder_environment_and_output(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    os.environ["ROTA_TEST_SECRET"] = "of the node"
    script = "echo $PWD; echo $WHO; echo ${ROTA_TEST_SECRET:-none}; echo oops >&2; printf end"
    try:
        async with running(app):
            job = await app.submit_command(["sh", "-c", script], cwd=str(tmp_path), env={"WHO": "me"})
            info = await job.wait(LONG)
            chunks = [chunk async for chunk in job.output()]
    finally:
        del os.environ["ROTA_TEST_SECRET"]
    assert (info.state, info.attempts[0].exit_code, info.task) == (State.SUCCEEDED, 0, "sh")
    out = b"".join(chunk.body for chunk in chunks if chunk.stream == "stdout")
    assert out.decode() == f"{tmp_path}\nme\nnone\nend"
    assert b"".join(chunk.body for chunk in chunks if chunk.stream == "stderr") == b"oops\n"


async def test_the_fence_reaches_the_command(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    async with running(app):
        job = await app.submit_command(
            ["sh", "-c", "echo $ROTA_JOB $ROTA_ATTEMPT $ROTA_FENCE; test $ROTA_ATTEMPT = 2"],
            retry=rota.Retry(2, backoff="10ms"),
        )
        assert (await job.wait(LONG)).state is State.SUCCEEDED
        assert await job.logs() == f"{job.id} 1 1\n{job.id} 2 2\n"


async def test_exit_codes(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    fast = rota.Retry(1, backoff="10ms")
    async with running(app):
        retriable = await app.submit_command(["sh", "-c", "exit 75"], retry=fast)
        fatal = await app.submit_command(["sh", "-c", "exit 9"], retry=fast, fatal_exit_codes=[9])
        signal = await app.submit_command(["sh", "-c", "kill -SEGV $$"], retry=0)
        infos = [await job.wait(LONG) for job in (retriable, fatal, signal)]
    assert [info.state for info in infos] == [State.FAILED] * 3
    assert [[a.exit_code for a in info.attempts] for info in infos] == [[75, 75], [9], [139]]
    assert infos[2].reason == "killed by SIGSEGV"


async def test_a_missing_program_and_a_missing_folder_fail_for_good_and_say_so(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    async with running(app):
        program = await (await app.submit_command(["no-such-program"])).wait(LONG)
        folder = await (await app.submit_command(["true"], cwd=str(tmp_path / "gone"))).wait(LONG)
    assert len(program.attempts) == len(folder.attempts) == 1
    assert program.attempts[0].exit_code == 127
    assert "no-such-program" in (program.reason or "")
    assert str(tmp_path / "gone") in (folder.reason or "")


async def test_a_timeout_kills_the_whole_tree_even_if_it_ignores_the_signal(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    script = f"""
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open({str(tmp_path / "pid")!r}, "w").write(str(os.getpid()))
        print("ready", flush=True)
        time.sleep(1000)
    os._exit(0)
time.sleep(1000)
"""
    async with running(app):
        job = await app.submit_command([sys.executable, "-c", script], timeout="1s", retry=0)
        info = await job.wait(LONG)
        grandchild = int((tmp_path / "pid").read_text())
        assert not alive(grandchild)
    assert info.attempts[0].outcome is Ending.TIMED_OUT


async def test_cancel_of_a_running_command(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    async with running(app):
        job = await app.submit_command(["sh", "-c", "echo $$; sleep 1000 & wait"])
        pid = int(await follow_until(job, b"\n"))
        assert await job.cancel() is Cancelling.REQUESTED
        info = await job.wait(LONG)
        assert info.state is State.CANCELLED
        assert not alive(pid)


async def test_bytes_that_are_no_text_survive(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    async with running(app):
        job = await app.submit_command(["printf", r"\377\000\n"])
        await job.wait(LONG)
        assert [chunk.body async for chunk in job.output()] == [b"\xff\x00\n"]


async def test_a_node_without_functions_leaves_them_alone(tmp_path: Path) -> None:
    bare, full = make_app(tmp_path), make_app(tmp_path)

    @full.task
    async def mine() -> str:
        return "done"

    job = await mine.submit()
    async with running(bare):
        assert (await (await bare.submit_command(["true"])).wait(LONG)).state is State.SUCCEEDED
        assert (await job.info()).state is State.READY
        async with running(full):
            assert await job.result(LONG) == "done"
