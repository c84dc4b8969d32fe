"""The store on PostgreSQL, for many nodes."""

from rota.store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
