"""Control groups. Where the system has none for memory, what would be written is looked at in ordinary folders."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from rota.work.keeper.cgroups import Groups, Leaf, _own_groups
from rota.work.keeper.client import KeeperClient
from tests.work.keeper.shell import ENV, PYTHON, Pipe, finish, until


@pytest.fixture
def group() -> Iterator[Path]:
    """A group of version 2 of the test's own."""
    own = _own_groups().get(b"unified")
    if own is None:
        pytest.skip("no control groups of version 2")
    path = Path(os.fsdecode(own)) / f"rota-test-{os.getpid()}"
    try:
        path.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made: {error}")
    yield path
    for inner in sorted(path.rglob("*"), reverse=True):
        if inner.is_dir():
            with suppress(OSError):
                inner.rmdir()
    path.rmdir()


async def test_a_named_group_gets_a_leaf_for_each_command_and_kills_with_it(
    group: Path, out: Pipe, null: int, tmp_path: Path
) -> None:
    keeper = KeeperClient(folder=str(tmp_path), cgroup=str(group))
    # Both processes stay until they are killed: a command that ends takes its group with it.
    script = "import os, time\nif not os.fork(): os.setsid(); print(open('/proc/self/cgroup').read(), flush=True)\n"
    child = await keeper.spawn(
        [*PYTHON, script + "time.sleep(1000)"], cwd=None, env=ENV, stdin=null, stdout=out.writer, stderr=out.writer
    )
    out.hang_up()
    assert any(word.startswith("cgroup-v2:kill") for word in child.isolation)
    (leaf,) = (path.parent for path in group.glob("rota-*/*/cgroup.procs"))
    while f"/{leaf.parent.name}/{leaf.name}" not in await out.line():
        pass
    assert str(child.pid) in (leaf / "cgroup.procs").read_text().split()
    child.kill()
    assert (await finish(child)).signal == signal.SIGKILL
    out.drain()
    await until(lambda: not leaf.exists())
    await keeper.close()
    assert [path for path in group.iterdir() if path.is_dir()] == []


async def test_what_a_killed_keeper_left_is_removed_by_the_next(
    group: Path, out: Pipe, null: int, tmp_path: Path
) -> None:
    keeper = KeeperClient(folder=str(tmp_path), cgroup=str(group))
    child = await keeper.spawn(["/bin/sleep", "1000"], cwd=None, env=ENV, stdin=null, stdout=null, stderr=null)
    assert keeper.pid is not None
    os.kill(keeper.pid, signal.SIGKILL)
    assert (await finish(child)).lost
    assert [path for path in group.iterdir() if path.is_dir()]
    await keeper.start()
    assert len([path for path in group.iterdir() if path.is_dir()]) == 1  # its own
    await keeper.close()
    assert [path for path in group.iterdir() if path.is_dir()] == []


def test_a_group_that_can_not_be_used_is_none(tmp_path: Path) -> None:
    groups = Groups(os.fsencode(tmp_path / "nowhere"))
    assert groups.unified is None
    groups.close()


class TestInOrdinaryFolders:
    """Files take whatever is written to them."""

    @pytest.fixture
    def groups(self, tmp_path: Path) -> Groups:
        groups = Groups.__new__(Groups)
        groups.count, groups.pids, groups.locks = 0, None, []
        groups.unified, groups.controllers = os.fsencode(tmp_path), {b"memory", b"pids", b"cpu"}
        return groups

    @pytest.fixture(autouse=True)
    def made_on_write(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """In a real one the files are there from the beginning."""
        monkeypatch.setattr(
            "rota.work.keeper.cgroups.write", lambda path, text: Path(os.fsdecode(path)).write_bytes(text)
        )

    def test_bounds(self, groups: Groups) -> None:
        leaf = groups.leaf(memory=1 << 30, processes=50, nice=4)
        assert leaf is not None
        written = {path.name: path.read_text() for path in Path(os.fsdecode(leaf.paths[0])).iterdir()}
        assert written == {
            "memory.max": str(1 << 30), "memory.swap.max": "0", "memory.oom.group": "1", "pids.max": "50",
            "cpu.weight.nice": "4",
        }  # fmt: skip
        assert leaf.words == ["cgroup-v2:kill+memory+pids+cpu"]

    def test_without_bounds(self, groups: Groups) -> None:
        leaf = groups.leaf(None, None, 0)
        assert leaf is not None
        assert leaf.words == ["cgroup-v2:kill"]
        assert list(Path(os.fsdecode(leaf.paths[0])).iterdir()) == []

    def test_what_is_told_afterwards(self, tmp_path: Path) -> None:
        leaf = Leaf([os.fsencode(tmp_path)], [])
        assert (leaf.ran_out_of_memory(), leaf.memory_peak(), leaf.cpu_seconds()) == (False, 0, 0.0)
        (tmp_path / "memory.events").write_text("low 0\nhigh 0\nmax 3\noom 1\noom_kill 1\noom_group_kill 1\n")
        (tmp_path / "memory.peak").write_text("12345\n")
        (tmp_path / "cpu.stat").write_text("usage_usec 1500000\nuser_usec 1\n")
        assert (leaf.ran_out_of_memory(), leaf.memory_peak(), leaf.cpu_seconds()) == (True, 12345, 1.5)
