"""The controller's side of the keeper: start a command, signal it, wait for its end.

The package's docstring says what the keeper is for. Here is asyncio only: one socket to the keeper (`connection`), one
pipe per running command (`report`), no threads. The promise that matters: when `CommandProcess.wait()` returns, no
process of the command's tree is left. If that can't be known any more the exit is `lost`, after everything possible was
tried.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence

from rota.work.keeper.connection import KeeperConnection, Message
from rota.work.keeper.report import Exit, Report

__all__ = ["CommandProcess", "Exit", "KeeperClient", "SpawnError", "Unwanted"]

NO_BOUNDS: Mapping[str, int | str] = {}
# Bounds that a warden may set on itself for good, and the least value that it can work with. CPU time is not among
# them, because the warden goes on using it; nor processes, which are counted for a whole user.
BEARABLE = {"files": 64, "file_size": 0, "memory": 256 << 20}
KILL_LIMIT = 40.0  # seconds after kill(), for a stuck keeper: longer than all its own limits together

# Requests handed to the keeper and not yet answered. More would gain nothing (it forks them one by one) and
# unprivileged users may only have a limited number of file descriptors in flight.
STARTS_IN_FLIGHT = 16
STARTS_TRIED = 3


class SpawnError(Exception):
    """The command did not start. The message is for the person who wrote the command."""

    def __init__(self, errno: int, message: str) -> None:
        super().__init__(message)
        self.errno = errno


class Unwanted(Exception):
    """The command was not started, because `unless` said so."""


class CommandProcess(Report):
    """One command under the keeper."""

    def __init__(self, link: KeeperConnection, name: int, pipe: int, request: Message) -> None:
        super().__init__(pipe, link.unfinished)
        self._link, self._name, self._request = link, name, request
        self.doubted = self.kill

    def terminate(self) -> None:
        """SIGTERM for every process of the tree."""
        self._signal("terminate")

    def kill(self) -> None:
        """SIGKILL for every process of the tree. After that, wait() takes no longer than KILL_LIMIT."""
        self._signal("kill")
        self.lose_after(KILL_LIMIT)

    async def wait(self) -> Exit:
        return await asyncio.shield(self.exit)

    async def failure(self) -> tuple[int, str] | None:
        """How the start failed (errno and step), if it did. Cancelling this gives up the command."""
        try:
            return await self.started
        except asyncio.CancelledError:
            if not self._link.withdraw(self._request):
                self.kill()
            raise

    def _signal(self, verb: str) -> None:
        if not self.exit.done():
            self._link.send(f"{verb} {self._name}")


class KeeperClient:
    """Starts the keeper process, again if it dies, and hands it commands.

    `guards` are file descriptors, the caller's to close, that keeper and wardens hold until all they run
    is gone: a lock on them by flock (one by lockf is not inherited) is free only then. In `folder` the private
    folders of commands are made; `cgroup` is a control group of version 2 that was set aside for commands.
    """

    def __init__(self, guards: Sequence[int] = (), folder: str | None = None, cgroup: str = "") -> None:
        self._folder, self._cgroup = folder or tempfile.gettempdir(), cgroup
        # Copies: the caller may close its own, and the number of a closed descriptor is soon reused.
        self._guards = tuple(os.dup(guard) for guard in guards)
        self._deadline: float | None = None
        self._names = itertools.count(1)
        self._gate = asyncio.Semaphore(STARTS_IN_FLIGHT)
        self._links: list[KeeperConnection] = []  # the last is in use; the others are dead, their children not yet
        self._closed = False

    @property
    def pid(self) -> int | None:
        return self._links[-1].process.pid if self._links and self._links[-1].alive else None

    @property
    def _children(self) -> list[CommandProcess]:
        return [one for link in self._links for one in link.unfinished if isinstance(one, CommandProcess)]

    async def start(self) -> None:
        await self._ready()

    async def spawn(
        self,
        argv: Sequence[str],
        *,
        cwd: str | None,
        env: Mapping[str, str],
        stdin: int,
        stdout: int,
        stderr: int,
        extra: int | None = None,
        bounds: Mapping[str, int | str] = NO_BOUNDS,
        unless: Callable[[], bool] = lambda: False,
    ) -> CommandProcess:
        """Start a command; raises SpawnError if it can't be. The file descriptors stay the caller's to close; the
        command finds the extra one, if there is one, as its descriptor 3.

        `unless` is called at the last moment before the handover to the keeper; if it returns true, Unwanted is raised.

        A program without a slash is looked up in the PATH of `env`. Without `cwd` it runs in a private folder. If the
        call is cancelled, the command is killed.
        """
        request = _pack(argv, cwd or "", env, bounds)
        descriptors = (stdin, stdout, stderr) if extra is None else (stdin, stdout, stderr, extra)
        async with self._gate:
            child = await self._start(request, _bearable(bounds), descriptors, unless)
            failure = await child.failure()
        if failure is not None:
            raise SpawnError(failure[0], _explain(*failure, argv[0], cwd or self._folder))
        return child

    def extend(self, deadline: float | None) -> None:
        """Sets the time (CLOCK_BOOTTIME) at which the keeper kills everything, including this process."""
        self._deadline = deadline
        if not self._links or self._closed:
            return
        if self._links[-1].alive:
            self._links[-1].extend(f"deadline {_number(deadline)}")
        elif deadline is not None:
            # The deadline is not enforced while the keeper is dead; don't wait for the next command.
            with contextlib.suppress(SpawnError):
                self._open()

    def guard(self, guards: Sequence[int]) -> None:
        """Replaces the guards. Once this returns the new ones are held, even if this process dies: a descriptor on its
        way in a socket is open."""
        if self._closed or list(map(_file, guards)) == list(map(_file, self._guards)):
            return
        before, self._guards = self._guards, tuple(map(os.dup, guards))
        for guard in before:
            os.close(guard)
        if self._links and self._links[-1].alive:
            self._links[-1].guard(self._guards)

    async def kill_all(self) -> None:
        """Kill all commands, and wait until they are gone; the keeper itself stays."""
        children = self._children
        for child in children:
            child.kill()
        await asyncio.gather(*(child.wait() for child in children))

    async def close(self) -> None:
        """Kill all commands, and wait until they and the keeper are gone."""
        self._closed = True
        await asyncio.gather(*(link.close() for link in self._links))
        guards, self._guards = self._guards, ()
        for guard in guards:
            os.close(guard)

    def _open(self) -> KeeperConnection:
        if self._closed:
            raise SpawnError(errno.ESHUTDOWN, "the keeper is closed")
        if not self._links or not self._links[-1].alive:
            try:
                link = KeeperConnection(self._guards, self._folder, self._cgroup)
            except OSError as error:
                raise _spawn_error("the keeper", error) from error
            self._links = [old for old in self._links if old.unfinished] + [link]
            link.extend(f"deadline {_number(self._deadline)}")
        return self._links[-1]

    async def _ready(self) -> KeeperConnection:
        link = self._open()
        if not await link.ready():
            raise SpawnError(errno.EAGAIN, "the keeper died as soon as it was started")
        return link

    async def _start(
        self, request: bytes, limits: str, stdio: tuple[int, ...], unless: Callable[[], bool]
    ) -> CommandProcess:
        for _ in range(STARTS_TRIED):
            link = await self._ready()
            if unless():
                raise Unwanted
            name = next(self._names)
            try:
                return CommandProcess(link, name, *link.start(name, limits, request, stdio))
            except ConnectionError:
                continue  # the keeper died before the handover: ask a new one
            except OSError as error:
                raise _spawn_error("a process", error) from error
        raise SpawnError(errno.EAGAIN, "the keeper dies again and again")


def _file(descriptor: int) -> tuple[int, int]:
    """The file of a descriptor: the number alone may have been reused."""
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino


def _pack(argv: Sequence[str], cwd: str, env: Mapping[str, str], bounds: Mapping[str, int | str]) -> bytes:
    if not argv:
        raise SpawnError(errno.EINVAL, "the command is empty")
    strings = [" ".join(f"{name}={value}" for name, value in bounds.items()), cwd, str(len(argv)), *argv]
    for key, value in env.items():
        if not key or "=" in key:
            raise SpawnError(errno.EINVAL, f"not a name for an environment variable: {key!r}")
        strings.append(f"{key}={value}")
    for string in strings:
        if "\0" in string:
            raise SpawnError(errno.EINVAL, f"programs can't be given a NUL character: {_short(string)!r}")
    try:
        return b"\0".join(map(os.fsencode, strings))
    except UnicodeEncodeError as error:
        raise SpawnError(errno.EINVAL, f"not valid text: {_short(error.object)!r}") from error


def _bearable(bounds: Mapping[str, int | str]) -> str:
    """The limits as one word if a warden can have all of them, else an empty word."""
    limits = {name: int(value) for name, value in bounds.items() if name in BEARABLE}
    if bounds.keys() - limits.keys() - {"nice", "rest"} or any(
        value < BEARABLE[name] for name, value in limits.items()
    ):
        return ""
    return ",".join(f"{name}={value}" for name, value in sorted(limits.items()))


def _spawn_error(what: str, error: OSError) -> SpawnError:
    return SpawnError(error.errno or errno.EIO, f"{what} can't be started: {error.strerror}")


def _short(string: str) -> str:
    return string if len(string) <= 80 else string[:80] + "…"


def _number(deadline: float | None) -> str:
    return "none" if deadline is None else repr(float(deadline))


# By the step of the start that failed, and the error; None: any other error.
_PROBLEMS = {
    ("directory", errno.ENOENT): "working directory not found: {cwd}",
    ("directory", None): "working directory can't be used: {cwd}: {why}",
    ("program", errno.ENOENT): "program not found: {program}",
    ("program", errno.EACCES): "program is not executable: {program}",
    ("program", errno.E2BIG): "arguments and environment are too long for the system: {program}",
    ("program", errno.ENOEXEC): "neither a program for this machine nor a script with a #! line: {program}",
    ("interpreter", None): "the interpreter that its first line names is not found: {program}",
    ("program", errno.ENOMEM): "{program} can't be loaded into the memory that it may have",
    ("memory", errno.ENOMEM): "{program} can't be loaded into the memory that it may have",
    ("user", None): "{program} can't be run as another user: {why}",
    ("folder", None): "no private folder for {program} in {cwd}: {why}",
    ("group", None): "{program} can't be put into a control group: {why}",
    ("process", errno.ESHUTDOWN): "the keeper is ending, nothing can be started",
}


def _explain(number: int, what: str, program: str, cwd: str) -> str:
    problem = _PROBLEMS.get((what, number)) or _PROBLEMS.get((what, None)) or "{program} can't be started: {why}"
    return problem.format(program=program, cwd=cwd, why=os.strerror(number))
