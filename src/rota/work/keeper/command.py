"""Starts a command, below the warden that calls.

There are two ways. `posix_spawn` starts a process without a copy of this one, at a third of the cost of a fork, but
nothing can be set in it before it becomes the command. So it serves commands whose bounds the keeper and wardens have
set for themselves; all others are forked.

Limits can rarely be raised again, so a warden that takes the limits of a command can serve only commands with the same
limits from then on. The keeper ensures that, and says in the start message whether they may be taken.
"""

import ctypes
import errno
import os

from .bounds import Bounds
from .cgroups import Groups, Leaf
from .folders import Folders, remove
from .kernel import LIBC
from .lean import signal
from .wire import CommandRequest, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

ALWAYS = ("session", "no_new_privs", "no-core")  # of every command: set in the keeper


class Workspace:
    """The folders and control groups of commands, as the keeper has prepared them for all."""

    def __init__(self, folder: bytes, cgroup: bytes) -> None:
        self.folders = Folders(folder)
        self.groups = Groups(cgroup)

    @property
    def locks(self) -> list[int]:
        return [self.folders.lock, *self.groups.locks]

    def close(self) -> None:
        self.folders.close()
        self.groups.close()


class Failure(Exception):
    def __init__(self, number: int, what: str) -> None:
        super().__init__(what)
        self.errno, self.what = number, what


class Command:
    """A command before, during and after its run, with its folder and its leaf."""

    def __init__(self, request: CommandRequest, workspace: Workspace) -> None:
        self.request = request
        self.folders = workspace.folders
        self.main = 0
        self.leaf: Leaf | None = None
        self.words = list(ALWAYS)
        try:
            nested = not request.cwd
            self.folder, temporary = workspace.folders.make(nested, request.owner)
        except OSError as error:
            raise Failure(error.errno or errno.EIO, "folder") from None
        self.cwd = request.cwd or self.folder
        request.env.setdefault(b"TMPDIR", temporary)
        self.words.append("private-folder" if nested else "private-temp")
        try:
            memory, processes = request.number(b"memory"), request.number(b"processes")
            self.leaf = workspace.groups.leaf(memory, processes, request.number(b"nice") or 0)
        except OSError as error:
            self.clear()
            raise Failure(error.errno or errno.EIO, "group") from None
        self.bounds = Bounds(request, _bounded(self.leaf))
        self.words += self.bounds.words + (self.leaf.words if self.leaf else [])
        if request.owner is not None:
            self.words.append("user")

    def start(self, stdio: list[int], take_limits: bool) -> None:
        simple = self.leaf is None and self.request.owner is None
        if simple and (take_limits or not self.bounds.limits):
            self._spawn(stdio)
        else:
            self._fork(stdio)
        self.bounds.be_nice(self.main)

    def _spawn(self, stdio: list[int]) -> None:
        what = "directory"
        try:
            os.chdir(self.cwd)
            what = "program"
            program = locate(self.request.argv[0], self.request.env)
            self.bounds.apply()
            moves = [(os.POSIX_SPAWN_DUP2, fd, place) for place, fd in enumerate(stdio)]
            self.main = os.posix_spawn(
                program, self.request.argv, self.request.env, file_actions=moves, setsid=True, setsigmask=()
            )
        except OSError as error:
            raise Failure(error.errno or errno.EIO, _closer(what, error)) from None

    def _fork(self, stdio: list[int]) -> None:
        """The child writes a failure into a pipe. If the pipe closes empty, the child has become the command."""
        reader, writer = os.pipe2(os.O_CLOEXEC)
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
            try:
                self.main = os.fork()
                if self.main == 0:
                    self._become(stdio, writer)
            except OSError as error:
                raise Failure(error.errno or errno.EIO, "process") from None
            finally:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
                os.close(writer)
            told = os.read(reader, 100).split()
        finally:
            os.close(reader)
        if told:
            os.waitpid(self.main, 0)
            raise Failure(int(told[0]), told[1].decode())

    def _become(self, stdio: list[int], writer: int) -> "NoReturn":
        what = "process"
        try:
            os.setsid()
            for number in (signal.SIGCHLD, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            if self.leaf is not None:
                what = "group"
                self.leaf.join()
            for place, fd in enumerate(stdio):
                os.dup2(fd, place)
            if self.request.owner is not None:
                what = "user"
                self._change_user(*self.request.owner)
            what = "directory"
            os.chdir(self.cwd)
            what = "program"
            program = locate(self.request.argv[0], self.request.env)
            argv = _array(self.request.argv)
            env = _array([key + b"=" + value for key, value in self.request.env.items()])
            signal.pthread_sigmask(signal.SIG_SETMASK, [])
            self.bounds.apply()
            LIBC.execve(program, argv, env)
            raise OSError(ctypes.get_errno(), "execve", program)
        except OSError as error:
            os.write(writer, b"%d %s" % (error.errno or errno.EIO, _closer(what, error).encode()))
        except MemoryError:
            os.write(writer, b"%d memory" % errno.ENOMEM)
        finally:
            os._exit(127)

    def _change_user(self, uid: int, gid: int) -> None:
        os.setgroups(self.request.groups)
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)

    def clear(self) -> bool:
        """Remove its leaf and its folder. False if there is so much in it that it takes a while."""
        if self.leaf is not None:
            self.leaf.remove()
        return self.folders.clear(self.folder)

    def clear_all(self) -> None:
        remove(self.folder)


def launch(report: int, request: int, stdio: list[int], workspace: Workspace, take_limits: bool) -> Command | None:
    """Starts the command and reports that, or why it failed."""
    command = None
    try:
        command = Command(CommandRequest(request), workspace)
        command.start(stdio, take_limits)
    except Failure as failure:
        if command is not None:
            command.clear()
        say(report, "failed", failure.errno, failure.what)
        return None
    say(report, "started", command.main, ",".join(command.words))
    return command


def locate(program: bytes, env: dict[bytes, bytes]) -> bytes:
    """Searches the PATH of the command; posix_spawnp would use the keeper's own."""
    if b"/" in program:
        return program
    for folder in env.get(b"PATH", os.defpath.encode()).split(b":"):
        path = os.path.join(folder, program)
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
    raise FileNotFoundError(errno.ENOENT, "not in PATH", b"")


def _closer(what: str, error: OSError) -> str:
    if error.errno == errno.ENOENT and what == "program" and os.path.exists(error.filename):
        return "interpreter"  # the program is there; the interpreter that its first line names isn't
    return what


def _array(strings: list[bytes]) -> "ctypes.Array[ctypes.c_char_p]":
    return (ctypes.c_char_p * (len(strings) + 1))(*strings, None)


def _bounded(leaf: Leaf | None) -> "set[str]":
    """The kinds of bounds that a leaf keeps, so that rlimits need not."""
    kinds = [word.partition(":")[2].split("+") for word in leaf.words] if leaf is not None else []
    return {kind for some in kinds for kind in some}
