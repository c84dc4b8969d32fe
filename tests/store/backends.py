"""The backends that the contract suite runs on. A new one is a class of its own and one more line in `BACKENDS`."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from rota.clock import Chance, ManualClock
from rota.model.lifecycle import State
from rota.store.base import Store

# All that a store holds, table by table, as texts that compare.
Contents = dict[str, list[tuple[Any, ...]]]


class Backend(ABC):
    """A place to keep jobs, and what the suite must do to it behind the store's back. It is new and empty for each
    test."""

    virgin = False  # made for a test that does the migration itself
    shared: bool  # may several stores (of several processes) work on it at once?

    def __init__(self, folder: Path, clock: ManualClock) -> None:
        self.folder, self.clock = folder, clock

    @abstractmethod
    def store(self, chance: Chance) -> Store:
        """A store on this place, neither migrated nor opened. Only a shared place gives more than one."""

    async def prepare(self, store: Store) -> None:
        """Migrates a store of this place, or does what comes to the same and is quicker."""
        await store.migrate()

    def close(self) -> None:  # noqa: B027 - most leave it to the folder's end
        """Takes away what was made."""

    def raises(self, fault: type[Exception]) -> AbstractContextManager[Any]:
        """Expects what a caller gets of an error in the code of the store that is none of rota's own."""
        return pytest.raises(fault)

    @abstractmethod
    def contents(self, *only: str) -> Contents:
        """Of these tables, or of all."""

    @abstractmethod
    def put(self, job_id: str, state: State) -> None:
        """Puts a job that waits (or ended without ever running) on a shelf that no verb leads to."""

    @abstractmethod
    def stamp(self, version: int) -> None:
        """Pretends that the schema is of this version."""

    @abstractmethod
    def lose_node(self, incarnation: str) -> None:
        """Forgets a node and leaves its jobs as they are, as someone who deletes rows by hand might."""

    @abstractmethod
    def bury_node(self, incarnation: str) -> None:
        """Declares a node dead and leaves its jobs as they are."""

    @abstractmethod
    def forget_groups(self) -> None:
        """Takes the groups of errors from all dead letters, as if they had failed under an earlier version."""


def named_backend(target: str) -> type[Backend]:
    """The class that `--store` names."""
    module, _, name = target.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise pytest.UsageError(f"--store {target}: expected MODULE:BACKEND ({error})") from None
    if not isinstance(found, type) or not issubclass(found, Backend):
        raise pytest.UsageError(f"--store {target}: expected a subclass of tests.store.backends.Backend")
    return found


def backends() -> dict[str, type[Backend]]:
    from tests.hot.backends import HotPostgres, HotSqlite
    from tests.remote.backends import Server
    from tests.remote.worker_backends import FarPostgres, FarSqlite
    from tests.store.postgres.backends import Postgres
    from tests.store.sqlite.backends import SqliteFile, SqliteForwarded, SqliteMemory

    stores = {"sqlite-file": SqliteFile, "sqlite-memory": SqliteMemory, "postgres": Postgres}
    fronts = {"forwarded": SqliteForwarded, "server": Server}
    tiers = {"hot-sqlite": HotSqlite, "hot-postgres": HotPostgres}
    return {**stores, **fronts, **tiers, "far-sqlite": FarSqlite, "far-postgres": FarPostgres}
