"""The embedded store: one SQLite file, several processes, one machine."""

from rota.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
