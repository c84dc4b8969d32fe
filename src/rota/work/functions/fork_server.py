"""The fork server: a process that imports the app's modules once, and from then on only forks.

It has one thread and no event loop: a fork of a process with other threads may inherit a lock that is never released.
It is responsible for all descendants of its children, as a warden is for a command: it is their subreaper, so processes
that a dead child leaves behind become its own children, and are killed before `gone` is sent.
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
from typing import NoReturn

import msgspec

from rota.logs.capture import captured
from rota.tasks.catalogue import CATALOGUES, Catalogue, TaskDef
from rota.work.functions.forked import ProcessConfig, settle_in
from rota.work.functions.host import Host
from rota.work.functions.process import Process
from rota.work.functions.tally import Ear
from rota.work.functions.wire import Briefing, FunctionPath
from rota.work.keeper.kernel import PR_SET_CHILD_SUBREAPER, SignalPipe, attempt, now, prctl, set_name
from rota.work.keeper.tree import cull, descend, freeze, hit
from rota.work.keeper.wire import receive
from rota.work.own_programs import unpack

AGAIN = 0.02
LONGEST_REASON = 2_000  # bytes


def main() -> None:
    control = _away_from_stdin()
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    set_name(b"rota-forkserver")
    verb, _, fds = receive(control)
    if verb != b"begin":
        return
    briefing = _read(fds[0])
    os.fchdir(fds[1])
    os.close(fds[1])
    unpack(briefing.environment)
    tasks = prepare(briefing, control)
    settings = briefing.settings
    config = ProcessConfig(tasks, settings.max_result, settings.pool_jobs, settings.pool_memory, briefing.says_started)
    gc.collect()
    gc.freeze()  # a collection would touch, and so copy, every page that its forks share
    ForkServer(control, config).run()


def _away_from_stdin() -> socket.socket:
    control = socket.socket(fileno=os.dup(0))  # dup: not inherited by executed programs
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
    """Imports the modules, finds the tasks in them, and reports missing ones."""
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
    catalogues = _catalogues(briefing)
    for path in briefing.functions:
        found = [(one, each) for each in catalogues for one in each if _fits(one, path)]
        if found:
            tasks[path.task], catalogue = found[0]
            if catalogue.owner is not None:
                catalogue.owner.adopt(briefing.settings)
        else:
            why = broken.get(path.module) or f"{path.module}.{path.name} is no task after its module is imported"
            control.send(f"unable\0{path.task}\0{why}".encode("utf-8", "backslashreplace")[:LONGEST_REASON])
    control.send(b"ready")
    return tasks


def _catalogues(briefing: Briefing) -> list[Catalogue]:
    """The catalogues of this process, that of the node's app first: others may have the same functions."""
    module, name = briefing.app

    def distance(one: Catalogue) -> int:
        return 2 if one.owner is None or one.owner.home != module else int(one.owner.name != name)

    found = sorted(CATALOGUES, key=distance)
    if found and distance(found[0]) == 0 and (app := found[0].owner) is not None:
        try:
            app.load()
        except Exception:  # tasks of the module that fails are reported as missing
            traceback.print_exc()
    return found


def _fits(task: TaskDef, path: FunctionPath) -> bool:
    found = task.function
    return (
        task.name == path.task
        and getattr(found, "__module__", None) == path.module
        and getattr(found, "__qualname__", None) == path.name
    )


class ForkServer:
    def __init__(self, control: socket.socket, config: ProcessConfig) -> None:
        self._control, self._config = control, config
        self._pid = os.getpid()
        self._alive: dict[int, str] = {}
        self._pids: dict[str, int] = {}
        self._family = set(descend({self._pid}))  # started by modules while they were imported
        self._unsaid: list[str] = []  # `gone` of dead children, sent when no process of their trees is left
        self._signals = SignalPipe()
        self._poll = select.poll()
        self._poll.register(self._signals.fd, select.POLLIN)
        self._poll.register(control.fileno(), select.POLLIN)

    def run(self) -> None:
        while True:
            for fd, _ in self._poll.poll(AGAIN * 1000 if self._unsaid else None):
                if fd == self._signals.fd:
                    self._signals.silence()
                elif not self._hear():
                    return self._end()
            self._reap()
            self._sweep()

    def _hear(self) -> bool:
        verb, value, fds = receive(self._control)
        name = value.decode()
        if verb == b"fork":
            self._fork(name, fds)
        elif verb == b"terminate" and name in self._pids:
            attempt(os.kill, self._pids[name], signal.SIGTERM)
        elif verb == b"kill" and name in self._pids:
            self._kill(self._pids[name])
        elif verb == b"ping":
            self._say("pong")
        return bool(verb)

    def _fork(self, name: str, fds: list[int]) -> None:
        try:
            pid = os.fork()
        except OSError:
            self._say(f"failed\0{name}")
        else:
            if pid == 0:
                self._become(*fds)
            self._alive[pid], self._pids[name] = name, pid
            self._say(f"born\0{name}")
        for fd in fds:
            os.close(fd)

    def _become(
        self, channel: int, out: int, err: int, orders: int | None = None, tally: int | None = None
    ) -> NoReturn:
        """In the fork. A process with a socket for orders is a pool process; one without is a host."""
        status = 1
        try:
            self._let_go()
            settle_in(self._pid, out, err, b"rota-host" if orders is None else b"rota-function")
            if orders is None or tally is None:
                with captured():
                    Host(self._config, socket.socket(fileno=channel)).run()
            else:
                ends = socket.socket(fileno=orders), socket.socket(fileno=channel)
                Process(self._config, *ends, Ear(tally)).run()
            status = 0
        except BaseException:
            with suppress(BaseException):
                sys.excepthook(*sys.exc_info())
        finally:
            with suppress(BaseException):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(status)

    def _let_go(self) -> None:
        """Closes the fork server's descriptors."""
        self._signals.close()
        self._control.close()

    def _kill(self, main: int) -> None:
        """Kills a whole tree. Its root dies last: after that, its descendants can't be told from others."""
        attempt(os.kill, main, signal.SIGSTOP)
        kin = freeze(main, hit)
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
                self._unsaid.append(f"gone\0{name}\0{status}")

    def _sweep(self) -> None:
        """Orphans can't be attributed, so exits are reported once none remain. One look can miss a process that forks
        and exits meanwhile."""
        spare = self._alive.keys() | self._family
        if self._unsaid and not cull(spare) and not cull(spare):
            for words in self._unsaid:
                self._say(words)
            self._unsaid.clear()

    def _say(self, words: str) -> None:
        with suppress(OSError):  # the node is gone: the next read finds the end of the socket
            self._control.send(words.encode())

    def _end(self) -> None:
        """The node has closed its socket. The warden above kills all processes that are left."""
        began = now()
        while now() < began + 5.0:
            cull()
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
                self._signals.await_ring(AGAIN)
                continue
            return


if __name__ == "__main__":
    main()
