"""`rota up --reload`, for development: the node starts again when a file of the app changes.

The process watches the folders of the modules that it has imported from outside the libraries, and those of the
package that `--app` names. After a change the node stops as after a signal, with a short grace, and the process
replaces itself by exec: same pid, no process above it that could be left behind. If the new code can't be imported,
the error is shown and the process waits for the next change.
"""

from __future__ import annotations

import asyncio
import os
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from rota import config

POLL = 0.5  # seconds between two looks
GRACE = "2s"  # for running jobs, unless --grace says otherwise
_OWN = Path(__file__).parents[1]
_LIBRARIES = tuple(Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib"))

Files = dict[Path, int]  # with the time of the last change


def look(app: str | None) -> Files:
    """The files of the app as they are now."""
    found: Files = {}
    for path in _paths(app):
        with suppress(OSError):  # removed meanwhile
            found[path] = path.stat().st_mtime_ns
    return found


def _paths(app: str | None) -> Iterator[Path]:
    files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    for folder in {Path(file).resolve().parent for file in files if file and file.endswith(".py")}:
        if not any(folder.is_relative_to(place) for place in (_OWN, *_LIBRARIES)):
            yield from folder.glob("*.py")
    if app is not None:  # also before its import, or if that has failed
        yield from Path.cwd().glob("*.py")
        package = Path.cwd() / app.partition(":")[0].partition(".")[0]
        yield from package.rglob("*.py")


def changed(before: Files, now: Files) -> list[Path]:
    return sorted(path for path in before.keys() | now.keys() if before.get(path) != now.get(path))


async def watch(app: str | None, stop: Callable[[], object], imported: Files) -> None:
    """Returns after the first change, which it names; `stop` ends the node. `imported`: the files before the app was
    imported, as far as they were known, since a change during the import may have come too late for it."""
    # In a thread: a large folder must not hold up the heartbeats of the node.
    before = await asyncio.to_thread(look, app) | imported
    while not (paths := changed(before, await asyncio.to_thread(look, app))):  # noqa: ASYNC110 - files send no events
        await asyncio.sleep(POLL)
    _tell(paths)
    stop()


def wait(app: str | None, imported: Files) -> None:
    """Waits for a change, outside a loop. `imported` as for `watch`."""
    before = look(app) | imported
    print("rota: waiting for a change", file=sys.stderr, flush=True)
    while not (paths := changed(before, look(app))):
        time.sleep(POLL)
    _tell(paths)


def _tell(paths: list[Path]) -> None:
    others = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    print(f"rota: {paths[0].name}{others} changed; starting again", file=sys.stderr, flush=True)


def again() -> NoReturn:
    """Replaces this process by the same call."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], config.variables())
