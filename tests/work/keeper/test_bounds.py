"""What a command may use, and as whom it runs: kept by the kernel, told with the start."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path

import pytest

from rota.work.keeper.bounds import Bounds, _tasks_of
from rota.work.keeper.client import CommandProcess, Exit, KeeperClient, SpawnError, _bearable
from rota.work.keeper.wire import CommandRequest
from tests.work.keeper.shell import ENV, PYTHON, Pipe, Shell, finish

NOBODY = 65534


class Bounded(Shell):
    """A shell whose commands have bounds."""

    async def bounded(self, *argv: str, cwd: str | None = "/", **bounds: int | str) -> CommandProcess:
        sink = self.out.writer
        child = await self.keeper.spawn(
            argv, cwd=cwd, env=ENV, stdin=self.null, stdout=sink, stderr=sink, bounds=bounds
        )
        self.out.hang_up()
        return child

    async def all_of(self, *argv: str, cwd: str | None = "/", **bounds: int | str) -> tuple[Exit, str, CommandProcess]:
        child = await self.bounded(*argv, cwd=cwd, **bounds)
        exit = await finish(child)
        return exit, self.out.drain().decode(), child


@pytest.fixture
def shell(keeper: KeeperClient, out: Pipe, null: int) -> Bounded:
    return Bounded(keeper, out, null)


async def test_what_every_command_has(shell: Bounded) -> None:
    exit, output, child = await shell.all_of("/bin/grep", "-E", "NoNewPrivs|Max core", "/proc/self/status")
    assert (exit.code, output.split()) == (0, ["NoNewPrivs:", "1"])
    assert child.isolation == ("session", "no_new_privs", "no-core", "private-temp")


async def test_no_core_is_left(shell: Bounded) -> None:
    _, output, _ = await shell.all_of("/bin/sh", "-c", "ulimit -c; ulimit -Hc")
    assert output.split() == ["0", "0"]


SHOW = """
import os, resource
for name in ("NOFILE", "AS", "FSIZE", "CPU"):
    print(*resource.getrlimit(getattr(resource, "RLIMIT_" + name)))
print(os.getsid(0) == os.getpid())
"""


async def test_limits_of_the_kernel(shell: Bounded) -> None:
    exit, output, child = await shell.all_of(*PYTHON, SHOW, files=100, memory=1 << 30, file_size=1 << 20, cpu=7)
    assert exit.code == 0
    assert output.splitlines() == ["100 100", f"{1 << 30} {1 << 30}", f"{1 << 20} {1 << 20}", "7 12", "True"]
    assert "rlimits" in child.isolation


def limits_of(process: object) -> dict[str, tuple[str, str]]:
    """Soft and hard."""
    lines = Path(f"/proc/{process}/limits").read_text().splitlines()[1:]
    return {line[:26].strip(): (line[26:47].strip(), line[47:68].strip()) for line in lines}


def warden_of(child: CommandProcess) -> int:
    return int(Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[1])


async def test_a_warden_serves_only_commands_with_the_limits_that_it_has_taken(keeper: KeeperClient, null: int) -> None:
    """Unless each has a control group: then commands take their own."""

    async def one(**bounds: int | str) -> tuple[int, dict[str, tuple[str, str]]]:
        child = await keeper.spawn(
            ["/bin/sleep", "1000"], cwd="/", env=ENV, stdin=null, stdout=null, stderr=null, bounds=bounds
        )
        warden, limits = warden_of(child), limits_of(child.pid)
        child.kill()
        await finish(child)
        return warden, limits

    of_node = limits_of(keeper.pid)
    free, limits = await one()
    assert limits == of_node
    bounds = {"files": 100, "file_size": 1 << 20}
    wanted = of_node | {"Max open files": ("100", "100"), "Max file size": (f"{1 << 20}", f"{1 << 20}")}
    assert await one(**bounds) == (free, wanted)
    assert await one(**bounds) == (free, wanted)
    assert (await one())[1] == of_node
    assert await one(**bounds, nice=3) == (free, wanted)
    assert (await one(files=200))[1]["Max open files"] == ("200", "200")
    assert (await one())[1] == of_node


@pytest.mark.parametrize("given", [{"cpu": 7}, {"memory": 100 << 20}, {"files": 4}, {"files": 100, "uid": 7}])
def test_limits_that_a_warden_could_not_work_with_are_not_its_own(given: dict[str, int]) -> None:
    assert _bearable(given | {"file_size": 0, "nice": 3}) == ""
    assert _bearable({"memory": 1 << 30, "nice": 3, "files": 100}) == f"files=100,memory={1 << 30}"


async def test_a_bounded_command_gets_clean_signals_and_descriptors(shell: Bounded) -> None:
    script = "grep -E 'Sig(Blk|Ign)' /proc/self/status; kill -STOP $$; :"
    child = await shell.bounded("/bin/sh", "-c", script, files=50)
    blocked, ignored = [int((await shell.out.line()).split()[1], 16) for _ in range(2)]
    assert blocked == 0
    assert ignored & ~0x1_8000_0000 == 0
    fds = sorted(path.name for path in Path(f"/proc/{child.pid}/fd").iterdir())
    assert fds == ["0", "1", "2"]
    child.terminate()
    assert (await finish(child)).signal == signal.SIGTERM


@pytest.mark.parametrize(
    ("argv", "cwd", "said"),
    [
        (["/nope"], "/", "program not found: /nope"),
        (["no-such-tool"], "/", "program not found: no-such-tool"),
        (["/bin/true"], "/no/where", "working directory not found: /no/where"),
        (["/etc/passwd"], "/", "program is not executable: /etc/passwd"),
        (["/bin/true", "x" * 200_000], "/", "arguments and environment are too long for the system: /bin/true"),
    ],
)
async def test_why_a_bounded_command_can_not_start(shell: Bounded, argv: list[str], cwd: str, said: str) -> None:
    with pytest.raises(SpawnError) as caught:
        await shell.bounded(*argv, cwd=cwd, files=50)
    assert str(caught.value) == said
    assert (await finish(await shell.bounded("/bin/true"))).code == 0


async def test_cpu_time(shell: Bounded) -> None:
    exit, _, _ = await shell.all_of(*PYTHON, "while True: pass", cpu=1)
    assert exit.signal == signal.SIGXCPU
    assert exit.cpu_seconds > 0.5  # the kernel judges by samples, and tells by exact times


async def test_the_size_of_a_file(shell: Bounded) -> None:
    """Python ignores the signal and gets an error; most programs don't."""
    words = ("/bin/dd", "if=/dev/zero", "of=big", "bs=1M", "count=2")
    exit, _, _ = await shell.all_of(*words, cwd=None, file_size=1 << 20)
    assert exit.signal == signal.SIGXFSZ


async def test_memory(shell: Bounded) -> None:
    exit, output, _ = await shell.all_of(*PYTHON, "bytearray(1 << 30)", memory=200 << 20)
    assert (exit.code, "MemoryError" in output) == (1, True)


BOMB = "i=0; while [ $i -lt 500 ]; do sleep 1000 & echo made; i=$((i+1)); done"


async def test_a_fork_bomb_is_bounded(shell: Bounded) -> None:
    """Exactly so by a control group. Without one the kernel counts all processes of the user, also those of others that
    come and go meanwhile; and none of root's, which is told."""
    exit, output, child = await shell.all_of("/bin/sh", "-c", BOMB, cwd=None, processes=20)
    made = output.count("made")
    if "processes-unlimited" in child.isolation:
        assert (exit.code, made) == (0, 500)
        return
    assert exit.code == 2
    assert made == 19 if any("pids" in word for word in child.isolation) else made < 500


async def test_a_nicer_one_costs_no_fork_and_yields(shell: Bounded) -> None:
    child = await shell.bounded("/bin/sh", "-c", "kill -STOP $$; nice", nice=4)
    status = Path(f"/proc/{child.pid}/stat")
    while status.read_bytes().rpartition(b")")[2].split()[0] != b"T":
        os.sched_yield()
    os.kill(child.pid, signal.SIGCONT)
    assert (await finish(child)).code == 0
    assert int(shell.out.drain()) == min(os.getpriority(os.PRIO_PROCESS, 0) + 4, 19)
    assert child.isolation[-1] == "nice:4"


ORPHAN = """
import os, time
reader, writer = os.pipe()
if os.fork() == 0:
    if os.fork() == 0:
        x = bytearray(60_000_000)
        while time.process_time() < 0.3: pass
    os._exit(0)
os.close(writer)
os.read(reader, 1)
"""


async def test_what_is_used_by_a_child_that_nobody_waits_for_counts_too(shell: Bounded) -> None:
    exit, _, _ = await shell.all_of(*PYTHON, ORPHAN)
    assert exit.cpu_seconds >= 0.3
    assert exit.max_rss_bytes > 60_000_000


if os.geteuid() == 0:

    class TestOtherUsers:
        async def test_user_group_and_folder(self, shell: Bounded) -> None:
            script = "id -u; id -g; id -G; stat -c '%u %g' . $TMPDIR; echo x > $TMPDIR/a; rm -r $TMPDIR; echo y > kept"
            exit, output, child = await shell.all_of(
                "/bin/sh", "-c", script, cwd=None, uid=NOBODY, gid=NOBODY, groups="100,101"
            )
            assert exit.code == 0
            assert output.splitlines() == ["65534", "65534", "65534 100 101", "65534 65534", "65534 65534"]
            assert "user" in child.isolation

        async def test_it_has_no_way_to_our_descriptors_or_to_root(self, shell: Bounded) -> None:
            script = "ls /proc/$PPID/fd/; cat /proc/$PPID/environ; kill -9 $PPID; cat /etc/shadow; echo still here >&2"
            _, output, _ = await shell.all_of("/bin/sh", "-c", script, cwd=None, uid=NOBODY, gid=NOBODY)
            assert output.count("ermission denied") == 3
            assert "not permitted" in output
            assert output.endswith("still here\n")

        async def test_a_folder_that_it_may_not_enter(self, shell: Bounded, tmp_path: Path) -> None:
            tmp_path.chmod(0o700)
            with pytest.raises(SpawnError, match="working directory can't be used"):
                await shell.bounded("/bin/true", cwd=str(tmp_path), uid=NOBODY, gid=NOBODY)

        async def test_a_fork_bomb_of_a_user_who_has_nothing_else(self, shell: Bounded) -> None:
            exit, output, _ = await shell.all_of("/bin/sh", "-c", BOMB, cwd=None, processes=20, uid=54321, gid=54321)
            assert (exit.code, output.count("made")) == (2, 19)

else:

    async def test_only_root_runs_commands_as_others(shell: Bounded) -> None:
        with pytest.raises(SpawnError, match="Operation not permitted"):
            await shell.bounded("/bin/true", uid=NOBODY, gid=NOBODY)


def words(**bounds: int | str) -> CommandRequest:
    text = " ".join(f"{name}={value}" for name, value in bounds.items())
    fd = os.memfd_create("request")
    try:
        os.write(fd, "\0".join([text, "", "1", "/bin/true"]).encode())
        return CommandRequest(fd)
    finally:
        os.close(fd)


def test_without_control_groups_the_users_processes_are_counted_and_those_that_are_there_added() -> None:
    mine = len(list(Path("/proc/self/task").iterdir()))
    bounds = Bounds(words(processes=50, uid=12345, gid=12345), set())
    assert (resource.RLIMIT_NPROC, (50, 50)) in bounds.limits
    assert _tasks_of(os.geteuid()) >= mine


def test_where_nothing_counts_roots_processes_the_record_says_so() -> None:
    bounds = Bounds(words(processes=50, uid=0, gid=0), set())
    assert (bounds.limits, bounds.words) == ([], ["processes-unlimited"])


def test_what_a_control_group_bounds_is_not_bounded_twice() -> None:
    bounds = Bounds(words(processes=50, memory=1 << 30, uid=12345, gid=12345), {"kill", "pids", "memory"})
    assert (bounds.limits, bounds.words) == ([], [])


def test_a_limit_that_the_node_itself_has_is_not_raised() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    ((_, pair),) = Bounds(words(files=hard + 1), set()).limits
    assert pair == (hard, hard)
