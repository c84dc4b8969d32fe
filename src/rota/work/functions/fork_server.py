"""The nursery: a process that imports the app's modules once, and from then on only forks.

It has one thread and no loop of asyncio: a fork of a process that does anything else may inherit a lock that nobody
will ever open. It answers for its children to the last of their descendants, as a warden does for a command: it is
their subreaper, so what a dead pool process leaves behind becomes the nursery's child, and is killed before `gone` is
said.
"""

from __future__ import annotations

import gc
import importlib
import os
import select
import signal
import socket
import sys
import traceback
from contextlib import suppress

import msgspec

from rota.tasks.catalogue import CATALOGUES, TaskDef
from rota.work.functions.host import be_host
from rota.work.functions.process import Rules, be_process
from rota.work.functions.wire import Briefing, Place
from rota.work.keeper.kernel import PR_SET_CHILD_SUBREAPER, SignalPipe, attempt, now, prctl, set_name
from rota.work.keeper.tree import cull, descend, hit
from rota.work.keeper.wire import receive
from rota.work.own_programs import unpack

FREEZE_ROUNDS = 16
AGAIN = 0.02
LONGEST_REASON = 2_000  # bytes


def main() -> None:
    control = _away_from_stdin()
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    set_name(b"rota-nursery")
    verb, _, fds = receive(control)
    if verb != b"begin":
        return
    briefing = _read(fds[0])
    os.fchdir(fds[1])
    os.close(fds[1])
    unpack(briefing.environment)
    tasks = prepare(briefing, control)
    settings = briefing.settings
    rules = Rules(tasks, settings.max_result, settings.pool_jobs, settings.pool_memory)
    gc.collect()
    gc.freeze()  # a collection would touch, and so copy, every page that pool processes share
    ForkServer(control, rules).run()


def _away_from_stdin() -> socket.socket:
    control = socket.socket(fileno=os.dup(0))  # dup: not inherited by what is executed
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return control


def _read(fd: int) -> Briefing:
    try:
        return msgspec.json.decode(os.pread(fd, os.fstat(fd).st_size, 0), type=Briefing)
    finally:
        os.close(fd)


def prepare(briefing: Briefing, control: socket.socket) -> dict[str, TaskDef]:
    """Imports, looks which of the tasks are there now, and says which are not."""
    sys.path[:] = briefing.path
    broken: dict[str, str] = {}
    for module in briefing.modules:
        try:
            importlib.import_module(module)
        except BaseException as error:
            if not isinstance(error, ModuleNotFoundError):
                traceback.print_exc()
            broken[module] = f"{module} can't be imported: {type(error).__name__}: {error}"
    tasks: dict[str, TaskDef] = {}
    for place in briefing.places:
        found = [(one, each) for each in CATALOGUES for one in each if _fits(one, place)]
        if found:
            tasks[place.task], catalogue = found[0]
            catalogue.configure(briefing.settings)
        else:
            why = broken.get(place.module) or f"{place.module}.{place.name} is no task after its module is imported"
            control.send(f"unable\0{place.task}\0{why}".encode("utf-8", "backslashreplace")[:LONGEST_REASON])
    control.send(b"ready")
    return tasks


def _fits(task: TaskDef, place: Place) -> bool:
    found = task.function
    return (
        task.name == place.task
        and getattr(found, "__module__", None) == place.module
        and getattr(found, "__qualname__", None) == place.name
    )


class ForkServer:
    def __init__(self, control: socket.socket, rules: Rules) -> None:
        self._control, self._rules = control, rules
        self._pid = os.getpid()
        self._alive: dict[int, str] = {}
        self._pids: dict[str, int] = {}
        self._family = set(descend({self._pid}))  # what modules have started while they were imported
        self._bereaved: list[str] = []  # what to say of dead ones when nothing of their trees is left
        self._bell = SignalPipe()
        self._poll = select.poll()
        self._poll.register(self._bell.fd, select.POLLIN)
        self._poll.register(control.fileno(), select.POLLIN)

    def run(self) -> None:
        while True:
            for fd, _ in self._poll.poll(AGAIN * 1000 if self._bereaved else None):
                if fd == self._bell.fd:
                    self._bell.silence()
                elif not self._hear():
                    return self._end()
            self._reap()
            self._sweep()

    def _hear(self) -> bool:
        verb, value, fds = receive(self._control)
        name = value.decode()
        if verb in (b"fork", b"host"):
            self._fork(name, fds, verb == b"host")
        elif verb == b"terminate" and name in self._pids:
            attempt(os.kill, self._pids[name], signal.SIGTERM)
        elif verb == b"kill" and name in self._pids:
            self._kill(self._pids[name])
        elif verb == b"ping":
            self._say("pong")
        return bool(verb)

    def _fork(self, name: str, fds: list[int], host: bool) -> None:
        try:
            pid = os.fork()
        except OSError:
            self._say(f"failed\0{name}")
        else:
            if pid == 0:
                self._become(fds, host)
            self._alive[pid], self._pids[name] = name, pid
            self._say(f"born\0{name}")
        for fd in fds:
            os.close(fd)

    def _become(self, fds: list[int], host: bool) -> None:
        """In the fork: nothing of the nursery's is left open."""
        writer = signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        for fd in (self._bell.fd, writer):
            os.close(fd)
        self._control.close()
        if host:
            be_host(self._pid, self._rules, *fds)
        be_process(self._pid, self._rules, *fds)

    def _kill(self, main: int) -> None:
        """The whole tree, stopped first, so that it can't fork faster than we look; its root last, since the rest would
        otherwise have to be looked for among everything."""
        kin = {main}
        attempt(os.kill, main, signal.SIGSTOP)
        for turn in range(FREEZE_ROUNDS):
            known = len(kin)
            for pid in descend(kin, order=-1 if turn % 2 else 1):
                attempt(hit, pid, kin, signal.SIGSTOP)
            if len(kin) == known and turn > 0:
                break
        for pid in kin - {main}:
            attempt(hit, pid, kin, signal.SIGKILL)
        attempt(os.kill, main, signal.SIGKILL)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if (name := self._alive.pop(pid, None)) is not None:
                del self._pids[name]
                self._bereaved.append(f"gone\0{name}\0{status}")

    def _sweep(self) -> None:
        """Whose orphans are whose can't be told, so all wait for all. One look can miss a process that forks and exits
        meanwhile."""
        spare = self._alive.keys() | self._family
        if self._bereaved and not cull(spare) and not cull(spare):
            for words in self._bereaved:
                self._say(words)
            self._bereaved.clear()

    def _say(self, words: str) -> None:
        with suppress(OSError):  # the controller is gone: the next look finds the end of the socket
            self._control.send(words.encode())

    def _end(self) -> None:
        """The controller has hung up. Whatever is left after this, the warden above kills."""
        began = now()
        while now() < began + 5.0:
            cull()
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
                self._bell.await_ring(AGAIN)
                continue
            return


if __name__ == "__main__":
    main()
