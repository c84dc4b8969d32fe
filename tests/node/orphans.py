"""What nodes have left behind, found without looking into it: processes of rota can't be read by others of their user.

While this is open, whatever loses its parent below this process becomes its child and not init's. So all that nodes
ever started is below it, as long as it lives.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from rota.work.keeper.kernel import PR_SET_CHILD_SUBREAPER, prctl
from tests.servers import watcher

SERVER = os.fsencode(Path(watcher.__file__).name)


class Orphans:
    def __init__(self) -> None:
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        self._before = set(below())

    def left(self, known: Collection[int] = ()) -> list[str]:
        """Command lines of what was started meanwhile and lives, but for database servers. `known` are children that
        somebody else waits for."""
        found = []
        for pid, (parent, state) in below().items():
            if pid in self._before:
                continue
            if state != "Z":
                found.append(f"{pid}: {command_line(pid).replace(bytes(1), b' ').decode(errors='replace')}")
            elif parent == os.getpid() and pid not in known:
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
        return found

    def close(self) -> None:
        self.left()
        prctl(PR_SET_CHILD_SUBREAPER, 0)


def below() -> dict[int, tuple[int, str]]:
    """Parent and state of all processes below this one, without servers and what is below these."""
    all_there: dict[int, tuple[int, str]] = {}
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit():
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
                all_there[int(entry.name)] = int(parent), state
    found: dict[int, tuple[int, str]] = {}
    new = {os.getpid()}
    while new:
        new = {pid for pid, (parent, _) in all_there.items() if parent in new and SERVER not in command_line(pid)}
        found |= {pid: all_there[pid] for pid in new}
    return found


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
