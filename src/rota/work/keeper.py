"""The keeper: a small process, one per node, above every command the node runs.

Nothing that a node starts may outlive the node's right to run it. A controller that is killed, stopped or cut
off can't clean up after itself, so somebody has to who is awake whatever happens to the controller:

    controller (rota node) ---socket---> keeper ---socket---> warden ---exec---> command ---> its processes
              <----------------- report pipe, one per command -----'

A *warden* stands over one command. It is a child subreaper: a process below it that loses its parent (double
fork, setsid, nohup) becomes the warden's child and not init's. So "have I any child left?", which the kernel
answers exactly, is the same question as "is anything of the tree left?". Only when nothing is, the warden
reports the command's end; then it is as good as new and is given the next command, since a fork of Python
costs more than most of what people run.

Who notices what:
  - the controller is gone (end of file, or its pidfd): the keeper has the wardens kill their trees and exits.
  - the lease deadline passes (boot-time clock): the same, and then the keeper kills the controller, because
    functions that run inside it can't be stopped in any other way.
  - the keeper is gone (end of file, or the parent-death signal): the wardens kill their trees and exit.
  - a warden is gone (its command can kill it): the tree falls to the keeper, a subreaper too, to be killed.
  - nobody is left to answer for a tree: the last copy of its report pipe closes; the controller sees that.
Keeper and wardens hold the guard files (the node's lock) open while they live; commands never do. So the lock
is free only when everything that ran under it is gone.

How a tree is killed. Own children stay zombies until reaped, so their pids and process groups can't have
passed to strangers, and killing a group is atomic against fork. What left the group is found in /proc,
stopped first, so that it can't fork faster than we look, then killed; and again, until the kernel says that
there are no children.

This file is run by `python -I -S` and imports next to nothing. That is why it takes the C halves of `signal`
and `socket` (the Python halves bring `enum` and 1 MB), and why messages are words and NUL-separated strings
and not JSON (0.5 MB). The only other end is `keeping.py`.

  to keeper and warden   `start NAME` with [report, request, stdin, stdout, stderr], `terminate NAME`,
                         `kill NAME`; to the keeper also `deadline SECONDS|none`
  from them              `ready` from the keeper, once; `idle` from a warden
  request (memory file)  cwd, number of arguments, arguments, KEY=VALUE..., joined by NUL
  report (pipe)          `started PID` or `failed ERRNO WHAT`; then `exit STATUS CPU-SECONDS MAX-RSS-BYTES`
"""

import ctypes
import errno
import gc
import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    import socket
    from collections.abc import Callable, Collection, Iterable, Iterator
    from typing import NoReturn
else:
    import _signal as signal
    import _socket as socket

LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

# A process in uninterruptible sleep, or one that became another user's by setuid, can't be killed by us. To
# wait for it for ever would block a slot for ever; to give up early would call a tree gone that isn't.
# Patience, in seconds:
SWEEP_LIMIT = 10.0  # a warden's with its tree, then the keeper's with what the warden left
WARDEN_LIMIT = 12.0  # the keeper's with a warden that was told to kill; then that is killed itself
END_LIMIT = 30.0  # the keeper's with everything, when the controller is gone
LAPSE_LIMIT = 1.0  # after the deadline, with the trees; then the controller is killed regardless

FREEZE_ROUNDS = 16  # looks for new processes to stop, before the killing starts anyway
IDLE_WARDENS = 8  # kept for the next commands; each takes about 1 MB
FDS_PER_START = 5


def now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def prctl(option: int, value: int) -> None:
    zero = ctypes.c_ulong(0)
    if LIBC.prctl(option, ctypes.c_ulong(value), zero, zero, zero) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def set_name(name: bytes) -> None:
    """Tell keeper and wardens apart in ps and top."""
    fd = os.open("/proc/self/comm", os.O_WRONLY)
    os.write(fd, name)
    os.close(fd)


def attempt(call: "Callable[..., object]", *arguments: object) -> None:
    """For signals and farewells, whose addressee may just have gone: what counts is looked at again later."""
    try:
        call(*arguments)
    except OSError:
        pass


def send(channel: "socket.socket", words: bytes, fds: "Iterable[int]" = ()) -> None:
    packed = b"".join(fd.to_bytes(4, sys.byteorder) for fd in fds)
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, packed)] if packed else []
    channel.sendmsg([words], rights, socket.MSG_DONTWAIT)


def receive(channel: "socket.socket", flags: int = 0) -> tuple[bytes, bytes, list[int]]:
    """One message: verb, name or value, file descriptors. The verb is empty when the other side is gone."""
    space = socket.CMSG_SPACE(4 * FDS_PER_START)
    try:
        words, extra, _, _ = channel.recvmsg(256, space, flags | socket.MSG_CMSG_CLOEXEC)
    except ConnectionResetError:
        return b"", b"", []
    packed = b"".join(data for _, _, data in extra)
    fds = [int.from_bytes(packed[i : i + 4], sys.byteorder) for i in range(0, len(packed), 4)]
    verb, _, value = words.partition(b" ")
    return verb, value, fds


def say(report: int, *words: object) -> None:
    attempt(os.write, report, " ".join(map(str, words)).encode() + b"\n")


class Bell:
    """A file descriptor that is readable when a child has ended (or, for a warden, its parent)."""

    def __init__(self) -> None:
        self.fd, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        self.poll = select.poll()
        self.poll.register(self.fd, select.POLLIN)

    def silence(self) -> None:
        attempt(os.read, self.fd, 4096)

    def await_ring(self, seconds: float) -> None:
        self.poll.poll(seconds * 1000)
        self.silence()


def parent_of(pid: int) -> int | None:
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    except OSError:
        return None
    try:
        # The program's name is in parentheses and may itself hold some.
        return int(os.read(fd, 1024).rpartition(b")")[2].split(None, 2)[1])
    except OSError:
        return None
    finally:
        os.close(fd)


def descend(kin: set[int], spare: "Collection[int]" = (), order: int = 1) -> "Iterator[int]":
    """Look once at every process; those whose parent is in `kin` are added to it and yielded as found."""
    for name in os.listdir("/proc")[::order]:
        if name.isdigit() and (pid := int(name)) not in kin and pid not in spare and parent_of(pid) in kin:
            kin.add(pid)
            yield pid


def hit(pid: int, kin: "Collection[int]", number: int) -> None:
    """Signal a process only while it is below us: by now its pid may be a stranger's."""
    handle = os.pidfd_open(pid)
    try:
        if parent_of(pid) in kin:
            signal.pidfd_send_signal(handle, number)
    finally:
        os.close(handle)


def strike(pid: int, kin: "Collection[int]", number: int) -> None:
    """Like hit, but for an own child with its process group, which is ours until the child is reaped."""
    attempt(hit, pid, kin, number)
    if parent_of(pid) == os.getpid() and os.getpgid(pid) != os.getpgrp():  # equal until setsid is called
        attempt(os.killpg, os.getpgid(pid), number)


def cull(spare: "Collection[int]" = ()) -> int:
    """Stop, then kill, all there is below this process. Returns how many processes that were."""
    me = os.getpid()
    kin = {me}
    for turn in range(FREEZE_ROUNDS):
        known = len(kin)
        # From the oldest down, one look finds a whole tree; from the newest up, one that never stands still.
        for pid in descend(kin, spare, order=-1 if turn % 2 else 1):
            strike(pid, kin, signal.SIGSTOP)  # at once: one less that forks and runs while we look on
        if len(kin) == known and turn > 0:
            break
    for pid in kin - {me}:
        strike(pid, kin, signal.SIGKILL)
    return len(kin) - 1


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


def launch(report: int, request: int, stdio: "Iterable[int]") -> int | None:
    """Start the command and say so, or say why not."""
    what = "directory"
    try:
        cwd, argv, env = read_request(request)
        os.chdir(cwd)
        what = "program"
        program = locate(argv[0], env)
        moves = [(os.POSIX_SPAWN_DUP2, fd, place) for place, fd in enumerate(stdio)]
        main = os.posix_spawn(program, argv, env, file_actions=moves, setsid=True, setsigmask=())
    except OSError as error:
        if error.errno == errno.ENOENT and what == "program" and os.path.exists(error.filename):
            what = "interpreter"  # the program is there; what its first line names isn't
        say(report, "failed", error.errno, what)
        return None
    say(report, "started", main)
    return main


def read_request(fd: int) -> tuple[bytes, list[bytes], dict[bytes, bytes]]:
    cwd, count, *strings = os.pread(fd, os.fstat(fd).st_size, 0).split(b"\0")
    argv, variables = strings[: int(count)], strings[int(count) :]
    return cwd, argv, {key: value for key, _, value in (item.partition(b"=") for item in variables)}


def locate(program: bytes, env: dict[bytes, bytes]) -> bytes:
    """Search the PATH that the command gets and not the keeper's own, which posix_spawnp would take."""
    if b"/" in program:
        return program
    for folder in env.get(b"PATH", os.defpath.encode()).split(b":"):
        path = os.path.join(folder, program)
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
    raise FileNotFoundError(errno.ENOENT, "not in PATH", b"")


def terminate(main: int) -> None:
    """Ask every process of the tree, and each just once: some take a second SIGTERM for impatience."""
    kin = {os.getpid()}
    while any(list(descend(kin))):
        pass
    outside = [pid for pid in kin - {os.getpid()} if group_of(pid) != main]
    for number in (signal.SIGTERM, signal.SIGCONT):  # who is stopped must run to hear it
        attempt(os.killpg, main, number)
        for pid in outside:
            attempt(hit, pid, kin, number)


def group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


class Ward:
    """What the keeper knows of one warden."""

    def __init__(self, pid: int, channel: "socket.socket") -> None:
        self.pid = pid
        self.channel = channel
        self.name: bytes | None = None  # of its command; none while it is idle
        self.report = -1  # a copy: the controller reads its end only when the keeper is done too
        self.kill_by: float | None = None  # set when it was told to kill


class Keeper:
    def __init__(self, control: int, controller: int, guards: list[int]) -> None:
        self.control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, control)
        self.controller = controller  # a pidfd: never a stranger who got the same pid
        self.guards = guards
        self.pid = os.getpid()
        self.wards: dict[int, Ward] = {}  # by pid
        self.busy: dict[bytes, Ward] = {}  # by name
        self.channels: dict[int, Ward] = {}  # by file descriptor
        self.idle: list[Ward] = []
        self.bereaved: list[tuple[int, float]] = []  # reports of failed wardens, and till when we try
        self.deadline: float | None = None
        self.lapsed: float | None = None  # when the deadline passed
        self.end_by: float | None = None  # set when nothing may run any longer
        self.parted = False
        self.bell = Bell()
        self.epoll = select.epoll()

    def run(self) -> None:
        for fd in (self.control.fileno(), self.controller, self.bell.fd):
            self.epoll.register(fd, select.EPOLLIN)
        attempt(send, self.control, b"ready")
        while self.end_by is None or (now() < self.end_by and (self.wards or self.bereaved)):
            for fd, _ in self.epoll.poll(self.pause()):
                self.hear(fd)
            self.reap()
            self.press()
            self.sweep()
            self.judge()

    def pause(self) -> float | None:
        """Seconds; none while only an event can bring work. Short: the clock of poll stops in a suspend."""
        if self.bereaved or self.lapsed is not None:
            return 0.02
        if any(ward.kill_by is not None for ward in self.busy.values()):
            return 0.1
        return None if self.deadline is None else min(max(self.deadline - now(), 0.001), 1.0)

    def hear(self, fd: int) -> None:
        if fd == self.bell.fd:
            self.bell.silence()
        elif fd == self.controller:
            self.part()
        elif fd == self.control.fileno():
            self.listen()
        elif fd in self.channels:
            self.relieve(self.channels[fd])

    def listen(self) -> None:
        """Take all messages there are: a longer deadline may be the last of them."""
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
            elif value in self.busy:
                self.pass_on(verb, self.busy[value])
        self.part()

    def start(self, name: bytes, fds: list[int]) -> None:
        try:
            if len(fds) != FDS_PER_START:
                raise OSError(errno.EMFILE, "file descriptors were lost on the way")
            if self.end_by is not None:
                raise OSError(errno.ESHUTDOWN, "nothing may run any longer")
            ward = self.employ(b"start " + name, fds)
            ward.name, ward.report = name, fds.pop(0)
            self.busy[name] = ward
        except OSError as error:
            if fds:
                say(fds[0], "failed", error.errno, "process")
        for fd in fds:
            os.close(fd)

    def employ(self, words: bytes, fds: list[int]) -> Ward:
        while self.idle:
            ward = self.idle.pop()
            try:
                send(ward.channel, words, fds)
                return ward
            except OSError:
                self.dismiss(ward)  # somebody killed it
        ward = self.fork()
        send(ward.channel, words, fds)
        return ward

    def fork(self) -> Ward:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            pid = os.fork()
            if pid == 0:
                be_warden(self.pid, theirs, self.guards)
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        ward = self.wards[pid] = self.channels[ours.fileno()] = Ward(pid, ours)
        self.epoll.register(ours.fileno(), select.EPOLLIN)
        return ward

    def relieve(self, ward: Ward) -> None:
        """The warden says that it is idle, or is gone."""
        try:
            verb, _, _ = receive(ward.channel, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return  # the event was for a channel that had the same number
        if verb and ward.name is not None:
            os.close(ward.report)
            del self.busy[ward.name]
            ward.name = ward.kill_by = None
            self.idle.append(ward)
        if not verb or self.end_by is not None or len(self.idle) > IDLE_WARDENS:
            self.dismiss(ward)

    def dismiss(self, ward: Ward) -> None:
        """Hang up. An idle warden exits; one that is busy, and not dead already, kills its tree first."""
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
        """A warden that was told to kill, and takes too long, has failed."""
        for ward in self.busy.values():
            if ward.kill_by is not None and now() > ward.kill_by:
                os.kill(ward.pid, signal.SIGKILL)

    def sweep(self) -> None:
        """Do the work of wardens that failed. Whose orphans are whose can't be told, so all wait for all."""
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


def close_all_but(keep: list[int]) -> None:
    start = 3
    for fd in sorted(keep):
        if start < fd:  # closerange(0, 0) closes everything (Python 3.11)
            os.closerange(start, fd)
        start = fd + 1
    os.closerange(start, os.sysconf("SC_OPEN_MAX"))


def main(arguments: list[str]) -> None:
    control, controller, *guards = map(int, arguments)
    for fd in (control, controller, *guards):
        os.set_inheritable(fd, False)
    # Block what others may send, and ignore nothing, so that commands inherit only default dispositions.
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - {signal.SIGCHLD})
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    set_name(b"rota-keeper")
    os.chdir("/")
    keeper = Keeper(control, controller, guards)
    gc.disable()
    gc.freeze()  # a collection would touch, and so copy, every page that wardens share
    keeper.run()


if __name__ == "__main__":
    main(sys.argv[1:])
