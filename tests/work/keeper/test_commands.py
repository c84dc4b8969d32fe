"""One command: what it gets, how it ends, why it can't start."""

import asyncio
import errno
import os
import signal
from pathlib import Path

import pytest

from rota.work.keeper.client import KeeperClient, SpawnError
from tests.work.keeper.shell import PYTHON, Pipe, Shell, finish


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
        _, output = await shell.run("/usr/bin/env", "-0", env=env | {"TMPDIR": "/x"})
        assert sorted(output.split(b"\0")[:-1]) == sorted(
            os.fsencode(f"{k}={v}") for k, v in (env | {"TMPDIR": "/x"}).items()
        )

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

    async def test_a_private_folder_by_default(self, shell: Shell) -> None:
        script = "pwd; echo $TMPDIR; stat -c %a . $TMPDIR; ls -A; mkdir -p a/b; echo x > a/b/c; chmod 0 a"
        _, output = await shell.run("/bin/sh", "-c", script)
        folder, temporary, *rest = output.decode().split()
        assert (temporary, rest) == (f"{folder}/tmp", ["700", "700", "tmp"])
        assert not Path(folder).exists()

    async def test_only_what_is_temporary_is_private_in_a_folder_of_its_choice(
        self, shell: Shell, tmp_path: Path
    ) -> None:
        script = "echo $TMPDIR; stat -c %a $TMPDIR; echo x > $TMPDIR/a; echo y > kept"
        _, output = await shell.run("/bin/sh", "-c", script, cwd=str(tmp_path))
        temporary, mode = output.decode().split()
        assert mode == "700"
        assert not Path(temporary).exists()
        assert (tmp_path / "kept").read_text() == "y\n"

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
            keeper = KeeperClient(guards=[lock.fileno()])
            # It stops itself where it stands: a program that is just being loaded has its library open for a moment.
            child = await Shell(keeper, out, null).script("echo up; kill -STOP $$; :")
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
