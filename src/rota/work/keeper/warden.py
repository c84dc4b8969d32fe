"""A warden: a fork of the keeper that runs commands, one after the other, and kills all their processes."""

import fcntl
import os
import select
import sys

from .command import Command, Workspace, launch
from .kernel import PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG, SignalPipe, attempt, close_all_but, now, prctl, set_name
from .lean import signal, socket
from .limits import SWEEP_LIMIT
from .tree import cull, terminate
from .wire import receive, say, send

F_GETPIPE_SZ = 1032
# Seconds that a warden whose keeper is gone waits for the end of a controller that dies with it.
LAST_LOOK = 1.0

TYPE_CHECKING = False
if TYPE_CHECKING:
    from resource import struct_rusage
    from typing import NoReturn


def be_warden(
    keeper: int, controller: int, channel: "socket.socket", guards: list[int], workspace: Workspace
) -> "NoReturn":
    """The life of a fresh fork of the keeper."""
    status = 1
    try:
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        close_all_but([controller, channel.fileno(), *guards, *workspace.locks])
        set_name(b"rota-warden")
        warden = Warden(keeper, controller, channel, guards, workspace)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        status = warden.run()
        workspace.folders.leave()
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(status)


class Warden:
    def __init__(
        self, keeper: int, controller: int, channel: "socket.socket", guards: list[int], workspace: Workspace
    ) -> None:
        self.keeper = keeper
        self.controller = controller  # a pidfd
        self.channel = channel
        self.guards = guards
        self.workspace = workspace
        self.cpu_seconds = 0.0  # of the command's processes that have ended,
        self.memory = 0  # and the most that one of them had
        self.outputs: list[tuple[int, bytes]] = []  # pipes of the last command, and where their contents may go
        self.signals = SignalPipe()
        self.poll = select.poll()
        self.poll.register(self.signals.fd, select.POLLIN)
        self.poll.register(channel.fileno(), select.POLLIN)
        self.poll.register(controller, select.POLLIN)

    def run(self) -> int:
        """Runs one command after the other. The exit status is 0 if no process of them is left."""
        try:
            return self.serve()
        finally:
            end = now() + LAST_LOOK
            while self.outputs and now() < end:
                self.let_go()
                self.signals.await_ring(0.01)

    def serve(self) -> int:
        while not self.orphaned():
            self.follow()
            verb, words, fds = receive(self.channel)
            if verb == b"start":
                name, _, limits = words.partition(b" ")
                if not self.attend(name, bool(limits), *fds):
                    return 1
            elif verb == b"guard":
                self.guard(fds)
            elif not verb:
                break
        return 0

    def follow(self) -> None:
        """Waits for a word. Meanwhile keeps the pipes of a command that has ended until their reader is done, or dead
        before it has read the last of them."""
        while self.outputs:
            poll = select.poll()
            poll.register(self.channel.fileno(), select.POLLIN)
            for fd, _ in self.outputs:
                poll.register(fd, 0)
            ready = [fd for fd, _ in poll.poll()]
            self.let_go()
            if self.channel.fileno() in ready:
                break

    def let_go(self) -> None:
        """Closes pipes that nobody reads any more; what still lies in them goes to the spool."""
        for fd, path in [one for one in self.outputs if unread(one[0])]:
            attempt(save, fd, path)
            self.outputs.remove((fd, path))
            os.close(fd)

    def forget_outputs(self) -> None:
        """Whoever still reads pipes of an earlier command can't make us hold more and more of them."""
        self.let_go()
        for fd, _ in self.outputs:
            os.close(fd)
        self.outputs = []

    def guard(self, fds: list[int]) -> None:
        for guard in self.guards:
            os.close(guard)
        self.guards = fds

    def orphaned(self) -> bool:
        return os.getppid() != self.keeper

    def attend(self, name: bytes, take_limits: bool, report: int, request: int, *stdio: int) -> bool:
        """Runs a command to its end. False if it was the last: its tree can't be killed, the keeper is gone, or there
        is a large folder to remove."""
        self.cpu_seconds, self.memory = 0.0, 0
        command = launch(report, request, list(stdio), self.workspace, take_limits)
        # Of its output: while it has ends, the kernel keeps what lies in the pipes.
        outputs = stdio[1:3] if command is not None and command.request.rest else ()
        for fd in (request, *stdio):
            if fd not in outputs:
                os.close(fd)
        os.chdir("/")  # or its file system would be busy
        if command is None:
            attempt(send, self.channel, b"idle")
            os.close(report)
            return True
        regular = self.watch(name, command.main)
        status = self.sweep(command)
        self.forget_outputs()
        self.outputs = [
            (fd, command.request.rest + stream) for fd, stream in zip(outputs, (b"stdout", b"stderr"), strict=False)
        ]
        self.let_go()
        if status is None or not regular:
            return False  # the next keeper removes its folder: our exit must not wait for that
        ending = self.used(command)
        cleared = command.clear()
        # First, so that the next command finds this warden free.
        attempt(send, self.channel, b"idle" if cleared else b"spent")
        say(report, "exit", status, *ending)
        os.close(report)
        if not cleared:
            self.clear(command)
        return cleared

    def clear(self, command: Command) -> None:
        """Removes a large folder as the warden's last act: it may take long, and nothing must wait for it."""
        self.guard([])
        command.clear_all()
        if self.orphaned():
            self.workspace.folders.close()

    def used(self, command: Command) -> tuple[float, int, str]:
        """CPU seconds, peak memory, and whether the command ran out of memory."""
        leaf = command.leaf
        if leaf is None:
            return self.cpu_seconds, self.memory, "-"
        memory = leaf.memory_peak() or self.memory
        return max(self.cpu_seconds, leaf.cpu_seconds()), memory, "oom" if leaf.ran_out_of_memory() else "-"

    def watch(self, name: bytes, main: int) -> bool:
        """Returns when the command must end, or has. It stays a zombie, so that its process group can't be reused.

        False if it must end because the keeper is gone: then its end is not reported.
        """
        while not self.orphaned():
            self.signals.silence()
            while dead := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT | os.WNOHANG):
                if dead.si_pid == main:
                    return True
                self.bury(*os.wait4(dead.si_pid, 0))  # an orphan
            news = [fd for fd, _ in self.poll.poll()]
            if self.controller in news:
                return True  # the controller is gone; the keeper may be stopped
            if self.channel.fileno() not in news:
                continue
            verb, addressee, fds = receive(self.channel)
            if not verb:
                return False
            if verb == b"kill" and addressee == name:
                return True
            if verb == b"terminate" and addressee == name:
                terminate(main)
            if verb == b"guard":
                self.guard(fds)
        return False

    def bury(self, pid: int, status: int, usage: "struct_rusage") -> int:
        self.cpu_seconds += usage.ru_utime + usage.ru_stime
        self.memory = max(self.memory, usage.ru_maxrss * 1024)
        return pid

    def sweep(self, command: Command) -> int | None:
        """Kills the rest of the tree. Returns the command's status as soon as no process is left."""
        began = now()
        pause = 0.005
        status = None
        attempt(os.killpg, command.main, signal.SIGKILL)  # nearly always all that is needed
        if command.leaf is not None:
            command.leaf.kill()
        while now() < began + SWEEP_LIMIT:
            try:
                while (dead := os.wait4(-1, os.WNOHANG))[0]:
                    if self.bury(*dead) == command.main:
                        status = dead[1]
            except ChildProcessError:
                return status
            if now() > began + pause:
                cull()
                pause = min(2 * pause, 0.1)
            self.signals.await_ring(pause)
        return None


def unread(pipe: int) -> bool:
    """Whether nobody reads it any more: its reader is gone, or about to be."""
    poll = select.poll()
    poll.register(pipe, 0)
    return bool(poll.poll(0))


def save(pipe: int, path: bytes) -> None:
    """Writes what lies in a pipe to a new file, if there is anything. Bounded by the size of the pipe: a stranger may
    hold it and go on writing."""
    reader = os.open(b"/proc/self/fd/%d" % pipe, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        body = os.read(reader, fcntl.fcntl(pipe, F_GETPIPE_SZ))
    finally:
        os.close(reader)
    if body:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            while body:
                body = body[os.write(file, body) :]
        finally:
            os.close(file)
