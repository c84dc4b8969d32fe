"""Commands as the executor runs them: what they get of the node, what their end means, what is recorded."""

from __future__ import annotations

import asyncio
import os
import pwd
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from rota.clock import SystemClock
from rota.config import load
from rota.errors import InvalidInput
from rota.logs.shipper import Sink
from rota.model.job import Claimed, CommandSpec, Spec
from rota.model.outcome import Failed, Outcome, Succeeded
from rota.model.resources import Resources
from rota.model.times import SECOND
from rota.work.attempt import Attempt
from rota.work.executors.command import CommandExecutor
from rota.work.executors.command_outcomes import outcome as meaning
from rota.work.keeper.client import KeeperClient
from rota.work.keeper.report import Exit
from rota.work.output import Drain
from tests.work.books import shut_book

LIMIT = 30.0
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/root", "SECRET": "s3cret", "REGION": "north", "TMPDIR": "/nowhere"}
PYTHON = (sys.executable, "-I", "-S", "-c")


class Heard:
    """A sink that remembers."""

    def __init__(self) -> None:
        self.output = {"stdout": b"", "stderr": b""}
        self.spool = None

    def pull(self, stream: str, pipe: int, size: int) -> bytes:
        body = os.read(pipe, size)
        self.write(stream, body)
        return body

    def write(self, stream: str, body: bytes) -> None:
        self.output[stream] += body


class Stage:
    def __init__(self, keeper: KeeperClient) -> None:
        self.keeper = keeper
        self.settings = load(environment={})
        self.output: dict[str, bytes] = {}

    async def run(self, *argv: str, priority: int = 5, **about: Any) -> tuple[Outcome, Attempt]:
        spec = Spec.command(list(argv), **about)
        claimed = Claimed("job", 1, "me", "default", "command", "x", priority, 0, 1, 0, 0, spec.body, "{}", "{}", None)
        heard = Heard()
        attempt = Attempt(claimed, cast("Sink", heard), shut_book(), SystemClock())
        executor = CommandExecutor(self.keeper, self.settings, ENVIRONMENT, Drain())
        async with asyncio.timeout(LIMIT):
            found = await executor.execute(attempt)
        self.output = heard.output
        return found, attempt

    async def out(self, *argv: str, **about: Any) -> str:
        found, _ = await self.run(*argv, **about)
        assert isinstance(found, Succeeded), found
        return self.output["stdout"].decode()

    async def problem(self, *argv: str, **about: Any) -> str:
        found, _ = await self.run(*argv, **about)
        assert isinstance(found, Failed), found
        assert not found.fatal
        return found.problem.type


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    keeper = KeeperClient()
    yield Stage(keeper)
    await keeper.close()


class TestWhatItGets:
    async def test_input(self, stage: Stage) -> None:
        text = "ä\0b\n" * 50_000
        assert await stage.out("cat", stdin=text) == text
        assert await stage.out("wc", "-c") == "0\n"

    async def test_only_what_is_allowed_of_the_nodes_environment(self, stage: Stage) -> None:
        stage.settings = load({"command_env": "REGION,OTHER"}, environment={})
        seen = set((await stage.out("env", inherit=["REGION", "OTHER", "HOME"])).splitlines())
        assert {"PATH=/usr/bin:/bin", "HOME=/root", "REGION=north", "ROTA_JOB=job"} <= seen
        assert "s3cret" not in " ".join(seen)
        names = {line.partition("=")[0] for line in seen}
        assert names == {
            "PATH",
            "HOME",
            "REGION",
            "TMPDIR",
            "ROTA_JOB",
            "ROTA_ATTEMPT",
            "ROTA_FENCE",
            "ROTA_PROGRESS_FD",
        }
        with pytest.raises(InvalidInput, match=r"inherit: 'SECRET'.*command_env: REGION, OTHER"):
            await stage.run("env", inherit=["SECRET"])

    async def test_folders_of_its_own_or_the_one_that_was_named(self, stage: Stage, tmp_path: Path) -> None:
        folder, temporary = (await stage.out("sh", "-c", "pwd; echo $TMPDIR")).split()
        assert temporary == f"{folder}/tmp"
        assert not Path(folder).exists()
        assert (await stage.out("pwd", cwd=str(tmp_path))).strip() == str(tmp_path)
        chosen = await stage.out("sh", "-c", "echo $TMPDIR", env={"TMPDIR": "/var/tmp"})
        assert chosen == "/var/tmp\n"

    if os.geteuid() == 0:

        async def test_another_user_with_a_home_of_its_own(self, stage: Stage) -> None:
            script = "id -un; echo $HOME $USER"
            assert (await stage.out("sh", "-c", script, user="nobody")).splitlines() == [
                "nobody",
                "/nonexistent nobody",
            ]
            assert (await stage.out("sh", "-c", "id -u; id -g", user=12345, group=54321)) == "12345\n54321\n"
            for about, said in (
                ({"user": "no-such-user"}, "one that the node's machine knows"),
                ({"user": "nobody", "group": "no-such-group"}, "one that the node's machine knows"),
                ({"user": 12345}, "or a group with it"),
            ):
                with pytest.raises(InvalidInput, match=said):
                    await stage.run("true", **about)

        async def test_the_nodes_choice_of_user_stands(self, stage: Stage) -> None:
            stage.settings = load({"command_user": "nobody"}, environment={})
            assert await stage.out("id", "-un") == "nobody\n"
            assert await stage.out("id", "-un", user="nobody") == "nobody\n"
            for about in ({"user": "root"}, {"user": 0}, {"group": 0}):
                with pytest.raises(InvalidInput, match="this node runs all commands as that"):
                    await stage.run("id", **about)

    else:

        async def test_only_root_runs_commands_as_others(self, stage: Stage) -> None:
            me = pwd.getpwuid(os.geteuid()).pw_name
            assert await stage.out("id", "-un", user=me) == f"{me}\n"
            for about in ({"user": "root"}, {"user": 12345, "group": 12345}, {"group": 0}):
                with pytest.raises(InvalidInput, match="this node does not run as root"):
                    await stage.run("true", **about)
            stage.settings = load({"command_user": "root"}, environment={})
            with pytest.raises(InvalidInput, match=r"command_user: .*this node does not run as root"):
                CommandExecutor(stage.keeper, stage.settings, ENVIRONMENT, Drain()).check()

    @pytest.mark.parametrize(
        ("name", "value"), [("command_user", "no-such-user"), ("command_cgroup", "/no/such/group")]
    )
    def test_what_a_node_can_not_keep_is_refused_when_it_starts(self, name: str, value: str) -> None:
        settings = load({name: value}, environment={})
        with pytest.raises(InvalidInput, match=f"^{name}: '{value}' is not valid"):
            CommandExecutor(cast("KeeperClient", None), settings, {}, Drain()).check()

    async def test_the_nodes_bounds_stand_and_an_order_can_only_tighten_them(self, stage: Stage) -> None:
        stage.settings = load({"command_files": 100}, environment={})
        assert await stage.out("sh", "-c", "ulimit -Hn", resources={"files": 50}) == "50\n"
        assert await stage.out("sh", "-c", "ulimit -Hn", resources={"files": 5000}) == "100\n"
        assert await stage.out("sh", "-c", "ulimit -Hn") == "100\n"


class TestWhatItsEndMeans:
    async def test_cpu(self, stage: Stage) -> None:
        bounds = {"resources": {"cpu": "900ms"}}
        assert await stage.problem(*PYTHON, "while True: pass", **bounds) == "rota.CpuLimit"
        assert await stage.problem("sh", "-c", "while :; do :; done; :", **bounds) == "rota.CpuLimit"

    async def test_a_file_that_is_too_large(self, stage: Stage) -> None:
        argv = ["dd", "if=/dev/zero", "of=big", "bs=100k", "count=2"]
        assert await stage.problem(*argv, resources={"file_size": "100KB"}) == "rota.FileSizeLimit"
        inside = ["sh", "-c", "dd if=/dev/zero of=big bs=100k count=2"]
        assert await stage.problem(*inside, resources={"file_size": "100KB"}) == "rota.FileSizeLimit"

    async def test_a_refusal_that_the_program_handles_is_its_own_affair(self, stage: Stage) -> None:
        bounds = {"resources": {"memory": "200MB", "files": 20}}
        assert await stage.problem(*PYTHON, "bytearray(1 << 30)", **bounds) == "rota.ExitCode"
        assert b"MemoryError" in stage.output["stderr"]
        assert await stage.problem(*PYTHON, "x = [open('/') for _ in range(99)]", **bounds) == "rota.ExitCode"

    def test_out_of_memory_is_told_apart_from_a_crash_where_the_system_tells(self) -> None:
        killed = Exit(None, 9, 0.1, 1000, lost=False, out_of_memory=True)
        found = meaning(killed, CommandSpec(["x"]), Resources(memory=512_000_000))
        assert isinstance(found, Failed)
        assert (found.problem.type, found.problem.message) == (
            "rota.OutOfMemory", "it needed more memory than 512MB",
        )  # fmt: skip
        plain = meaning(Exit(None, 9, 0.1, 1000, lost=False), CommandSpec(["x"]), Resources(memory=512_000_000))
        assert isinstance(plain, Failed)
        assert plain.problem.type == "rota.Signal"

    def test_who_ignores_the_end_of_its_time_is_killed_and_that_is_known(self) -> None:
        bounds = Resources(cpu=2 * SECOND)
        late = meaning(Exit(None, 9, 7.0, 1000, lost=False), CommandSpec(["x"]), bounds)
        early = meaning(Exit(None, 9, 1.0, 1000, lost=False), CommandSpec(["x"]), bounds)
        assert isinstance(late, Failed)
        assert isinstance(early, Failed)
        assert (late.problem.type, early.problem.type) == ("rota.CpuLimit", "rota.Signal")


class TestTheRecord:
    async def test_of_an_ordinary_command(self, stage: Stage) -> None:
        work = "x = bytearray(50_000_000)\nimport time\nwhile time.process_time() < 0.2: pass"
        _, attempt = await stage.run(*PYTHON, work)
        usage = attempt.usage
        assert usage is not None
        assert 0.2 * SECOND <= usage.cpu_time <= usage.wall_time + SECOND
        assert 50_000_000 < usage.memory < 100_000_000
        assert usage.isolation == ("session", "no_new_privs", "no-core", "private-folder")

    async def test_of_a_bounded_one_that_is_less_urgent(self, stage: Stage) -> None:
        _, attempt = await stage.run("true", priority=8, resources={"files": 100}, cwd="/")
        assert attempt.usage is not None
        assert attempt.usage.isolation == (
            "session", "no_new_privs", "no-core", "private-temp", "rlimits", "nice:3",
        )  # fmt: skip

    async def test_of_one_that_never_started(self, stage: Stage) -> None:
        found, attempt = await stage.run("no-such-program")
        assert isinstance(found, Failed)
        assert (found.exit_code, attempt.usage) == (127, None)


async def test_a_command_whose_output_can_not_be_read_does_not_run_on(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its attempt would be over, and the next would run beside it."""

    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start)
        with pytest.raises(RuntimeError):
            await stage.run("sleep", "60")
        assert not stage.keeper._children
    assert await stage.out("echo", "well") == "well\n"
