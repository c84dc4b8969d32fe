"""The keeper process itself: killed, closed, busy, and after long use."""

import asyncio
import gc
import os
import resource
import select
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rota.work import keeper as program
from rota.work.keeper import connection, report
from rota.work.keeper.client import KeeperClient, SpawnError
from tests.work.keeper.shell import ENV, LIMIT, PYTHON, Shell, ended, finish, until

FEW = 40  # descriptors: about twice as many as a keeper needs that has one command at a time


async def test_killed(shell: Shell, keeper: KeeperClient) -> None:
    script = "echo up; setsid sleep 1000 & sleep 1000"
    children = [await shell.start("/bin/sh", "-c", script) for _ in range(3)]
    shell.out.hang_up()
    for _ in children:
        assert await shell.out.line() == "up"
    before = keeper.pid
    assert before is not None
    os.kill(before, signal.SIGKILL)
    assert all([(await finish(child)).lost for child in children])
    shell.out.drain()
    assert (await finish(await shell.start("/bin/true"))).code == 0
    assert keeper.pid not in (None, before)


async def test_killed_while_idle(shell: Shell, keeper: KeeperClient) -> None:
    """Nothing has told the controller yet when it sends the next command."""
    assert keeper.pid is not None
    process = os.pidfd_open(keeper.pid)
    os.kill(keeper.pid, signal.SIGKILL)
    while not ended(process):
        select.select([process], [], [], LIMIT)
    os.close(process)
    exit, _ = await shell.run("/bin/true")
    assert exit.code == 0


async def test_a_deadline_brings_a_dead_one_back(shell: Shell, keeper: KeeperClient) -> None:
    before = keeper.pid
    assert before is not None
    os.kill(before, signal.SIGKILL)
    await until(lambda: keeper.pid is None)
    keeper.extend(time.clock_gettime(time.CLOCK_BOOTTIME) + 1000)
    assert keeper.pid not in (None, before)
    keeper.extend(None)


async def test_deaf_to_the_terminal(shell: Shell, keeper: KeeperClient) -> None:
    before = keeper.pid
    assert before is not None
    assert os.getsid(before) == before
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1):
        os.kill(before, number)
    exit, _ = await shell.run("/bin/true")
    assert (exit.code, keeper.pid) == (0, before)


async def test_start_is_idempotent(keeper: KeeperClient) -> None:
    before = keeper.pid
    await asyncio.gather(keeper.start(), keeper.start())
    assert keeper.pid == before


async def test_close_kills_what_is_left(shell: Shell, keeper: KeeperClient) -> None:
    assert keeper.pid is not None
    process = os.pidfd_open(keeper.pid)
    child = await shell.script("trap '' TERM; echo up; setsid sleep 1000 & sleep 1000")
    assert await shell.out.line() == "up"
    async with asyncio.timeout(LIMIT):
        await keeper.close()
    shell.out.drain()
    assert (await finish(child)).signal == signal.SIGKILL
    assert ended(process)
    assert keeper.pid is None
    os.close(process)
    with pytest.raises(SpawnError, match="closed"):
        await shell.start("/bin/true")


async def test_a_cancelled_spawn_leaves_nothing(shell: Shell, keeper: KeeperClient) -> None:
    for turns in range(6):
        task = asyncio.ensure_future(shell.start("/bin/sleep", "1000"))
        for _ in range(turns):
            await asyncio.sleep(0)
        if not task.cancel():
            (await task).kill()
        await asyncio.wait([task])
    shell.out.hang_up()
    await shell.out.end()


async def test_fifty_at_once(keeper: KeeperClient, null: int) -> None:
    async def one(number: int) -> int | None:
        argv = ["/bin/sh", "-c", f"exit {number}"]
        child = await keeper.spawn(argv, cwd="/", env=ENV, stdin=null, stdout=null, stderr=null)
        return (await finish(child)).code

    assert await asyncio.gather(*map(one, range(50))) == list(range(50))


@pytest.mark.slow
async def test_no_file_descriptor_is_left_open(shell: Shell, keeper: KeeperClient) -> None:
    """None of ours that was not open before; one that an earlier test forgot may be closed in between by the collector.
    Those of the keeper nobody can see; but it may have few, and its wardens too, and they last."""

    async def some(count: int) -> set[Path]:
        for _ in range(count):
            assert (await finish(await shell.start("/bin/true"))).code == 0
            with pytest.raises(SpawnError, match="not found"):
                await shell.start("/nope")
        gc.collect()
        return set(Path("/proc/self/fd").iterdir())

    assert keeper.pid is not None
    _, most = resource.prlimit(keeper.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(keeper.pid, resource.RLIMIT_NOFILE, (FEW, most))
    ours = await some(5)
    assert await some(4 * FEW) <= ours


def test_it_imports_next_to_nothing() -> None:
    """Each of these would cost memory, and time at every fork."""
    folder = Path(program.__file__).parents[1]
    lines = f"import sys; sys.path.append({str(folder)!r}); import keeper.loop; print(*sys.modules)"
    modules = subprocess.run([*PYTHON, lines], capture_output=True, text=True, check=True).stdout.split()
    assert "keeper.warden" in modules
    assert not {"asyncio", "collections", "enum", "json", "re", "rota", "signal", "site", "socket"} & set(modules)


class TestStopped:
    """A command of the same user can stop the keeper, which then hears nobody. It is told a deadline every second in a
    node; here, as fast as it goes."""

    async def told(self, keeper: KeeperClient, done: Callable[[], bool]) -> None:
        async with asyncio.timeout(LIMIT):
            while not done():
                keeper.extend(time.clock_gettime(time.CLOCK_BOOTTIME) + 1000)
                await asyncio.sleep(0.01)
        keeper.extend(None)

    async def test_it_is_set_going_again(
        self, shell: Shell, keeper: KeeperClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(connection, "SILENCE_LIMIT", 0.2)
        before = keeper.pid
        child = await shell.script("kill -STOP $(cut -d' ' -f4 /proc/$PPID/stat); echo stopped; sleep 1000")
        assert await shell.out.line() == "stopped"
        child.kill()
        ended = asyncio.ensure_future(child.wait())
        await self.told(keeper, ended.done)
        assert (await ended).signal == signal.SIGKILL
        assert keeper.pid == before

    async def test_one_that_is_stopped_again_and_again_is_replaced(
        self, shell: Shell, keeper: KeeperClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(connection, "SILENCE_LIMIT", 60.0)  # as good as stopped again at once
        monkeypatch.setattr(connection, "DEAFNESS_LIMIT", 0.5)
        before = keeper.pid
        script = "K=$(cut -d' ' -f4 /proc/$PPID/stat); setsid sleep 1000 & kill -STOP $K; echo stopped; sleep 1000"
        child = await shell.script(script)
        assert await shell.out.line() == "stopped"
        ended = asyncio.ensure_future(child.wait())
        await self.told(keeper, ended.done)
        assert (await ended).lost
        shell.out.drain()
        assert (await finish(await shell.start("/bin/true"))).code == 0
        assert keeper.pid not in (None, before)

    async def test_a_controller_that_slept_does_not_blame_the_keeper(
        self, shell: Shell, keeper: KeeperClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(connection, "DEAFNESS_LIMIT", 0.05)
        before = keeper.pid
        for _ in range(10):
            keeper.extend(None)
            time.sleep(0.1)
        exit, _ = await shell.run("/bin/true")
        assert (exit.code, keeper.pid) == (0, before)


class TestForgedReports:
    """A command can find the pipe of its report among its parent's descriptors if both are root's; else they are hidden
    from it."""

    FORGE = """
import os, sys, time
parent = f"/proc/{os.getppid()}/fd"
for name in os.listdir(parent):
    if os.readlink(f"{parent}/{name}").startswith("pipe:"):
        try: os.write(os.open(f"{parent}/{name}", os.O_WRONLY | os.O_NONBLOCK), sys.argv[1].encode())
        except OSError: pass
time.sleep(float(sys.argv[2]))
"""

    @pytest.mark.parametrize(
        "words", ["exit 0 0.0 0 -\n", "garbage\n", "\xff\n\n\n", "exit 0 0.0 0 -\n" * 3, "x" * 9000]
    )
    async def test_only_the_forger_is_harmed(
        self, shell: Shell, keeper: KeeperClient, words: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(report, "CLOSING_LIMIT", 0.2)
        neighbour = await shell.start("/bin/sleep", "1000")
        child = await shell.start(*PYTHON, self.FORGE, words, "1000")
        exit = await finish(child)
        assert exit.lost if os.geteuid() == 0 else exit.code == 1
        assert not Path(f"/proc/{child.pid}").exists()
        assert Path(f"/proc/{neighbour.pid}/stat").exists()
        neighbour.kill()
        assert (await finish(neighbour)).signal == signal.SIGKILL
        assert (await finish(await shell.start("/bin/true"))).code == 0
