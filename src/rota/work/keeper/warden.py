"""A warden: a fork of the keeper that runs commands, one after the other, and leaves nothing of them."""

import os
import select
import sys

from .command import launch
from .kernel import PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG, Bell, attempt, close_all_but, now, prctl, set_name
from .lean import signal, socket
from .limits import SWEEP_LIMIT
from .tree import cull, terminate
from .wire import receive, say, send

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def be_warden(keeper: int, channel: "socket.socket", guards: list[int]) -> "NoReturn":
    """What a fresh fork of the keeper does."""
    status = 1
    try:
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        close_all_but([channel.fileno(), *guards])
        set_name(b"rota-warden")
        warden = Warden(keeper, channel)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        status = warden.run()
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(status)


class Warden:
    def __init__(self, keeper: int, channel: "socket.socket") -> None:
        self.keeper = keeper
        self.channel = channel
        self.bell = Bell()
        self.poll = select.poll()
        self.poll.register(self.bell.fd, select.POLLIN)
        self.poll.register(channel.fileno(), select.POLLIN)

    def run(self) -> int:
        """Attend to one command after the other. The exit status is 0 if nothing of them is left."""
        while not self.orphaned():
            verb, name, fds = receive(self.channel)
            if verb == b"start":
                if not self.attend(name, *fds):
                    return 1
            elif not verb:
                break
        return 0

    def orphaned(self) -> bool:
        return os.getppid() != self.keeper

    def attend(self, name: bytes, report: int, request: int, *stdio: int) -> bool:
        """Run a command to its end. False if its tree can't be killed, or nobody is left to serve."""
        main = launch(report, request, stdio)
        for fd in (request, *stdio):
            os.close(fd)  # or a reader of the command's output would never see its end
        os.chdir("/")  # or its file system would be busy
        ending = None
        if main is not None:
            regular = self.watch(name, main)
            ending = self.sweep(main)
            if ending is None or not regular:
                return False
        attempt(send, self.channel, b"idle")  # first, so that the next command finds this warden free
        if ending is not None:
            say(report, "exit", *ending)
        os.close(report)
        return True

    def watch(self, name: bytes, main: int) -> bool:
        """Return when the command must end, or has; it is left a zombie, which keeps its group ours.

        False if it must end because the keeper is gone: then nobody wants to know how it did.
        """
        while not self.orphaned():
            self.bell.silence()
            while dead := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT | os.WNOHANG):
                if dead.si_pid == main:
                    return True
                os.waitpid(dead.si_pid, 0)  # an orphan
            if self.channel.fileno() not in [fd for fd, _ in self.poll.poll()]:
                continue
            verb, addressee, _ = receive(self.channel)
            if not verb:
                return False
            if verb == b"kill" and addressee == name:
                return True
            if verb == b"terminate" and addressee == name:
                terminate(main)
        return False

    def sweep(self, main: int) -> tuple[int, float, int] | None:
        """Kill what is left of the tree. How the command ended, as soon as nothing is left."""
        began = now()
        pause = 0.005
        ending = None
        attempt(os.killpg, main, signal.SIGKILL)  # nearly always all that is needed
        while now() < began + SWEEP_LIMIT:
            try:
                while (dead := os.wait4(-1, os.WNOHANG))[0]:
                    if dead[0] == main:
                        _, status, usage = dead
                        ending = status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024
            except ChildProcessError:
                return ending
            if now() > began + pause:
                cull()
                pause = min(2 * pause, 0.1)
            self.bell.await_ring(pause)
        return None
