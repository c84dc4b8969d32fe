"""The first admin key of a store: made once, and kept in a file that only its user can read.

The file is beside a SQLite store, in the folder of its locks. The key of a PostgreSQL store is in the configuration
folder of the user, under a digest of the address without its password.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from rota.clients.people import first_admin_key
from rota.clock import Chance
from rota.config import without_secrets
from rota.store.base import Store

NAME = "admin-key"
_SQLITE = "sqlite:///"


def key_file(address: str, environment: Mapping[str, str] | None = None) -> Path | None:
    """Where the first admin key of the store at this address is kept; None: the store is in memory."""
    if address.startswith("sqlite://"):
        path = address.removeprefix(_SQLITE)
        return None if path == ":memory:" else Path(f"{os.path.realpath(path)}-rota") / NAME
    digest = hashlib.sha256(without_secrets(address).encode()).hexdigest()[:16]
    return configuration_folder(environment) / f"{NAME}-{digest}"


def configuration_folder(environment: Mapping[str, str] | None = None) -> Path:
    """Rota's own, of this user."""
    known = os.environ if environment is None else environment
    base = known.get("XDG_CONFIG_HOME")
    return (Path(base) if base and Path(base).is_absolute() else Path.home() / ".config") / "rota"


def kept_key(address: str) -> str | None:
    """The first admin key of the store at this address, if it is kept where this user can read it."""
    path = key_file(address)
    try:
        return path.read_text("utf-8").strip() if path is not None else None
    except (OSError, ValueError):
        return None


def keep(path: Path, text: str) -> None:
    """Whoever reads the file meanwhile sees the old key or the new one, whole. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(f"{text}\n")
        new.replace(path)
    except BaseException:
        with suppress(OSError):
            new.unlink()
        raise


async def make_first_key(store: Store, address: str, user: str, chance: Chance, seen: bool) -> str | None:
    """Makes and keeps the first admin key. Returns the line about it, or None if an admin key lives. `seen`: a person
    reads the line. Otherwise it may go to a log, so the key is in it only if it could not be kept."""
    text = await first_admin_key(store, user, chance)
    if text is None:
        return None
    path, why = key_file(address), "the store is in memory"
    if path is not None:
        try:
            keep(path, text)
        except OSError as error:
            why = f"{path} can't be written: {error.strerror}"
        else:
            shown = f"{text}, kept in {path}" if seen else f"kept in {path}"
            return f"the first admin key, of user {user}: {shown}"
    return f"the first admin key, of user {user}: {text}; it is shown only now ({why})"
