"""Commands that misbehave, each beside a neighbour on the same node: it, the node and its lease are untouched."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import rota
from rota.model.job import JobInfo
from rota.model.lifecycle import State
from rota.model.outcome import Ending
from rota.telemetry.events import LeaseLost
from tests.node.running import LONG, make_app, running

pytestmark = pytest.mark.slow

PYTHON = [sys.executable, "-I", "-c"]


class Stage:
    def __init__(self, app: rota.App, folder: Path) -> None:
        self.app, self.folder = app, folder

    async def order(self, *argv: str, **options: Any) -> rota.Job[Any]:
        return await self.app.submit_command(list(argv), **{"retry": 0, **options})

    async def end_of(self, *argv: str, **options: Any) -> tuple[JobInfo, bytes, bytes]:
        job = await self.order(*argv, **options)
        info = await job.wait(LONG)
        chunks = [chunk async for chunk in job.output()]
        out, err = (b"".join(c.body for c in chunks if c.stream == name) for name in ("stdout", "stderr"))
        return info, out, err


@asynccontextmanager
async def beside_a_neighbour(folder: Path, **settings: Any) -> AsyncIterator[Stage]:
    """The neighbour runs from before the block until after it, and must not have noticed anything."""
    app = make_app(folder, **settings)
    os.mkfifo(folder / "go")
    async with running(app) as (node, probe):
        neighbour = await app.submit_command(["sh", "-c", "echo $$; read word < go; echo $word"], cwd=str(folder))
        async with asyncio.timeout(LONG):
            async for chunk in neighbour.output(follow=True):
                pid = int(chunk.body)
                break
        yield Stage(app, folder)
        os.kill(pid, 0)
        await asyncio.to_thread((folder / "go").write_text, "untouched\n")
        info = await neighbour.wait(LONG)
        assert (info.state, len(info.attempts)) == (State.SUCCEEDED, 1)
        assert await neighbour.logs() == f"{pid}\nuntouched\n"
        assert (await (await app.submit_command(["true"])).wait(LONG)).state is State.SUCCEEDED
        assert not [event for event in probe.seen if isinstance(event, LeaseLost)]
        assert node.running == 0


def problem(info: JobInfo) -> str:
    assert (info.state, len(info.attempts)) == (State.FAILED, 1)
    return info.error.type if info.error else ""


async def test_a_fork_bomb_under_a_process_limit(tmp_path: Path) -> None:
    bomb = """
import os
while True:
    try: os.fork()
    except OSError: pass
"""
    async with beside_a_neighbour(tmp_path, command_processes=40) as stage:
        info, _, _ = await stage.end_of(*PYTHON, bomb, timeout="700ms")
        assert info.attempts[0].outcome is Ending.TIMED_OUT


async def test_a_memory_hog(tmp_path: Path) -> None:
    hog = "import itertools\nhoard = [bytearray(10 << 20) for _ in itertools.count()]"
    async with beside_a_neighbour(tmp_path, command_memory="300MB") as stage:
        info, _, err = await stage.end_of(*PYTHON, hog, resources={"memory": "64GB"})
        assert (problem(info), b"MemoryError" in err) == ("rota.ExitCode", True)


async def test_output_without_a_final_newline_that_is_no_text(tmp_path: Path) -> None:
    async with beside_a_neighbour(tmp_path) as stage:
        info, out, err = await stage.end_of("sh", "-c", r"printf '\377\000\376end'; printf '\200' >&2")
        assert (info.state, out, err) == (State.SUCCEEDED, b"\xff\x00\xfeend", b"\x80")


DAEMON = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 3)
        open(sys.argv[1], "w").write(str(os.getpid()))
        time.sleep(1000)
    os._exit(0)
os.wait()
while not os.path.exists(sys.argv[1]) or not open(sys.argv[1]).read(): time.sleep(0.01)
print("ready", flush=True)
time.sleep(float(sys.argv[2]))
"""


@pytest.mark.parametrize("way", ["it ends", "timeout", "cancel"])
async def test_a_daemon_that_ignores_sigterm(tmp_path: Path, way: str) -> None:
    async with beside_a_neighbour(tmp_path) as stage:
        seconds = "0" if way == "it ends" else "1000"
        options: dict[str, Any] = {"timeout": "1s"} if way == "timeout" else {}
        job = await stage.order(*PYTHON, DAEMON, str(tmp_path / "pid"), seconds, **options)
        async with asyncio.timeout(LONG):
            async for _ in job.output(follow=True):
                break
        if way == "cancel":
            await job.cancel()
        info = await job.wait(LONG)
        with pytest.raises(ProcessLookupError):
            os.kill(int((tmp_path / "pid").read_text()), 0)
        assert info.attempts[0].outcome == {
            "it ends": Ending.SUCCEEDED, "timeout": Ending.TIMED_OUT, "cancel": Ending.CANCELLED,
        }[way]  # fmt: skip


async def test_closing_its_own_output_and_going_on(tmp_path: Path) -> None:
    async with beside_a_neighbour(tmp_path) as stage:
        script = f"echo first; exec >&- 2>&-; sleep 0.2; touch {tmp_path / 'later'}; exit 4"
        info, out, _ = await stage.end_of("sh", "-c", script)
        assert (problem(info), info.attempts[0].exit_code, out) == ("rota.ExitCode", 4, b"first\n")
        assert (tmp_path / "later").exists()


async def test_a_segfault_leaves_no_core(tmp_path: Path) -> None:
    async with beside_a_neighbour(tmp_path) as stage:
        crash = "import ctypes, resource\nresource.setrlimit(resource.RLIMIT_CORE, (0, 0))\nctypes.string_at(0)"
        info, _, _ = await stage.end_of(*PYTHON, crash, cwd=str(tmp_path))
        assert (problem(info), info.reason) == ("rota.Signal", "killed by SIGSEGV")
        assert not list(tmp_path.glob("core*"))


async def test_deleting_its_working_folder(tmp_path: Path) -> None:
    async with beside_a_neighbour(tmp_path) as stage:
        for script in ('rm -rf "$PWD"; pwd; exit 0', 'rm -rf "$(dirname "$PWD")"; exit 0', "cd /; exit 0"):
            info, _, _ = await stage.end_of("sh", "-c", script)
            assert info.state is State.SUCCEEDED


async def test_writing_to_its_parents_descriptors(tmp_path: Path) -> None:
    script = """
import os
for pid in (os.getppid(), int(open(f"/proc/{os.getppid()}/stat").read().rpartition(")")[2].split()[1])):
    try: names = os.listdir(f"/proc/{pid}/fd")
    except OSError: continue
    for name in names:
        try: os.write(os.open(f"/proc/{pid}/fd/{name}", os.O_WRONLY | os.O_NONBLOCK), b"exit 0 0.0 0 -\\n\\xff")
        except OSError: pass
"""
    app = make_app(tmp_path)
    async with running(app):
        forger = await app.submit_command([*PYTHON, script], retry=0)
        assert (await forger.wait(LONG)).ended
        # It may have reached the reports of others as well, if it is root; then these are lost, and tried again.
        after = await app.submit_command(["echo", "fine"])
        assert (await after.wait(LONG)).state is State.SUCCEEDED


async def test_a_hundred_thousand_bytes_of_environment(tmp_path: Path) -> None:
    async with beside_a_neighbour(tmp_path) as stage:
        variables = {"BIG": "x" * 50_000} | {f"V{number}": "y" * 500 for number in range(100)}
        info, out, _ = await stage.end_of("sh", "-c", "env | wc -c", env=variables, resources={"files": 50})
        assert info.state is State.SUCCEEDED
        assert int(out) > 100_000


@pytest.mark.parametrize(
    ("argv", "bounds", "said"),
    [
        (["dd", "if=/dev/zero", "of=big", "bs=1M", "count=100"], {"file_size": "1MB"}, "rota.FileSizeLimit"),
        ([*PYTHON, "while True: pass"], {"cpu": "1s"}, "rota.CpuLimit"),
        ([*PYTHON, "many = [open('/dev/null') for _ in range(1000)]"], {"files": 50}, "rota.ExitCode"),
    ],
)
async def test_other_bounds(tmp_path: Path, argv: list[str], bounds: dict[str, Any], said: str) -> None:
    async with beside_a_neighbour(tmp_path) as stage:
        info, _, err = await stage.end_of(*argv, resources=bounds)
        assert problem(info) == said
        assert (b"Too many open files" in err) == ("files" in bounds)


async def test_killing_and_stopping_its_warden(tmp_path: Path) -> None:
    async with beside_a_neighbour(tmp_path, crash_limit=1) as stage:
        killed, _, _ = await stage.end_of("sh", "-c", "kill -9 $PPID; sleep 1000")
        assert problem(killed) == "rota.KeeperLost"
        assert killed.attempts[0].outcome is Ending.CRASHED
        stopped, _, _ = await stage.end_of("sh", "-c", "kill -STOP $PPID; sleep 1000", timeout="500ms")
        assert stopped.attempts[0].outcome is Ending.TIMED_OUT


async def test_a_command_that_lost_what_stood_above_it_has_not_failed(tmp_path: Path) -> None:
    """It is run again although it has no retries, as it would be if its whole node had died."""
    async with beside_a_neighbour(tmp_path) as stage:
        script = f"test -e {tmp_path}/again && exit 0; touch {tmp_path}/again; kill -9 $PPID; sleep 1000"
        info, _, _ = await stage.end_of("sh", "-c", script, retry=0)
        assert [attempt.outcome for attempt in info.attempts] == [Ending.CRASHED, Ending.SUCCEEDED]
        assert (info.state, info.crashes, info.failures) == (State.SUCCEEDED, 1, 0)


async def test_what_a_node_refuses_is_said_and_not_tried_again(tmp_path: Path) -> None:
    async with beside_a_neighbour(tmp_path) as stage:
        for about, said in (({"inherit": ["SECRET"]}, "SECRET"), ({"user": "no-such-user"}, "no-such-user")):
            info, _, _ = await stage.end_of("true", retry=3, **about)
            assert (info.state, len(info.attempts)) == (State.FAILED, 1)
            assert said in (info.reason or "")
