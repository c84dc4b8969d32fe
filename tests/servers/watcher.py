"""Runs a server as its child, and leaves nothing of it when the server or the process that asked for it ends.

A program of its own, for the standard library only: `watcher.py PARENT REMOVE COMMAND...`. It writes the process id of
the command to its output. It waits on a pidfd of the parent, which also tells of a kill -9. Other ways don't hold: a
parent-death signal comes when the *thread* that started the child ends, and the end of a pipe is never seen while a
fork of the parent keeps it open. As a subreaper it inherits what the server leaves behind: PostgreSQL's processes have
sessions of their own, so a signal to a process group would miss them.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
from contextlib import suppress
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
GRACE = 3.0  # a server that is asked to end removes its shared memory; one that is killed leaves it behind


def main(parent: int, remove: str, command: list[str]) -> int:
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    asked_by = os.pidfd_open(parent)
    if os.getppid() != parent:  # it ended before, and its id may be another's by now
        return 1
    server = os.posix_spawnp(
        command[0],
        command,
        os.environ,
        file_actions=[(os.POSIX_SPAWN_DUP2, 2, 1)],
        setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],  # Python ignores them
    )
    running = os.pidfd_open(server)
    print(server, flush=True)
    ended, _, _ = select.select([asked_by, running], [], [])
    if running not in ended:
        os.kill(server, signal.SIGQUIT)
        for pid in (server, *children_of(server)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)  # it may have been paused
        select.select([running], [], [], GRACE)
    code = sweep(server)
    if remove and os.getppid() != parent:
        import shutil

        shutil.rmtree(remove, ignore_errors=True)
    return code


def sweep(server: int) -> int:
    """Kills and reaps until there is no child left; returns the exit code of the server."""
    code = 1
    os.kill(server, signal.SIGKILL)
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if pid == server:
            code = abs(os.waitstatus_to_exitcode(status))
        elif not pid:
            for child in children_of(os.getpid()):
                os.kill(child, signal.SIGKILL)  # ours, so it stays until we reap it
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)


def children_of(parent: int) -> list[int]:
    """Read from the table of all processes: not every kernel has a list of children."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            # The name of the program stands in parentheses and may hold anything, parentheses too.
            state, ppid = (entry / "stat").read_bytes().rpartition(b")")[2].split()[:2]
        except OSError:
            continue
        if int(ppid) == parent and state != b"Z":
            found.append(int(entry.name))
    return found


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))
