"""Starts a command, below the warden that calls."""

import errno
import os

from .wire import read_request, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


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


def locate(program: bytes, env: dict[bytes, bytes]) -> bytes:
    """Search the PATH that the command gets and not the keeper's own, which posix_spawnp would take."""
    if b"/" in program:
        return program
    for folder in env.get(b"PATH", os.defpath.encode()).split(b":"):
        path = os.path.join(folder, program)
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
    raise FileNotFoundError(errno.ENOENT, "not in PATH", b"")
