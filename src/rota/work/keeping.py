"""The controller's side of the keeper: start a command, signal it, wait for its end.

`keeper.py` says what the keeper is for. Here is asyncio only: one socket to the keeper, one pipe per running
command, no threads. The promise that matters: when `Child.wait()` returns, no process of the command's tree
is left. If that can't be known any more the exit is `lost`, after all that could be done about it was done.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import errno
import itertools
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).with_name("keeper.py")

START_LIMIT = 10.0  # seconds until a new keeper must have said that it is ready
CLOSE_LIMIT = 35.0  # longer than the keeper's own patience with processes that don't die
LOST_LIMIT = 12.0  # after the keeper's death: longer than the patience of its wardens
KILL_LIMIT = 40.0  # after kill(), for a keeper that is itself stuck: longer than all its patience together

# Requests handed to the keeper and not yet answered. More would gain nothing (it forks them one by one) and
# unprivileged users may only have a limited number of file descriptors in flight.
STARTS_IN_FLIGHT = 16
STARTS_TRIED = 3


class SpawnError(Exception):
    """The command did not start. The message is for the person who wrote the command."""

    def __init__(self, errno: int, message: str) -> None:
        super().__init__(message)
        self.errno = errno


@dataclass(frozen=True)
class Exit:
    """How a command ended: by `code` or by `signal`; by neither if the process above it was lost.

    `max_rss_bytes` is at least the few megabytes of the process that started the command: Linux counts so.
    """

    code: int | None
    signal: int | None
    cpu_seconds: float
    max_rss_bytes: int
    lost: bool


LOST = Exit(code=None, signal=None, cpu_seconds=0.0, max_rss_bytes=0, lost=True)


class Child:
    """One command under the keeper. `pid` is 0 if the keeper died before it could tell."""

    def __init__(self, link: _Link, name: int, report: int, request: _Message) -> None:
        self.pid = 0
        self._link = link
        self._name = name
        self._report = report
        self._request = request
        self._rest = b""
        self._limit: asyncio.TimerHandle | None = None
        self._started: asyncio.Future[tuple[int, str] | None] = link.loop.create_future()
        self._exit: asyncio.Future[Exit] = link.loop.create_future()
        link.children.add(self)
        link.loop.add_reader(report, self._read)

    def terminate(self) -> None:
        """Ask: SIGTERM for every process of the tree."""
        self._signal("terminate")

    def kill(self) -> None:
        """SIGKILL for every process of the tree. After that, wait() takes no longer than KILL_LIMIT."""
        self._signal("kill")
        if self._limit is None and not self._exit.done():
            self._limit = self._link.loop.call_later(KILL_LIMIT, self._finish, LOST)

    async def wait(self) -> Exit:
        return await asyncio.shield(self._exit)

    def _withdraw(self) -> None:
        if not self._link.withdraw(self._request):
            self.kill()

    def _signal(self, verb: str) -> None:
        if not self._exit.done():
            self._link.send(f"{verb} {self._name}")

    def _read(self) -> None:
        data = os.read(self._report, 4096)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._hear(*line.decode().split())
        if not data:
            self._finish(LOST)

    def _hear(self, verb: str, *words: str) -> None:
        match verb:
            case "started":
                self.pid = int(words[0])
                self._answer(None)
            case "failed":
                self._answer((int(words[0]), words[1]))
                self._finish(LOST)
            case "exit":
                self._finish(_exit(*words))

    def _answer(self, failure: tuple[int, str] | None) -> None:
        if not self._started.done():
            self._started.set_result(failure)

    def _finish(self, exit: Exit) -> None:
        if not self._exit.done():
            if self._limit is not None:
                self._limit.cancel()
            self._link.loop.remove_reader(self._report)
            os.close(self._report)
            self._link.children.discard(self)
            self._exit.set_result(exit)
            self._answer(None)


class Keeper:
    """Starts the keeper process, again if it dies, and hands it commands.

    `guards` are file descriptors, the caller's to close, that keeper and wardens hold until all they run
    is gone: a lock on them by flock (one by lockf is not inherited) is free only then.
    """

    def __init__(self, guards: Sequence[int] = ()) -> None:
        self._guards = tuple(guards)
        self._deadline: float | None = None
        self._names = itertools.count(1)
        self._gate = asyncio.Semaphore(STARTS_IN_FLIGHT)
        self._links: list[_Link] = []  # the last is in use; those before it are dead, their children not yet
        self._closed = False

    @property
    def pid(self) -> int | None:
        return self._links[-1].process.pid if self._links and self._links[-1].alive else None

    async def start(self) -> None:
        await self._open().ready()

    async def spawn(
        self,
        argv: Sequence[str],
        *,
        cwd: str | None,
        env: Mapping[str, str],
        stdin: int,
        stdout: int,
        stderr: int,
    ) -> Child:
        """Start a command; raises SpawnError if it can't be. The file descriptors stay the caller's to close.

        A program without a slash is looked up in the PATH of `env`. If the call is cancelled, the command is
        killed.
        """
        folder = cwd or str(Path.cwd())
        request = _pack(argv, folder, env)
        async with self._gate:
            child = await self._start(request, (stdin, stdout, stderr))
            try:
                failure = await child._started
            except asyncio.CancelledError:
                child._withdraw()
                raise
        if failure is not None:
            raise SpawnError(failure[0], _explain(*failure, argv[0], folder))
        return child

    def extend(self, deadline: float | None) -> None:
        """When (CLOCK_BOOTTIME) the keeper kills everything, this process too, unless told another time."""
        self._deadline = deadline
        if not self._links or self._closed:
            return
        if self._links[-1].alive:
            self._links[-1].send(f"deadline {_number(deadline)}")
        elif deadline is not None:
            # Nobody enforces the deadline while the keeper is dead; don't wait for the next command.
            with contextlib.suppress(SpawnError):
                self._open()

    async def close(self) -> None:
        """Kill what is left, and wait until it and the keeper are gone."""
        self._closed = True
        await asyncio.gather(*(link.close() for link in self._links))

    def _open(self) -> _Link:
        if self._closed:
            raise SpawnError(errno.ESHUTDOWN, "the keeper is closed")
        if not self._links or not self._links[-1].alive:
            try:
                link = _Link(self._guards)
            except OSError as error:
                raise _spawn_error("the keeper", error) from error
            self._links = [old for old in self._links if old.children] + [link]
            link.send(f"deadline {_number(self._deadline)}")
        return self._links[-1]

    async def _start(self, request: bytes, stdio: tuple[int, ...]) -> Child:
        for _ in range(STARTS_TRIED):
            link = self._open()
            await link.ready()
            try:
                return link.start(next(self._names), request, stdio)
            except ConnectionError:
                continue  # it has just died and nothing was handed over: a new one may be asked
            except OSError as error:
                raise _spawn_error("a process", error) from error
        raise SpawnError(errno.EAGAIN, "the keeper dies again and again")


@dataclass(eq=False)
class _Message:
    data: bytes
    fds: tuple[int, ...] = ()
    owned: tuple[int, ...] = ()  # those of the fds to be closed when the message is sent, or never will be

    def close(self) -> None:
        for fd in self.owned:
            os.close(fd)
        self.owned = ()


class _Link:
    """One life of the keeper process, the socket to it, and the commands it has."""

    def __init__(self, guards: tuple[int, ...]) -> None:
        self.loop = asyncio.get_running_loop()
        self.children: set[Child] = set()
        self._outbox: deque[_Message] = deque()
        self._ready: asyncio.Future[bool] = self.loop.create_future()
        self._gone: asyncio.Future[None] = self.loop.create_future()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setblocking(False)
        with theirs, contextlib.ExitStack() as undo:
            undo.callback(self._socket.close)
            self.process = _launch(theirs.fileno(), guards)
            self._pidfd = os.pidfd_open(self.process.pid)
            undo.pop_all()
        self.loop.add_reader(self._pidfd, self._bury)
        self.loop.add_reader(self._socket, self._greet)
        self._timer = self.loop.call_later(START_LIMIT, self.process.kill)

    @property
    def alive(self) -> bool:
        return not self._gone.done() and self.process.poll() is None

    async def ready(self) -> None:
        if not self._ready.done():
            await asyncio.shield(self._ready)
        if not self._ready.result():
            raise SpawnError(errno.EAGAIN, "the keeper died as soon as it was started")

    def send(self, words: str) -> None:
        with contextlib.suppress(OSError):  # a keeper that is gone has killed everything already
            self._post(_Message(words.encode()))

    def start(self, name: int, request: bytes, stdio: tuple[int, ...]) -> Child:
        """Hand over a command. The request goes in a memory file: it may be more than a socket takes."""
        report, writer = os.pipe()
        message = _Message(f"start {name}".encode(), owned=(writer,))
        try:
            body = os.memfd_create("rota-request")
            message.owned = (writer, body)
            message.fds = (writer, body, *stdio)
            if os.write(body, request) != len(request):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self._post(message)
        except BaseException:
            message.close()
            os.close(report)
            raise
        return Child(self, name, report, message)

    def withdraw(self, message: _Message) -> bool:
        """Take back a message not yet sent: its file descriptors may soon be closed, or be others."""
        if message not in self._outbox:
            return False
        self._outbox.remove(message)
        message.close()
        return True

    async def close(self) -> None:
        if not self._gone.done():
            self._hang_up()
            if not await _within(CLOSE_LIMIT, [self._gone]):
                self.process.kill()
                await _within(START_LIMIT, [self._gone])
        await _within(LOST_LIMIT, [child._exit for child in self.children])
        self._lose()

    def _post(self, message: _Message) -> None:
        if self._outbox:
            self._outbox.append(message)
            return
        try:
            self._transmit(message)
        except BlockingIOError:
            self._outbox.append(message)
            self.loop.add_writer(self._socket, self._flush)

    def _transmit(self, message: _Message) -> None:
        if self._socket.fileno() < 0:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        fds = array.array("i", message.fds)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)] if fds else []
        self._socket.sendmsg([message.data], rights)
        message.close()

    def _flush(self) -> None:
        while self._outbox:
            try:
                self._transmit(self._outbox[0])
            except BlockingIOError:
                return
            except OSError:
                self._outbox[0].close()  # its command is found lost: the pipe has no writer
            self._outbox.popleft()
        self.loop.remove_writer(self._socket)

    def _greet(self) -> None:
        self.loop.remove_reader(self._socket)
        with contextlib.suppress(OSError):
            if self._socket.recv(64):
                self._timer.cancel()
                self._ready.set_result(True)

    def _hang_up(self) -> None:
        self._timer.cancel()
        self.loop.remove_reader(self._socket)
        self.loop.remove_writer(self._socket)
        self._socket.close()
        for message in self._outbox:
            message.close()
        self._outbox.clear()
        if not self._ready.done():
            self._ready.set_result(False)

    def _bury(self) -> None:
        """The keeper has ended. Its wardens kill their trees now, and each that is done closes its pipe."""
        self.process.wait()
        self.loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        if self._socket.fileno() >= 0:
            self._hang_up()
        if self.children:
            self.loop.call_later(LOST_LIMIT, self._lose)
        self._gone.set_result(None)

    def _lose(self) -> None:
        for child in list(self.children):
            child._finish(LOST)


async def _within(seconds: float, futures: Sequence[asyncio.Future[Any]]) -> bool:
    """Wait until all are done, but not longer than that."""
    if futures:
        _, pending = await asyncio.wait(futures, timeout=seconds)
        return not pending
    return True


def _launch(control: int, guards: tuple[int, ...]) -> subprocess.Popen[bytes]:
    """A session of its own keeps Ctrl-C away. Popen without preexec_fn is vfork: nothing is copied."""
    controller = os.pidfd_open(os.getpid())
    try:
        inherited = (control, controller, *guards)
        return subprocess.Popen(
            [sys.executable, "-I", "-S", str(PROGRAM), *map(str, inherited)],
            pass_fds=inherited,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
    finally:
        os.close(controller)


def _pack(argv: Sequence[str], cwd: str, env: Mapping[str, str]) -> bytes:
    if not argv:
        raise SpawnError(errno.EINVAL, "the command is empty")
    strings = [cwd, str(len(argv)), *argv]
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


def _spawn_error(what: str, error: OSError) -> SpawnError:
    return SpawnError(error.errno or errno.EIO, f"{what} can't be started: {error.strerror}")


def _short(string: str) -> str:
    return string if len(string) <= 80 else string[:80] + "…"


def _number(deadline: float | None) -> str:
    return "none" if deadline is None else repr(float(deadline))


def _exit(status: str, cpu_seconds: str, max_rss_bytes: str) -> Exit:
    code = os.waitstatus_to_exitcode(int(status))
    return Exit(
        code=code if code >= 0 else None,
        signal=-code if code < 0 else None,
        cpu_seconds=float(cpu_seconds),
        max_rss_bytes=int(max_rss_bytes),
        lost=False,
    )


def _explain(number: int, what: str, program: str, cwd: str) -> str:
    match what, number:
        case "directory", errno.ENOENT:
            return f"working directory not found: {cwd}"
        case "directory", _:
            return f"working directory can't be used: {cwd}: {os.strerror(number)}"
        case "program", errno.ENOENT:
            return f"program not found: {program}"
        case "program", errno.EACCES:
            return f"program is not executable: {program}"
        case "program", errno.E2BIG:
            return f"arguments and environment are too long for the system: {program}"
        case "program", errno.ENOEXEC:
            return f"neither a program for this machine nor a script with a #! line: {program}"
        case "interpreter", _:
            return f"the interpreter that its first line names is not found: {program}"
        case "process", errno.ESHUTDOWN:
            return "the keeper is ending, nothing can be started"
        case _:
            return f"{program} can't be started: {os.strerror(number)}"
