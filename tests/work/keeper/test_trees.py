"""A command's processes, all of them.

In most of these, `drain` raises if a process of the tree is left when wait() has returned.
"""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from rota.work.keeper import tree
from rota.work.keeper.client import KeeperClient
from tests.work.keeper.shell import LIMIT, LISTENER, PYTHON, Pipe, Shell, ended, finish, until


async def test_a_child_left_in_the_background(shell: Shell) -> None:
    child = await shell.script("sleep 1000 & exit 0")
    assert (await finish(child)).code == 0
    shell.out.drain()


async def test_a_daemon_by_double_fork_and_setsid(shell: Shell, gate: Pipe) -> None:
    daemon = "(setsid sh -c 'echo $$; exec sleep 1000' &)"
    child = await shell.script(f"{daemon}; read go; exit 4", stdin=gate.reader)
    pidfd = os.pidfd_open(int(await shell.out.line()))
    assert not ended(pidfd)
    os.write(gate.writer, b"go\n")
    assert (await finish(child)).code == 4
    assert ended(pidfd)
    shell.out.drain()
    os.close(pidfd)


async def test_terminate_asks_everyone_in_the_tree(shell: Shell) -> None:
    inner = "if not os.fork(): os.setsid(); say('up'); hear(); say('inner'); os._exit(0)\n"
    outer = "say('up'); hear(); say('outer'); os.wait(); os._exit(9)"
    child = await shell.only(*PYTHON, LISTENER + inner + outer)
    assert [await shell.out.line(), await shell.out.line()] == ["up", "up"]
    child.terminate()
    assert {await shell.out.line(), await shell.out.line()} == {"inner", "outer"}
    assert (await finish(child)).code == 9
    shell.out.drain()


async def test_terminate_reaches_the_stopped(shell: Shell) -> None:
    stopped = "os.kill(0, signal.SIGSTOP); hear(); say('heard'); os._exit(3)"
    child = await shell.only(*PYTHON, LISTENER + stopped)
    stat = Path(f"/proc/{child.pid}/stat")
    await until(lambda: stat.read_bytes().rpartition(b")")[2].split()[0] == b"T")
    child.terminate()
    assert await shell.out.line() == "heard"
    assert (await finish(child)).code == 3


async def test_who_does_not_heed_is_killed(shell: Shell) -> None:
    child = await shell.only(*PYTHON, LISTENER + "say('up'); hear(); say('no'); time.sleep(1000)")
    assert await shell.out.line() == "up"
    child.terminate()
    assert await shell.out.line() == "no"
    child.kill()
    assert (await finish(child)).signal == signal.SIGKILL
    shell.out.drain()


async def test_a_tree_of_many_sessions(shell: Shell) -> None:
    fork = 'for i in 1 2 3; do setsid sh -c "$2" sh $(($1 - 1)) "$2" & done'
    grow = f"echo up; [ $1 = 0 ] || {fork}; sleep 1000"
    child = await shell.only("/bin/sh", "-c", grow, "sh", "3", grow)
    for _ in range(1 + 3 + 9 + 27):
        assert await shell.out.line() == "up"
    child.kill()
    assert (await finish(child)).signal == signal.SIGKILL
    shell.out.drain()


@pytest.mark.parametrize("stop", ["kill", "main ends"])
async def test_a_tree_that_runs_away(shell: Shell, gate: Pipe, stop: str) -> None:
    """Each process forks the next, in a new session, and is gone: no list of them is ever right."""
    run = (
        "import os, time\n"
        "if os.fork():\n"
        "    os.read(0, 1)\n"
        "    os._exit(0)\n"
        "os.write(1, b'off\\n')\n"
        "limit = time.monotonic() + 60\n"
        "while time.monotonic() < limit:\n"
        "    if os.fork(): os._exit(0)\n"
        "    os.setsid()\n"
    )
    child = await shell.only(*PYTHON, run, stdin=gate.reader)
    assert await shell.out.line() == "off"
    if stop == "kill":
        child.kill()
    else:
        os.write(gate.writer, b"x")
    await finish(child)
    shell.out.drain()


async def test_a_tree_that_multiplies(shell: Shell) -> None:
    """While we look, every process forks, each child in a session of its own (and stops at 256)."""
    run = (
        "import os, time\n"
        "os.write(1, b'up\\n')\n"
        "for _ in range(8):\n"
        "    if os.fork() == 0: os.setsid()\n"
        "time.sleep(60)\n"
    )
    child = await shell.only(*PYTHON, run)
    assert await shell.out.line() == "up"
    child.kill()
    assert (await finish(child)).signal == signal.SIGKILL
    shell.out.drain()


async def test_a_command_that_kills_its_warden(shell: Shell, keeper: KeeperClient) -> None:
    before = keeper.pid
    child = await shell.script("setsid sleep 1000 & kill -9 $PPID; sleep 1000")
    assert (await finish(child)).lost
    shell.out.drain()
    assert keeper.pid == before


async def test_a_command_that_stops_its_warden(shell: Shell) -> None:
    child = await shell.script("kill -STOP $PPID; echo done; sleep 1000")
    assert await shell.out.line() == "done"
    child.kill()
    assert (await finish(child)).signal == signal.SIGKILL
    shell.out.drain()


async def test_a_late_kill_does_not_hit_the_next_command(shell: Shell) -> None:
    first = await shell.start("/bin/true")
    await finish(first)
    second = await shell.only(*PYTHON, LISTENER + "say('up'); hear(); say('alive'); os._exit(6)")
    assert await shell.out.line() == "up"
    first._link.send(f"kill {first._name}")
    second.terminate()
    assert await shell.out.line() == "alive"
    assert (await finish(second)).code == 6


def test_a_program_may_have_any_name(tmp_path: Path) -> None:
    path = tmp_path / "a) R 1 (b"
    shutil.copy("/bin/sleep", path)
    with subprocess.Popen([path, "1000"]) as process:
        assert tree.parent_of(process.pid) == os.getpid()
        assert process.pid in tree.descend({os.getpid()})
        assert process.pid not in tree.descend({os.getpid()}, spare=[process.pid])
        process.kill()


def test_a_pid_that_is_not_ours_is_not_signalled() -> None:
    with subprocess.Popen(["/bin/sleep", "1000"]) as process:
        tree.hit(process.pid, {1}, signal.SIGKILL)
        assert process.poll() is None
        tree.hit(process.pid, {os.getpid()}, signal.SIGKILL)
        assert process.wait(LIMIT) == -signal.SIGKILL
