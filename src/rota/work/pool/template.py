"""The controller's side of the nursery: starts it, hears which tasks it has, asks it for processes."""

from __future__ import annotations

import array
import asyncio
import itertools
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

import rota
from rota.work.keeping import Child, Keeper
from rota.work.pool.wire import Briefing

ROOT = str(Path(rota.__file__).parent.parent)
# Not `-m`: where rota is imported from may be known to this process only.
PROGRAM = f"import sys; sys.path.insert(0, {ROOT!r}); from rota.work.pool.nursery import main; main()"
WORDS_SIZE = 65_536


@dataclass(frozen=True)
class Gone:
    """How a pool process ended. `lost`: the nursery died, and nobody knows."""

    status: int
    lost: bool = False

    @property
    def signal(self) -> int | None:
        return os.WTERMSIG(self.status) if not self.lost and os.WIFSIGNALED(self.status) else None

    @property
    def code(self) -> int | None:
        return os.WEXITSTATUS(self.status) if not self.lost and os.WIFEXITED(self.status) else None

    def epitaph(self, why: str | None) -> str:
        """`why`: we killed it, for this reason."""
        if self.lost:
            return "the process that all functions are forked from has died"
        if self.signal == signal.SIGKILL:
            return f"killed: {why}" if why else "killed by SIGKILL: perhaps out of memory"
        if self.signal is not None:
            name = signal.Signals(self.signal).name if self.signal in list(signal.Signals) else str(self.signal)
            return f"killed by {name}"
        return f"exited with code {self.code}"


LOST = Gone(0, lost=True)


class Template:
    """One life of a nursery. `over` is called when nothing of it is left."""

    def __init__(self, child: Child, control: socket.socket, over: Callable[[Template], None]) -> None:
        self._child, self._control = child, control
        self._loop = asyncio.get_running_loop()
        self._names = itertools.count(1)
        self._watchers: dict[str, tuple[Callable[[], None], Callable[[Gone], None]]] = {}
        self.able: set[str] = set()
        self.unable: dict[str, str] = {}
        self.ready = asyncio.Event()  # it has said which tasks it has, or is over
        self.prepared = False
        self.closing = False
        control.setblocking(False)
        self._loop.add_reader(control, self._hear)
        self._ending = self._loop.create_task(self._watch(over))

    @classmethod
    async def start(cls, keeper: Keeper, briefing: Briefing, over: Callable[[Template], None]) -> Template:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                command = [sys.executable, "-c", PROGRAM]
                # Functions run where the node does: its folder, its place for what is temporary.
                place = {"TMPDIR": tempfile.gettempdir(), **os.environ}
                child = await keeper.spawn(
                    command, cwd=str(Path.cwd()), env=place, stdin=theirs.fileno(), stdout=2, stderr=2
                )
            template = cls(child, ours, over)
        except BaseException:
            ours.close()
            raise
        body = os.memfd_create("rota-briefing")
        try:
            os.write(body, msgspec.json.encode(briefing))
            template._send("begin", [body])
        finally:
            os.close(body)
        return template

    @property
    def pid(self) -> int:
        return self._child.pid

    def fork(
        self, fds: Sequence[int], born: Callable[[], None], gone: Callable[[Gone], None], verb: str = "fork"
    ) -> str:
        """Asks for a process with these descriptors (orders, channel, stdout, stderr); they stay the caller's to
        close. Raises OSError."""
        name = str(next(self._names))
        self._send(f"{verb} {name}", fds)
        self._watchers[name] = born, gone
        return name

    def terminate(self, name: str) -> None:
        with suppress(OSError):
            self._send(f"terminate {name}")

    def kill(self, name: str) -> None:
        try:
            self._send(f"kill {name}")
        except BlockingIOError:
            self._loop.call_later(0.01, self.kill, name)  # it is busy; this must arrive
        except OSError:
            pass  # it is gone, and everything below it is being killed

    def kill_all(self) -> None:
        self.closing = True
        self._child.kill()

    async def close(self) -> None:
        self.kill_all()
        await asyncio.wait([self._ending])

    def _send(self, words: str, fds: Sequence[int] = ()) -> None:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self._control.sendmsg([words.encode()], rights)

    def _hear(self) -> None:
        while True:
            try:
                words = self._control.recv(WORDS_SIZE)
            except BlockingIOError:
                return
            except OSError:
                words = b""
            if not words:
                self._loop.remove_reader(self._control)
                self._child.kill()  # whatever it is doing without us
                return
            self._understand(*words.decode("utf-8", "replace").split("\0"))

    def _understand(self, verb: str, *rest: str) -> None:
        match verb, rest:
            case "able", (task,):
                self.able.add(task)
            case "unable", (task, why):
                self.unable[task] = why
            case "ready", _:
                self.prepared = True
                self.ready.set()
            case "born", (name, _):
                self._watchers[name][0]()
            case "failed", (name, _):
                self._watchers.pop(name)[1](LOST)
            case "gone", (name, status, *_):
                self._watchers.pop(name)[1](Gone(int(status)))

    async def _watch(self, over: Callable[[Template], None]) -> None:
        await self._child.wait()
        with suppress(Exception):
            self._loop.remove_reader(self._control)
        self._control.close()
        watchers, self._watchers = list(self._watchers.values()), {}
        for _, gone in watchers:
            gone(LOST)
        self.ready.set()
        over(self)
