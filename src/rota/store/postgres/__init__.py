"""The store on PostgreSQL, for many nodes."""

from rota.store.postgres.address import address
from rota.store.postgres.callers import CallerStore
from rota.store.postgres.dump import PostgresSide
from rota.store.postgres.store import PostgresStore, Whereabouts

__all__ = ["CallerStore", "PostgresSide", "PostgresStore", "Whereabouts", "address"]
