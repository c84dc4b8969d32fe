"""The keeper with real processes.

The proof that a tree is gone is mostly the same: all of it holds the writing end of a pipe, so the reading
end sees the end of file exactly when the last process has left.
"""

import asyncio
import errno
import fcntl
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path

import pytest

import rota
from rota.work import keeper as program
from rota.work.keeping import Child, Exit, Keeper, SpawnError

LIMIT = 20.0  # seconds for what should happen at once: a loaded machine is slow, a bug waits for ever
ENV = {"PATH": "/usr/bin:/bin"}

# The beginning of programs that hear SIGTERM at a time of their own choice; traps of shells have races.
PYTHON = (sys.executable, "-I", "-S", "-c")
LISTENER = """
import os, signal, time
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
hear = lambda: signal.sigwait([signal.SIGTERM])
say = lambda word: os.write(1, word.encode() + b"\\n")
"""


class Pipe:
    """The output of a command."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.reader, False)
        self.rest = b""

    async def line(self) -> str:
        while b"\n" not in self.rest:
            await readable(self.reader)
            data = os.read(self.reader, 65536)
            assert data, f"ended after {self.rest!r}"
            self.rest += data
        line, _, self.rest = self.rest.partition(b"\n")
        return line.decode()

    def drain(self) -> bytes:
        """All there is, to the end. Raises BlockingIOError while anyone could still write."""
        while data := os.read(self.reader, 65536):
            self.rest += data
        return self.rest

    async def end(self) -> None:
        async with asyncio.timeout(LIMIT):
            while True:
                await readable(self.reader)
                if not os.read(self.reader, 65536):
                    return

    def hang_up(self) -> None:
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def close(self) -> None:
        self.hang_up()
        os.close(self.reader)


async def readable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    event = asyncio.Event()
    loop.add_reader(fd, event.set)
    try:
        async with asyncio.timeout(LIMIT):
            await event.wait()
    finally:
        loop.remove_reader(fd)


async def until(true: Callable[[], bool]) -> None:
    """For what sends no event."""
    async with asyncio.timeout(LIMIT):
        while not true():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


def count_fds(process: object) -> int:
    return len(list(Path(f"/proc/{process}/fd").iterdir()))


def ended(pidfd: int) -> bool:
    return bool(select.select([pidfd], [], [], 0)[0])


@pytest.fixture
def out() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    pipe.close()


@pytest.fixture
def gate() -> Iterator[Pipe]:
    pipe = Pipe()
    os.set_blocking(pipe.reader, True)
    yield pipe
    pipe.close()


@pytest.fixture
def null() -> Iterator[int]:
    fd = os.open("/dev/null", os.O_RDWR)
    yield fd
    os.close(fd)


@pytest.fixture
async def keeper() -> AsyncIterator[Keeper]:
    keeper = Keeper()
    await keeper.start()
    yield keeper
    await keeper.close()


class Shell:
    """Starts commands whose output goes to one pipe, of which only they then hold the writing end."""

    def __init__(self, keeper: Keeper, out: Pipe, null: int) -> None:
        self.keeper, self.out, self.null = keeper, out, null

    async def start(
        self, *argv: str, env: Mapping[str, str] = ENV, cwd: str | None = None, stdin: int | None = None
    ) -> Child:
        source = self.null if stdin is None else stdin
        sink = self.null if self.out.writer < 0 else self.out.writer
        async with asyncio.timeout(LIMIT):
            return await self.keeper.spawn(argv, cwd=cwd, env=env, stdin=source, stdout=sink, stderr=sink)

    async def only(self, *argv: str, stdin: int | None = None) -> Child:
        """Start the last one to have the pipe."""
        child = await self.start(*argv, stdin=stdin)
        self.out.hang_up()
        return child

    async def script(self, text: str, stdin: int | None = None) -> Child:
        return await self.only("/bin/sh", "-c", text, stdin=stdin)

    async def run(
        self,
        *argv: str,
        env: Mapping[str, str] = ENV,
        cwd: str | None = None,
    ) -> tuple[Exit, bytes]:
        """A whole command, if its output fits in a pipe."""
        child = await self.start(*argv, env=env, cwd=cwd)
        self.out.hang_up()
        return await finish(child), self.out.drain()


async def finish(child: Child) -> Exit:
    async with asyncio.timeout(LIMIT):
        return await child.wait()


@pytest.fixture
def shell(keeper: Keeper, out: Pipe, null: int) -> Shell:
    return Shell(keeper, out, null)


class TestEndings:
    async def test_success(self, shell: Shell) -> None:
        exit, output = await shell.run("/bin/echo", "hello")
        assert (exit.code, exit.signal, exit.lost, output) == (0, None, False, b"hello\n")

    async def test_exit_code(self, shell: Shell) -> None:
        exit, _ = await shell.run("/bin/sh", "-c", "exit 77")
        assert (exit.code, exit.signal) == (77, None)

    async def test_death_by_signal(self, shell: Shell) -> None:
        exit, _ = await shell.run("/bin/sh", "-c", "kill -SEGV $$")
        assert (exit.code, exit.signal, exit.lost) == (None, signal.SIGSEGV, False)

    async def test_what_it_used(self, shell: Shell) -> None:
        work = "x = bytearray(50_000_000)\nimport time\nwhile time.process_time() < 0.2: pass"
        exit, _ = await shell.run(*PYTHON, work)
        assert 0.2 <= exit.cpu_seconds < 2
        assert 50_000_000 < exit.max_rss_bytes < 100_000_000

    async def test_every_waiter_is_told_and_may_give_up(self, shell: Shell) -> None:
        child = await shell.script("sleep 0.1; exit 5")
        patient, impatient = asyncio.ensure_future(child.wait()), asyncio.ensure_future(child.wait())
        await asyncio.sleep(0)
        impatient.cancel()
        assert (await finish(child)).code == 5
        assert (await patient).code == 5


class TestWhatTheCommandGets:
    async def test_output_in_order_and_without_a_final_newline(self, shell: Shell) -> None:
        _, output = await shell.run("/bin/sh", "-c", "printf a; printf b >&2; printf c; printf d >&2")
        assert output == b"abcd"

    async def test_the_environment_exactly(self, shell: Shell) -> None:
        env = {"ONE": "1", "EMPTY": "", "EQUALS": "a=b=c", "LINES": "x\ny", "ÜMLAUT": "ß", "RAW": "\udcff"}
        _, output = await shell.run("/usr/bin/env", "-0", env=env)
        assert sorted(output.split(b"\0")[:-1]) == sorted(os.fsencode(f"{k}={v}") for k, v in env.items())

    async def test_a_big_environment(self, shell: Shell) -> None:
        exit, output = await shell.run("/bin/sh", "-c", "echo ${#BIG}", env={"BIG": "x" * 100_000})
        assert (exit.code, output) == (0, b"100000\n")

    async def test_a_request_of_more_than_a_megabyte(self, shell: Shell) -> None:
        exit, output = await shell.run("/bin/sh", "-c", "echo $#", "sh", *["y" * 100] * 12_000)
        assert (exit.code, output) == (0, b"12000\n")

    async def test_arguments_byte_by_byte(self, shell: Shell) -> None:
        _, output = await shell.run("/usr/bin/printf", "%s|", "", " a b ", "\udcfe\udcff", "é", "\n")
        assert output == b"| a b |\xfe\xff|\xc3\xa9|\n|"

    async def test_the_working_directory(self, shell: Shell, tmp_path: Path) -> None:
        _, output = await shell.run("/bin/pwd", cwd=str(tmp_path))
        assert output.decode() == f"{tmp_path.resolve()}\n"

    async def test_the_controllers_directory_by_default(self, shell: Shell) -> None:
        _, output = await shell.run("/bin/pwd")
        assert output.decode() == f"{Path.cwd()}\n"

    async def test_its_own_path_is_searched(self, shell: Shell, tmp_path: Path) -> None:
        tool = tmp_path / "sometool"
        tool.write_text("#!/bin/sh\necho found\n")
        tool.chmod(0o755)
        _, output = await shell.run("sometool", env={"PATH": f"/nope:{tmp_path}"})
        assert output == b"found\n"

    async def test_a_session_of_its_own(self, shell: Shell) -> None:
        child = await shell.only("/usr/bin/cut", "-d ", "-f5,6", "/proc/self/stat")
        await finish(child)
        assert shell.out.drain().decode() == f"{child.pid} {child.pid}\n"

    async def test_clean_signals(self, shell: Shell) -> None:
        _, output = await shell.run("/bin/grep", "-E", "Sig(Blk|Ign)", "/proc/self/status")
        blocked, ignored = (int(line.split()[1], 16) for line in output.splitlines())
        assert blocked == 0
        assert ignored & ~0x1_8000_0000 == 0  # glibc ignores two, its own, for everyone

    async def test_no_other_file_descriptors(self, out: Pipe, null: int, tmp_path: Path) -> None:
        with (tmp_path / "lock").open("w") as lock:
            keeper = Keeper(guards=[lock.fileno()])
            child = await Shell(keeper, out, null).script("echo up; exec sleep 1000")
            assert await out.line() == "up"
            fds = sorted(path.name for path in Path(f"/proc/{child.pid}/fd").iterdir())
            await keeper.close()
        assert fds == ["0", "1", "2"]


class TestCommandsThatCannotStart:
    async def fails(self, shell: Shell, *argv: str, **options: str) -> SpawnError:
        with pytest.raises(SpawnError) as caught:
            await shell.start(*argv, **options)  # type: ignore[arg-type]
        return caught.value

    async def test_missing_program(self, shell: Shell) -> None:
        error = await self.fails(shell, "/nope")
        assert (error.errno, str(error)) == (errno.ENOENT, "program not found: /nope")

    async def test_program_not_in_path(self, shell: Shell) -> None:
        error = await self.fails(shell, "no-such-tool")
        assert (error.errno, str(error)) == (errno.ENOENT, "program not found: no-such-tool")

    async def test_missing_directory(self, shell: Shell) -> None:
        error = await self.fails(shell, "/bin/true", cwd="/no/where")
        assert (error.errno, str(error)) == (errno.ENOENT, "working directory not found: /no/where")

    async def test_a_file_for_a_directory(self, shell: Shell) -> None:
        error = await self.fails(shell, "/bin/true", cwd="/etc/passwd")
        assert (error.errno, str(error)[:29]) == (errno.ENOTDIR, "working directory can't be us")

    @pytest.mark.parametrize(
        ("content", "mode", "number", "message"),
        [
            ("#!/bin/sh\n", 0o644, errno.EACCES, "program is not executable"),
            ("#!/no/interpreter\n", 0o755, errno.ENOENT, "the interpreter that its first line names"),
            ("echo no first line", 0o755, errno.ENOEXEC, "neither a program for this machine nor a script"),
        ],
    )
    async def test_bad_files(
        self, shell: Shell, tmp_path: Path, content: str, mode: int, number: int, message: str
    ) -> None:
        path = tmp_path / "program"
        path.write_text(content)
        path.chmod(mode)
        error = await self.fails(shell, str(path))
        assert error.errno == number
        assert str(error).startswith(message)
        assert str(error).endswith(str(path))

    async def test_arguments_too_long(self, shell: Shell) -> None:
        error = await self.fails(shell, "/bin/true", "x" * 200_000)
        assert (error.errno, "too long" in str(error)) == (errno.E2BIG, True)

    async def test_strings_that_no_program_can_be_given(self, shell: Shell) -> None:
        assert (await self.fails(shell)).errno == errno.EINVAL
        assert "NUL" in str(await self.fails(shell, "/bin/true", "a\0b"))
        assert "NUL" in str(await self.fails(shell, "/bin/true", cwd="/tmp\0"))
        assert "not valid text" in str(await self.fails(shell, "/bin/true", "\ud800"))
        for name in ("", "A=B"):
            with pytest.raises(SpawnError, match="environment variable"):
                await shell.start("/bin/true", env={name: "x"})

    async def test_the_keeper_goes_on(self, shell: Shell) -> None:
        await self.fails(shell, "/nope")
        exit, _ = await shell.run("/bin/true")
        assert exit.code == 0


class TestTrees:
    """In each of these, `drain` raises if a process of the tree is left when wait() has returned."""

    async def test_a_child_left_in_the_background(self, shell: Shell) -> None:
        child = await shell.script("sleep 1000 & exit 0")
        assert (await finish(child)).code == 0
        shell.out.drain()

    async def test_a_daemon_by_double_fork_and_setsid(self, shell: Shell, gate: Pipe) -> None:
        daemon = "(setsid sh -c 'echo $$; exec sleep 1000' &)"
        child = await shell.script(f"{daemon}; read go; exit 4", stdin=gate.reader)
        pidfd = os.pidfd_open(int(await shell.out.line()))
        assert not ended(pidfd)
        os.write(gate.writer, b"go\n")
        assert (await finish(child)).code == 4
        assert ended(pidfd)
        shell.out.drain()
        os.close(pidfd)

    async def test_terminate_asks_everyone_in_the_tree(self, shell: Shell) -> None:
        inner = "if not os.fork(): os.setsid(); say('up'); hear(); say('inner'); os._exit(0)\n"
        outer = "say('up'); hear(); say('outer'); os.wait(); os._exit(9)"
        child = await shell.only(*PYTHON, LISTENER + inner + outer)
        assert [await shell.out.line(), await shell.out.line()] == ["up", "up"]
        child.terminate()
        assert {await shell.out.line(), await shell.out.line()} == {"inner", "outer"}
        assert (await finish(child)).code == 9
        shell.out.drain()

    async def test_terminate_reaches_the_stopped(self, shell: Shell) -> None:
        stopped = "os.kill(0, signal.SIGSTOP); hear(); say('heard'); os._exit(3)"
        child = await shell.only(*PYTHON, LISTENER + stopped)
        stat = Path(f"/proc/{child.pid}/stat")
        await until(lambda: stat.read_bytes().rpartition(b")")[2].split()[0] == b"T")
        child.terminate()
        assert await shell.out.line() == "heard"
        assert (await finish(child)).code == 3

    async def test_who_does_not_heed_is_killed(self, shell: Shell) -> None:
        child = await shell.only(*PYTHON, LISTENER + "say('up'); hear(); say('no'); time.sleep(1000)")
        assert await shell.out.line() == "up"
        child.terminate()
        assert await shell.out.line() == "no"
        child.kill()
        assert (await finish(child)).signal == signal.SIGKILL
        shell.out.drain()

    async def test_a_tree_of_many_sessions(self, shell: Shell) -> None:
        fork = 'for i in 1 2 3; do setsid sh -c "$2" sh $(($1 - 1)) "$2" & done'
        grow = f"echo up; [ $1 = 0 ] || {fork}; sleep 1000"
        child = await shell.only("/bin/sh", "-c", grow, "sh", "3", grow)
        for _ in range(1 + 3 + 9 + 27):
            assert await shell.out.line() == "up"
        child.kill()
        assert (await finish(child)).signal == signal.SIGKILL
        shell.out.drain()

    @pytest.mark.parametrize("stop", ["kill", "main ends"])
    async def test_a_tree_that_runs_away(self, shell: Shell, gate: Pipe, stop: str) -> None:
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

    async def test_a_tree_that_multiplies(self, shell: Shell) -> None:
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

    async def test_a_command_that_kills_its_warden(self, shell: Shell, keeper: Keeper) -> None:
        before = keeper.pid
        child = await shell.script("setsid sleep 1000 & kill -9 $PPID; sleep 1000")
        assert (await finish(child)).lost
        shell.out.drain()
        assert keeper.pid == before

    async def test_a_command_that_stops_its_warden(self, shell: Shell) -> None:
        child = await shell.script("kill -STOP $PPID; echo done; sleep 1000")
        assert await shell.out.line() == "done"
        child.kill()
        assert (await finish(child)).signal == signal.SIGKILL
        shell.out.drain()

    async def test_a_late_kill_does_not_hit_the_next_command(self, shell: Shell) -> None:
        first = await shell.start("/bin/true")
        await finish(first)
        second = await shell.only(*PYTHON, LISTENER + "say('up'); hear(); say('alive'); os._exit(6)")
        assert await shell.out.line() == "up"
        first._link.send(f"kill {first._name}")
        second.terminate()
        assert await shell.out.line() == "alive"
        assert (await finish(second)).code == 6


class TestTheKeeperItself:
    async def test_killed(self, shell: Shell, keeper: Keeper) -> None:
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

    async def test_killed_while_idle(self, shell: Shell, keeper: Keeper) -> None:
        """Nothing has told the controller yet when it sends the next command."""
        assert keeper.pid is not None
        process = os.pidfd_open(keeper.pid)
        os.kill(keeper.pid, signal.SIGKILL)
        while not ended(process):
            select.select([process], [], [], LIMIT)
        os.close(process)
        exit, _ = await shell.run("/bin/true")
        assert exit.code == 0

    async def test_a_deadline_brings_a_dead_one_back(self, shell: Shell, keeper: Keeper) -> None:
        before = keeper.pid
        assert before is not None
        os.kill(before, signal.SIGKILL)
        await until(lambda: keeper.pid is None)
        keeper.extend(time.clock_gettime(time.CLOCK_BOOTTIME) + 1000)
        assert keeper.pid not in (None, before)
        keeper.extend(None)

    async def test_deaf_to_the_terminal(self, shell: Shell, keeper: Keeper) -> None:
        before = keeper.pid
        assert before is not None
        assert os.getsid(before) == before
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1):
            os.kill(before, number)
        exit, _ = await shell.run("/bin/true")
        assert (exit.code, keeper.pid) == (0, before)

    async def test_start_is_idempotent(self, keeper: Keeper) -> None:
        before = keeper.pid
        await asyncio.gather(keeper.start(), keeper.start())
        assert keeper.pid == before

    async def test_close_kills_what_is_left(self, shell: Shell, keeper: Keeper) -> None:
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

    async def test_a_cancelled_spawn_leaves_nothing(self, shell: Shell, keeper: Keeper) -> None:
        for turns in range(6):
            task = asyncio.ensure_future(shell.start("/bin/sleep", "1000"))
            for _ in range(turns):
                await asyncio.sleep(0)
            if not task.cancel():
                (await task).kill()
            await asyncio.wait([task])
        shell.out.hang_up()
        await shell.out.end()

    async def test_fifty_at_once(self, keeper: Keeper, null: int) -> None:
        async def one(number: int) -> int | None:
            argv = ["/bin/sh", "-c", f"exit {number}"]
            child = await keeper.spawn(argv, cwd="/", env=ENV, stdin=null, stdout=null, stderr=null)
            return (await finish(child)).code

        assert await asyncio.gather(*map(one, range(50))) == list(range(50))

    async def test_no_file_descriptor_is_left_open(self, shell: Shell, keeper: Keeper) -> None:
        async def some(count: int) -> tuple[int, int]:
            for _ in range(count):
                assert (await finish(await shell.start("/bin/true"))).code == 0
                with pytest.raises(SpawnError):
                    await shell.start("/nope")
            return count_fds("self"), count_fds(keeper.pid)

        ours, keepers = await some(5)
        ours_then, keepers_then = await some(200)
        assert ours_then == ours
        assert keepers_then <= keepers + program.IDLE_WARDENS


# A controller, to be killed or stopped. It takes the lock, starts two processes, says its keeper's pid, and
# then, if it is given a number, renews a lease of that many seconds and says so after each.
CONTROLLER = """
import asyncio, fcntl, sys, time
from rota.work.keeping import Keeper

async def main(lock, lease):
    fcntl.flock(lock, fcntl.LOCK_EX)
    keeper = Keeper(guards=[lock.fileno()])
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


class TestTheController:
    async def test_killed(self, out: Pipe, tmp_path: Path) -> None:
        controller = Controller(tmp_path / "lock", 0, out)
        words = await controller.words(3)
        keeper = next(int(word.split()[1]) for word in words if word.startswith("up"))
        tree = [os.pidfd_open(int(word)) for word in words if word.isdigit()]
        os.kill(keeper, signal.SIGSTOP)  # so that there is a time between the controller's end and the tree's
        controller.process.kill()
        controller.process.wait()
        assert controller.locked()
        assert not any(map(ended, tree))
        os.kill(keeper, signal.SIGCONT)
        await controller.unlocked()
        assert all(map(ended, tree))
        out.drain()
        assert not Path(f"/proc/{keeper}/exe").exists()
        for pidfd in tree:
            os.close(pidfd)
        controller.close()

    async def test_killed_with_its_keeper(self, out: Pipe, tmp_path: Path) -> None:
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

    async def test_stopped_past_the_deadline(self, out: Pipe, tmp_path: Path) -> None:
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


def test_a_program_may_have_any_name(tmp_path: Path) -> None:
    path = tmp_path / "a) R 1 (b"
    shutil.copy("/bin/sleep", path)
    with subprocess.Popen([path, "1000"]) as process:
        assert program.parent_of(process.pid) == os.getpid()
        assert process.pid in program.descend({os.getpid()})
        assert process.pid not in program.descend({os.getpid()}, spare=[process.pid])
        process.kill()


def test_a_pid_that_is_not_ours_is_not_signalled() -> None:
    with subprocess.Popen(["/bin/sleep", "1000"]) as process:
        program.hit(process.pid, {1}, signal.SIGKILL)
        assert process.poll() is None
        program.hit(process.pid, {os.getpid()}, signal.SIGKILL)
        assert process.wait(LIMIT) == -signal.SIGKILL
