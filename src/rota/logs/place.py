"""Where the spools of a store's nodes are on this machine."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from rota.config import NO_SPOOL, Settings
from rota.logs.spool import Spool
from rota.telemetry.events import Bus, SpoolFailed

_SQLITE = "sqlite:///"


def spool_base(settings: Settings, environment: Mapping[str, str] | None = None) -> Path | None:
    """One folder for all nodes of a store that this user runs here: each finds the spools of the others. None: there is
    to be no spool, or the store is in memory."""
    path = settings.store.removeprefix(_SQLITE) if settings.store.startswith(_SQLITE) and not settings.server else None
    if settings.spool == NO_SPOOL or path == ":memory:":
        return None
    place = os.path.realpath(path) if path is not None else settings.place
    digest = hashlib.sha256(place.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    if settings.spool:
        return Path(settings.spool).absolute() / digest
    return Path(f"{place}-rota", "spool") if path is not None else _state_folder(environment) / "spool" / digest


def _state_folder(environment: Mapping[str, str] | None) -> Path:
    """Rota's own, of this user."""
    known = os.environ if environment is None else environment
    base = known.get("XDG_STATE_HOME")
    return (Path(base) if base and Path(base).is_absolute() else Path.home() / ".local" / "state") / "rota"


def open_spool(settings: Settings, name: str, bus: Bus) -> Spool | None:
    """A new spool. None: there is to be none, or it can't be made, which is told; a node works without one."""
    base, loop = spool_base(settings), asyncio.get_running_loop()

    def tell(error: OSError) -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(bus.emit, SpoolFailed(str(error)))

    if base is None:
        return None
    try:
        return Spool(base, name, tell)
    except OSError as error:
        tell(error)
        return None
