"""The store on PostgreSQL, for many nodes."""

from rota.store.postgres.address import address
from rota.store.postgres.callers import CallerOrder
from rota.store.postgres.store import PostgresStore

__all__ = ["CallerOrder", "PostgresStore", "address"]
