"""What the tests of the keeper share: commands with one pipe for their output, and ways to wait."""

import asyncio
import os
import select
import sys
from collections.abc import Callable, Mapping

from rota.work.keeper.client import CommandProcess, Exit, KeeperClient

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


def ended(pidfd: int) -> bool:
    return bool(select.select([pidfd], [], [], 0)[0])


class Shell:
    """Starts commands whose output goes to one pipe, of which only they then hold the writing end."""

    def __init__(self, keeper: KeeperClient, out: Pipe, null: int) -> None:
        self.keeper, self.out, self.null = keeper, out, null

    async def start(
        self, *argv: str, env: Mapping[str, str] = ENV, cwd: str | None = None, stdin: int | None = None
    ) -> CommandProcess:
        source = self.null if stdin is None else stdin
        sink = self.null if self.out.writer < 0 else self.out.writer
        async with asyncio.timeout(LIMIT):
            return await self.keeper.spawn(argv, cwd=cwd, env=env, stdin=source, stdout=sink, stderr=sink)

    async def only(self, *argv: str, stdin: int | None = None) -> CommandProcess:
        """Start the last one to have the pipe."""
        child = await self.start(*argv, stdin=stdin)
        self.out.hang_up()
        return child

    async def script(self, text: str, stdin: int | None = None) -> CommandProcess:
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


async def finish(child: CommandProcess) -> Exit:
    async with asyncio.timeout(LIMIT):
        return await child.wait()
