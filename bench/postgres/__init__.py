"""The measures on PostgreSQL: a server of their own, durable as in production, next to a floor of raw asyncpg and to
peers. `python -m bench pg` takes them all."""
