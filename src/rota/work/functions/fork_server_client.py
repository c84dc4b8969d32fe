"""The node's side of the fork server: starts it, learns which tasks it lacks, asks it for processes."""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

import rota
from rota.work.functions.wire import Briefing, arrived
from rota.work.keeper.client import CommandProcess, KeeperClient, SpawnError
from rota.work.keeper.report import signal_name
from rota.work.own_programs import bare

ROOT = str(Path(rota.__file__).parent.parent)
# Not `-m`: only this process may know where rota is imported from. The fork server hides before it gets any data.
PROGRAM = f"""
import sys; sys.path.insert(0, {ROOT!r})
from rota.work.keeper.kernel import hide; hide()
from rota.work.functions.fork_server import main; main()
"""
WORDS_SIZE = 65_536
# A silent fork server may have been stopped by a function of the same user, so it gets SIGCONT. If it stays silent it
# is killed, and all functions with it; so the limit must be long enough for a busy machine.
SILENCE_LIMIT = 0.5
PAUSE = 1.0
NUDGES = 30


@dataclass(frozen=True)
class Gone:
    """How a function process ended. None: unknown, because the fork server died."""

    status: int | None

    def epitaph(self, why: str | None) -> str:
        """`why`: the reason if we killed it."""
        if self.status is None:
            return "the process that all functions are forked from has died"
        code = os.waitstatus_to_exitcode(self.status)
        if code == -signal.SIGKILL:
            return f"killed: {why}" if why else "killed by SIGKILL: perhaps out of memory"
        return f"killed by {signal_name(-code)}" if code < 0 else f"exited with code {code}"


LOST = Gone(None)


class ForkServerClient:
    """One life of a fork server. `over` is called when all its processes are gone."""

    def __init__(self, child: CommandProcess, control: socket.socket, over: Callable[[ForkServerClient], None]) -> None:
        self._child, self._control = child, control
        self._loop = asyncio.get_running_loop()
        self._names = itertools.count(1)
        self._watchers: dict[str, tuple[Callable[[], None], Callable[[Gone], None]]] = {}
        self.unable: dict[str, str] = {}  # tasks that it lacks, and why
        self.ready = asyncio.Event()  # set when it has looked for all tasks, or is over
        self.prepared = False
        self._owed = 0  # answers that it owes us
        self._nudging: asyncio.TimerHandle | None = None
        self._nudges = 0
        self._none_left: asyncio.Future[None] | None = None
        control.setblocking(False)
        self._loop.add_reader(control, self._hear)
        self._ending = self._loop.create_task(self._watch(over))

    @classmethod
    async def start(
        cls, keeper: KeeperClient, briefing: Briefing, over: Callable[[ForkServerClient], None]
    ) -> ForkServerClient:
        """Raises SpawnError."""
        try:
            with ExitStack() as undo:
                ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                undo.callback(ours.close)
                with theirs:
                    command, own = [sys.executable, "-c", PROGRAM], bare(os.environ)
                    child = await keeper.spawn(command, cwd="/", env=own, stdin=theirs.fileno(), stdout=2, stderr=2)
                server = cls(child, ours, over)
                undo.pop_all()
                undo.callback(server.kill_all)
                server._brief(briefing)
                undo.pop_all()
            return server
        except OSError as error:  # no descriptors, or it has died
            raise SpawnError(error.errno or errno.EIO, os.strerror(error.errno or errno.EIO)) from None

    def _brief(self, briefing: Briefing) -> None:
        with ExitStack() as made:
            # Functions run in the node's folder. A descriptor works even if the folder was removed meanwhile.
            here = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            made.callback(os.close, here)
            body = os.memfd_create("rota-briefing")
            made.callback(os.close, body)
            os.write(body, msgspec.json.encode(briefing))
            self._send("begin", [body, here])
        self._watch_it()

    @property
    def pid(self) -> int:
        return self._child.pid

    def fork(self, fds: Sequence[int], born: Callable[[], None], gone: Callable[[Gone], None]) -> str:
        """Asks for a process with these descriptors (channel, stdout, stderr, and for a pool process orders and tally);
        they stay the caller's to close. Raises OSError."""
        name = str(next(self._names))
        self._send(f"fork {name}", fds)
        self._watchers[name] = born, gone
        self._expect()
        return name

    def terminate(self, name: str) -> None:
        with suppress(OSError):
            self._send(f"terminate {name}")
        self._expect()

    def kill(self, name: str) -> None:
        try:
            self._send(f"kill {name}")
        except BlockingIOError:
            self._loop.call_later(0.01, self.kill, name)  # its socket is full; the kill must arrive
        except OSError:
            pass  # it is gone, and its processes are being killed
        self._expect()

    def end(self, name: str) -> None:
        """Ends a process that should have ended by now."""
        if name in self._watchers:
            self.kill(name)

    def kill_all(self) -> None:
        self._child.kill()

    def _expect(self) -> None:
        """Sends a ping after each request. Until it is answered, the fork server may be stopped."""
        if self.prepared and self._control.fileno() >= 0:
            self._ping()
            self._watch_it()

    def _ping(self) -> None:
        with suppress(OSError):  # its socket is full, or it has died
            self._send("ping")
            self._owed += 1

    def _watch_it(self) -> None:
        if self._nudging is None:
            self._nudges = 0
            self._nudging = self._loop.call_later(SILENCE_LIMIT, self._nudge)

    def _nudge(self) -> None:
        if self._nudges >= NUDGES:
            self.kill_all()
            return
        self._nudging = self._loop.call_later(PAUSE, self._nudge)
        if self.pid:
            with suppress(OSError):
                os.kill(self.pid, signal.SIGCONT)
        if self.prepared:  # while it imports it can't answer, and has a longer limit
            self._nudges += 1
            self._ping()

    def _awake(self) -> None:
        if self._nudging is not None:
            self._nudging.cancel()
            self._nudging = None

    async def until_gone(self, seconds: float) -> None:
        """Waits until none of its processes is left, for so long at most."""
        self._none_left = self._loop.create_future()
        if self._watchers:
            await asyncio.wait([self._none_left], timeout=seconds)

    async def close(self) -> None:
        self.kill_all()
        await asyncio.wait([self._ending])

    def _send(self, words: str, fds: Sequence[int] = ()) -> None:
        socket.send_fds(self._control, [words.encode()], fds)

    def _hear(self) -> None:
        while self._control.fileno() >= 0:
            if (words := arrived(self._control, WORDS_SIZE)) is None:
                return
            if not words:
                self._loop.remove_reader(self._control)
                self._child.kill()  # it may still run
                return
            self._understand(*words.decode("utf-8", "replace").split("\0"))

    def _understand(self, verb: str, *rest: str) -> None:
        match verb, rest:
            case "unable", (task, why):
                self.unable[task] = why
            case "ready", _:
                self._awake()
                self.prepared = True
                self.ready.set()
            case "pong", _:
                self._owed -= 1
                if not self._owed:
                    self._awake()
            case "born", (name,):
                self._watchers[name][0]()
            case "failed", (name,):
                self._watchers.pop(name)[1](LOST)
            case "gone", (name, status):
                self._watchers.pop(name)[1](Gone(int(status)))
                if not self._watchers and self._none_left is not None and not self._none_left.done():
                    self._none_left.set_result(None)

    async def _watch(self, over: Callable[[ForkServerClient], None]) -> None:
        await self._child.wait()
        self._awake()
        with suppress(Exception):
            self._loop.remove_reader(self._control)
        self._control.close()
        watchers, self._watchers = list(self._watchers.values()), {}
        for _, gone in watchers:
            gone(LOST)
        self.ready.set()
        over(self)
