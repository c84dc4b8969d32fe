"""The connection to the keeper: its process, and the socket for messages.

Messages leave in the order they were posted. Messages that the socket doesn't take at once wait in an outbox,
with their file descriptors.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import socket
import subprocess
import sys
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rota.work.keeper.report import Report
from rota.work.own_programs import bare

PROGRAM = Path(__file__).with_name("__main__.py")

START_LIMIT = 10.0  # seconds until a new keeper must have said that it is ready
CLOSE_LIMIT = 35.0  # longer than the keeper's own patience with processes that don't die
LOST_LIMIT = 12.0  # after the keeper's death: longer than the patience of its wardens
# A silent keeper may have been stopped by a command of the same user, so it gets SIGCONT. If it stays silent it is
# killed, and all its commands with it. Too early costs healthy commands, too late the lease.
SILENCE_LIMIT = 1.5
DEAFNESS_LIMIT = 5.0
DEAFNESS_COUNT = 4  # deadlines without an answer: this process may have been stopped itself meanwhile


@dataclass(eq=False)
class Message:
    data: bytes
    fds: tuple[int, ...] = ()
    owned: tuple[int, ...] = ()  # descriptors to close when the message is sent, or never will be

    def close(self) -> None:
        for fd in self.owned:
            os.close(fd)
        self.owned = ()


class KeeperConnection:
    """One life of the keeper process, the socket to it, and the commands it has."""

    def __init__(self, guards: tuple[int, ...], folder: str, cgroup: str) -> None:
        self.loop = asyncio.get_running_loop()
        self.unfinished: set[Report] = set()  # of commands that it has, or had when it died
        self._asked = 0.0  # since when an answer is due
        self._unanswered = 0
        self._outbox: deque[Message] = deque()
        self._ready: asyncio.Future[bool] = self.loop.create_future()
        self._gone: asyncio.Future[None] = self.loop.create_future()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setblocking(False)
        with theirs, contextlib.ExitStack() as undo:
            undo.callback(self._socket.close)
            self.process = _launch(theirs.fileno(), guards, folder, cgroup)
            self._pidfd = os.pidfd_open(self.process.pid)
            undo.pop_all()
        self.loop.add_reader(self._pidfd, self._bury)
        self.loop.add_reader(self._socket, self._hear)
        self._timer = self.loop.call_later(START_LIMIT, self.process.kill)

    @property
    def alive(self) -> bool:
        return not self._gone.done() and self.process.poll() is None

    async def ready(self) -> bool:
        """False if the process died before it could say so."""
        if not self._ready.done():
            await asyncio.shield(self._ready)
        return self._ready.result()

    def send(self, words: str) -> None:
        with contextlib.suppress(OSError):  # a keeper that is gone has killed everything already
            self._post(Message(words.encode()))

    def extend(self, words: str) -> None:
        """Sends a deadline. The keeper answers each, which shows that it is awake."""
        while self._hear():
            pass  # perhaps it has answered, and this process was not awake
        now = self.loop.time()
        if not self._unanswered:
            self._asked = now
        elif now > self._asked + DEAFNESS_LIMIT and self._unanswered >= DEAFNESS_COUNT and self._ready.done():
            self.process.kill()
        elif now > self._asked + SILENCE_LIMIT:
            self.process.send_signal(signal.SIGCONT)
        self._unanswered += 1
        self.send(words)

    def guard(self, guards: tuple[int, ...]) -> None:
        """Replaces the guards that it holds."""
        copies = tuple(map(os.dup, guards))
        with contextlib.suppress(OSError):
            self._post(Message(b"guard", copies, owned=copies))

    def start(self, name: int, limits: str, request: bytes, stdio: tuple[int, ...]) -> tuple[int, Message]:
        """Hand over a command; returns the pipe of its report. The request goes in a memory file: it may be more than a
        socket takes."""
        report, writer = os.pipe()
        message = Message(f"start {name} {limits}".encode(), owned=(writer,))
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
        return report, message

    def withdraw(self, message: Message) -> bool:
        """Takes back a message not yet sent: its file descriptors may soon be closed or reused."""
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
        await _within(LOST_LIMIT, [report.exit for report in self.unfinished])
        self._lose()

    def _post(self, message: Message) -> None:
        if self._outbox:
            self._outbox.append(message)
            return
        try:
            self._transmit(message)
        except BlockingIOError:
            self._outbox.append(message)
            self.loop.add_writer(self._socket, self._flush)

    def _transmit(self, message: Message) -> None:
        if self._socket.fileno() < 0:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        socket.send_fds(self._socket, [message.data], message.fds)
        message.close()

    def _flush(self) -> None:
        while self._outbox:
            try:
                self._transmit(self._outbox[0])
            except BlockingIOError:
                return
            except OSError:
                self._outbox[0].close()  # its command counts as lost: the pipe has no writer
            self._outbox.popleft()
        self.loop.remove_writer(self._socket)

    def _hear(self) -> bool:
        """`ready`, once; then `heard`, as often as it was told something. False if there is nothing to hear."""
        try:
            words = self._socket.recv(64)
        except BlockingIOError:
            return False
        except OSError:
            words = b""
        if not words:  # it is gone
            if self._socket.fileno() >= 0:
                self.loop.remove_reader(self._socket)
            return False
        self._unanswered = 0
        self._timer.cancel()
        if not self._ready.done():
            self._ready.set_result(True)
        return True

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
        """Called when the keeper has ended. Its wardens kill their trees, and each then closes its pipe."""
        self.process.wait()
        self.loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        if self._socket.fileno() >= 0:
            self._hang_up()
        if self.unfinished:
            self.loop.call_later(LOST_LIMIT, self._lose)
        self._gone.set_result(None)

    def _lose(self) -> None:
        for report in list(self.unfinished):
            report.lose()


async def _within(seconds: float, futures: list[asyncio.Future[Any]]) -> bool:
    """Waits until all are done, for at most `seconds`."""
    if futures:
        _, pending = await asyncio.wait(futures, timeout=seconds)
        return not pending
    return True


def _launch(control: int, guards: tuple[int, ...], folder: str, cgroup: str) -> subprocess.Popen[bytes]:
    """A session of its own keeps Ctrl-C away. Popen without preexec_fn is vfork: nothing is copied."""
    controller = os.pidfd_open(os.getpid())
    try:
        inherited = (control, controller, *guards)
        return subprocess.Popen(
            [sys.executable, "-I", "-S", str(PROGRAM), folder, cgroup, *map(str, inherited)],
            pass_fds=inherited,
            env=bare(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
    finally:
        os.close(controller)
