"""A controller that is killed or stopped, as a process of its own."""

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import rota
from tests.work.keeper.shell import ENV, Pipe, ended, readable, until

# A controller, to be killed or stopped. It takes the lock, starts two processes, says its keeper's pid, and
# then, if it is given a number, renews a lease of that many seconds and says so after each.
CONTROLLER = """
import asyncio, fcntl, sys, time
from rota.work.keeper.client import KeeperClient

async def main(lock, lease):
    fcntl.flock(lock, fcntl.LOCK_EX)
    keeper = KeeperClient(guards=[lock.fileno()])
    await keeper.start()
    script = "echo $$; setsid sh -c 'echo $$; exec sleep 1000' & trap '' TERM; sleep 1000 & wait"
    child = await keeper.spawn(["/bin/sh", "-c", script], cwd=None, env={}, stdin=0, stdout=1, stderr=2)
    while lease:
        keeper.extend(time.clock_gettime(time.CLOCK_BOOTTIME) + lease)
        await asyncio.sleep(lease / 4)
        print("renewed", keeper.pid, flush=True)
    print("up", keeper.pid, flush=True)
    await child.wait()

asyncio.run(main(open(sys.argv[1], "a"), float(sys.argv[2])))
"""


class Controller:
    def __init__(self, lock: Path, lease: float, out: Pipe) -> None:
        self.lock = lock.open("a")
        self.out = out
        self.process = subprocess.Popen(
            [sys.executable, "-c", CONTROLLER, str(lock), str(lease)],
            stdin=subprocess.DEVNULL,
            stdout=out.writer,
            env=ENV | {"PYTHONPATH": str(Path(rota.__file__).parents[1])},
        )
        out.hang_up()

    async def words(self, count: int) -> list[str]:
        return [await self.out.line() for _ in range(count)]

    def locked(self) -> bool:
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        fcntl.flock(self.lock, fcntl.LOCK_UN)
        return False

    async def unlocked(self) -> None:
        await until(lambda: not self.locked())

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.lock.close()


async def test_killed(out: Pipe, tmp_path: Path) -> None:
    controller = Controller(tmp_path / "lock", 0, out)
    words = await controller.words(3)
    keeper = next(int(word.split()[1]) for word in words if word.startswith("up"))
    tree = [os.pidfd_open(int(word)) for word in words if word.isdigit()]
    end = os.pidfd_open(keeper)
    wardens = [int(word) for word in Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()]
    for pid in (keeper, *wardens):  # so that there is a time between the controller's end and the tree's
        os.kill(pid, signal.SIGSTOP)
    controller.process.kill()
    controller.process.wait()
    assert controller.locked()
    assert not any(map(ended, tree))
    for pid in (keeper, *wardens):
        os.kill(pid, signal.SIGCONT)
    await controller.unlocked()
    assert all(map(ended, tree))
    out.drain()
    await readable(end)
    for pidfd in (end, *tree):
        os.close(pidfd)
    controller.close()


async def test_killed_while_its_keeper_is_stopped(out: Pipe, tmp_path: Path) -> None:
    """By a command, say: then nobody is left who would set it going again."""
    controller = Controller(tmp_path / "lock", 0, out)
    words = await controller.words(3)
    keeper = next(int(word.split()[1]) for word in words if word.startswith("up"))
    tree = [os.pidfd_open(int(word)) for word in words if word.isdigit()]
    os.kill(keeper, signal.SIGSTOP)
    controller.process.kill()
    for pidfd in tree:
        await readable(pidfd)
        os.close(pidfd)
    os.kill(keeper, signal.SIGCONT)
    await controller.unlocked()
    controller.close()


async def test_killed_with_its_keeper(out: Pipe, tmp_path: Path) -> None:
    controller = Controller(tmp_path / "lock", 0, out)
    words = await controller.words(3)
    tree = [os.pidfd_open(int(word)) for word in words if word.isdigit()]
    os.kill(next(int(word.split()[1]) for word in words if word.startswith("up")), signal.SIGKILL)
    controller.process.kill()
    await controller.unlocked()
    assert all(map(ended, tree))
    for pidfd in tree:
        os.close(pidfd)
    controller.close()


async def test_stopped_past_the_deadline(out: Pipe, tmp_path: Path) -> None:
    controller = Controller(tmp_path / "lock", 0.4, out)
    words = await controller.words(2 + 8)  # so the lease, renewed, has been lived through twice
    tree = [os.pidfd_open(int(word)) for word in words if word.isdigit()]
    assert not any(map(ended, tree))
    pidfd = os.pidfd_open(controller.process.pid)
    controller.process.send_signal(signal.SIGSTOP)
    await readable(pidfd)
    assert controller.process.wait() == -signal.SIGKILL
    assert all(map(ended, tree))
    await controller.unlocked()
    for fd in (pidfd, *tree):
        os.close(fd)
    controller.close()
