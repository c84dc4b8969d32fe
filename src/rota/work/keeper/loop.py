"""The keeper's loop: reads messages of the controller and the wardens, and makes sure that everything ends in time."""

import errno
import gc
import os
import resource
import select

from .command import Workspace
from .folders import candidates, inherit, remove
from .kernel import (
    PR_SET_CHILD_SUBREAPER,
    PR_SET_NO_NEW_PRIVS,
    SignalPipe,
    attempt,
    close_all_but,
    hide,
    now,
    prctl,
    set_name,
)
from .lean import signal, socket
from .limits import END_LIMIT, LAPSE_LIMIT, SWEEP_LIMIT, WARDEN_LIMIT
from .tree import cull
from .warden import be_warden
from .wire import FDS_PER_START, MOST_FDS, receive, say, send

IDLE_WARDENS = 8  # kept for the next commands; each takes about 1 MB,
BUSY_WARDENS = (
    64  # and the number while commands come: the wardens of a batch become free together, and the next batch follows
)


def main(arguments: list[str]) -> None:
    folder, cgroup = map(os.fsencode, arguments[:2])
    control, controller, *guards = map(int, arguments[2:])
    for fd in (control, controller, *guards):
        os.set_inheritable(fd, False)
    # Block signals instead of ignoring them, so that commands inherit only default dispositions.
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - {signal.SIGCHLD})
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    # All processes below inherit both: set-uid programs gain no rights, and no core is left behind.
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    hide()
    set_name(b"rota-keeper")
    os.chdir("/")
    keeper = Keeper(control, controller, guards, Workspace(folder, cgroup))
    gc.disable()
    gc.freeze()  # a collection would touch, and so copy, every page that wardens share
    keeper.run()


class Ward:
    """One warden, as the keeper knows it."""

    def __init__(self, pid: int, channel: "socket.socket") -> None:
        self.pid = pid
        self.channel = channel
        self.name: bytes | None = None  # of its command; none while it is idle
        self.limits = b""  # limits that it has set on itself, for good
        self.report = -1  # a copy: the controller reads its end only when the keeper is done too
        self.kill_by: float | None = None  # set when it was told to kill


class Keeper:
    def __init__(self, control: int, controller: int, guards: list[int], workspace: Workspace) -> None:
        self.control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, control)
        self.controller = controller  # a pidfd: it can't refer to another process with the same pid
        self.guards = guards
        self.workspace = workspace
        self.pid = os.getpid()
        self.wards: dict[int, Ward] = {}  # by pid
        self.busy: dict[bytes, Ward] = {}  # by name
        self.channels: dict[int, Ward] = {}  # by file descriptor
        self.idle: list[Ward] = []
        self.least_idle = 0  # since the last deadline
        self.bereaved: list[tuple[int, float]] = []  # reports of failed wardens, and until when to try
        self.deadline: float | None = None
        self.lapsed: float | None = None  # when the deadline passed
        self.end_by: float | None = None  # set when nothing may run any longer
        self.parted = False
        self.signals = SignalPipe()
        self.epoll = select.epoll()

    def run(self) -> None:
        for fd in (self.control.fileno(), self.controller, self.signals.fd):
            self.epoll.register(fd, select.EPOLLIN)
        attempt(send, self.control, b"ready")
        self.tidy()
        while self.end_by is None or (now() < self.end_by and (self.wards or self.bereaved)):
            for fd, _ in self.epoll.poll(self.pause()):
                self.hear(fd)
            self.reap()
            self.press()
            self.sweep()
            self.judge()
        self.workspace.close()

    def tidy(self) -> None:
        """Removes folders of keepers that were killed. That may take long, so a process of its own does it."""
        folders = self.workspace.folders
        others = [path for path in candidates(folders.parent) if path != folders.path]
        if others and os.fork() == 0:
            try:
                close_all_but([folders.lock])
                inherit(folders.parent, remove)
            finally:
                os._exit(0)

    def pause(self) -> float | None:
        """Seconds to wait; None while only an event can bring work. Short, because the clock of poll stops during a
        suspend."""
        if self.bereaved or self.lapsed is not None:
            return 0.02
        if any(ward.kill_by is not None for ward in self.busy.values()):
            return 0.1
        return None if self.deadline is None else min(max(self.deadline - now(), 0.001), 1.0)

    def hear(self, fd: int) -> None:
        if fd == self.signals.fd:
            self.signals.silence()
        elif fd == self.controller:
            self.part()
        elif fd == self.control.fileno():
            self.listen()
        elif fd in self.channels:
            self.relieve(self.channels[fd])

    def listen(self) -> None:
        """Reads all pending messages: a longer deadline may be the last of them."""
        verb = b"?"
        while verb:
            try:
                verb, value, fds = receive(self.control, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            if verb == b"start":
                self.start(value, fds)
            elif verb == b"deadline":
                self.deadline = None if value == b"none" else float(value)
                self.thin_out()
                attempt(send, self.control, b"heard")
            elif verb == b"guard":
                self.guard(fds)
            elif value in self.busy:
                self.pass_on(verb, self.busy[value])
        self.part()

    def guard(self, fds: list[int]) -> None:
        """Replaces the guards, here and in the wardens."""
        for ward in self.wards.values():
            attempt(send, ward.channel, b"guard", fds)
        for fd in self.guards:
            os.close(fd)
        self.guards = fds

    def start(self, words: bytes, fds: list[int]) -> None:
        name, _, limits = words.partition(b" ")
        if self.workspace.groups.unified is not None:
            limits = b""  # every command is forked, into a leaf
        try:
            if not FDS_PER_START <= len(fds) <= MOST_FDS:
                raise OSError(errno.EMFILE, "file descriptors were lost on the way")
            if self.end_by is not None:
                raise OSError(errno.ESHUTDOWN, "nothing may run any longer")
            ward = self.employ(name, limits, fds)
            ward.name, ward.report = name, fds.pop(0)
            self.busy[name] = ward
        except OSError as error:
            if fds:
                say(fds[0], "failed", error.errno, "process")
        for fd in fds:
            os.close(fd)

    def employ(self, name: bytes, limits: bytes, fds: list[int]) -> Ward:
        words = b"start " + name + b" " + limits
        while (ward := self.choose(limits)) is not None:
            self.least_idle = min(self.least_idle, len(self.idle))
            try:
                send(ward.channel, words, fds)
                return ward
            except OSError:
                self.dismiss(ward)  # it was killed from outside
        ward = self.fork()
        ward.limits = limits
        send(ward.channel, words, fds)
        return ward

    def choose(self, limits: bytes) -> Ward | None:
        """An idle warden: preferably the last busy one with these limits, else one without limits."""
        for wanted in (limits, b""):
            for ward in reversed(self.idle):
                if ward.limits == wanted:
                    self.idle.remove(ward)
                    ward.limits = limits
                    return ward
        return None

    def fork(self) -> Ward:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            pid = os.fork()
            if pid == 0:
                be_warden(self.pid, self.controller, theirs, self.guards, self.workspace)
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        ward = self.wards[pid] = self.channels[ours.fileno()] = Ward(pid, ours)
        self.epoll.register(ours.fileno(), select.EPOLLIN)
        return ward

    def relieve(self, ward: Ward) -> None:
        """Handles a warden that reports `idle` or `spent`, or is gone."""
        try:
            verb, _, _ = receive(ward.channel, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return  # the event was for a channel that had the same number
        if verb and ward.name is not None:
            os.close(ward.report)
            del self.busy[ward.name]
            ward.name = ward.kill_by = None
            self.idle.append(ward)
        if verb == b"spent":
            del self.wards[ward.pid]  # it still removes a folder, which nothing waits for
            self.dismiss(ward)
        if not verb or self.end_by is not None or len(self.idle) > BUSY_WARDENS:
            self.dismiss(ward)

    def thin_out(self) -> None:
        """Called with each deadline, about once a second: dismisses wardens that were idle since the last one."""
        spare = len(self.idle) - IDLE_WARDENS
        for ward in self.idle[: max(0, min(spare, self.least_idle))]:
            self.dismiss(ward)
        self.least_idle = len(self.idle)

    def dismiss(self, ward: Ward) -> None:
        """Closes the channel. An idle warden exits; a busy one kills its tree first."""
        if ward in self.idle:
            self.idle.remove(ward)
        if self.channels.pop(ward.channel.fileno(), None):
            self.epoll.unregister(ward.channel.fileno())
            ward.channel.close()

    def pass_on(self, verb: bytes, ward: Ward) -> None:
        if verb == b"kill" and ward.kill_by is None:
            ward.kill_by = now() + WARDEN_LIMIT
        attempt(send, ward.channel, verb + b" " + (ward.name or b""))

    def end(self) -> None:
        """Nothing may run any longer."""
        if self.end_by is None:
            self.end_by = now() + END_LIMIT
            for ward in self.busy.values():
                self.pass_on(b"kill", ward)
            for ward in self.idle[:]:
                self.dismiss(ward)

    def part(self) -> None:
        """The controller is gone."""
        if not self.parted:
            self.parted = True
            self.epoll.unregister(self.control.fileno())
            self.epoll.unregister(self.controller)
            self.end()

    def reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid not in self.wards:
                continue  # the orphan of a warden that failed
            if os.WIFSTOPPED(status):
                os.kill(pid, signal.SIGCONT)  # a command can stop its warden
            else:
                self.mourn(self.wards.pop(pid))

    def mourn(self, ward: Ward) -> None:
        self.dismiss(ward)
        if ward.name is not None:
            del self.busy[ward.name]
            self.bereaved.append((ward.report, now() + SWEEP_LIMIT))

    def press(self) -> None:
        """Kills wardens that were told to kill and take too long."""
        for ward in self.busy.values():
            if ward.kill_by is not None and now() > ward.kill_by:
                os.kill(ward.pid, signal.SIGKILL)

    def sweep(self) -> None:
        """Does the work of failed wardens. Orphans can't be attributed, so ends are reported once none remain."""
        if self.bereaved:
            # One look can miss a process that forks and exits meanwhile.
            clear = not cull(self.wards) and not cull(self.wards)
            for entry in [entry for entry in self.bereaved if clear or now() > entry[1]]:
                self.bereaved.remove(entry)
                os.close(entry[0])

    def judge(self) -> None:
        """Past the deadline everything ends, the controller last."""
        if self.lapsed is None and self.deadline is not None and now() >= self.deadline:
            self.lapsed = now()
            self.end()
        if self.lapsed is not None:
            done = not self.busy and not self.bereaved
            if done or now() > self.lapsed + LAPSE_LIMIT:
                attempt(signal.pidfd_send_signal, self.controller, signal.SIGKILL)
