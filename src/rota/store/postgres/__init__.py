"""The store on PostgreSQL, for many nodes."""

from rota.store.postgres.address import address
from rota.store.postgres.callers import Order
from rota.store.postgres.store import PostgresStore

__all__ = ["Order", "PostgresStore", "address"]
