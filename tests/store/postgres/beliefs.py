"""What the server may believe about the tables, true or not."""

from __future__ import annotations

from typing import Any

import psycopg


def mislead(db: psycopg.Connection[Any]) -> None:
    """Makes tables of which the server knows something that is not true of ours."""
    for table, source in (("jobs", "rota.jobs"), ("history", "rota.history")):
        db.execute(f"CREATE TABLE public.{table} (LIKE {source})".encode())
    db.execute("INSERT INTO public.jobs SELECT * FROM rota.jobs WHERE node = 'inc3' AND state = 'running'")
    db.execute("INSERT INTO public.history SELECT * FROM rota.history WHERE lasting LIMIT 50")
    db.execute("ANALYZE public.jobs, public.history")


OURS = "SELECT oid FROM pg_class WHERE relnamespace = 'rota'::regnamespace"
FORGET = f"DELETE FROM pg_statistic WHERE starelid IN ({OURS})"
# What the server knows about the tables.
BELIEFS: dict[str, list[str]] = {
    "never analysed": [FORGET, f"UPDATE pg_class SET reltuples = -1, relpages = 0 WHERE oid IN ({OURS})"],
    "analysed when empty": [FORGET, f"UPDATE pg_class SET reltuples = 0, relpages = 0 WHERE oid IN ({OURS})"],
    "analysed when few jobs ran": [
        FORGET,
        f"UPDATE pg_class SET reltuples = 100, relpages = 5 WHERE oid IN ({OURS}) AND relname ~ '^(jobs|history)'",
    ],
    "the truth": [
        "ANALYZE rota.jobs, rota.history, rota.attempts, rota.output, rota.keys, rota.outbox, rota.progress, "
        "rota.checkpoints"
    ],
}


def believe(url: str, belief: str) -> None:
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("SET allow_system_table_mods = on")
        for statement in BELIEFS[belief]:
            db.execute(statement.encode())
        if belief == "analysed when few jobs ran":
            columns = [name for (name,) in db.execute(
                "SELECT attname FROM pg_attribute WHERE attrelid = 'pg_statistic'::regclass AND attnum > 1 ORDER BY 1"
            )]  # fmt: skip
            db.execute(
                f"INSERT INTO pg_statistic (starelid, {', '.join(columns)}) SELECT c.oid, {', '.join(columns)} "
                f"FROM pg_statistic s JOIN pg_class f ON f.oid = s.starelid "
                f"JOIN pg_class c ON c.relnamespace = 'rota'::regnamespace AND c.relkind = 'r' "
                f"AND regexp_replace(c.relname, '_.*', '') = f.relname "
                f"WHERE f.relnamespace = 'public'::regnamespace".encode()
            )
