"""Large tables, and what SQLite does with a query on them: its plan, and what it costs in steps of the machine."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import apsw

from rota.store import sql_files


@contextmanager
def filled(statements: str) -> Iterator[apsw.Connection]:
    """A database with these rows."""
    connection = apsw.Connection(":memory:")
    for _, text in sql_files.migrations("sqlite"):
        connection.execute(text).fetchall()
    connection.execute(statements).fetchall()
    yield connection
    connection.close()


def plan(db: apsw.Connection, text: str, values: Any = None) -> list[str]:
    names = re.findall(r":(\w+)", text)
    given = values or (dict.fromkeys(names) if names else (None,) * text.count("?"))
    return [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {text}", given)]


def steps(db: apsw.Connection, text: str, values: Any) -> int:
    """What it takes, in steps of the machine; a change is taken back."""
    return counted(db, lambda: db.execute(text, values).fetchall())


def counted(db: apsw.Connection, work: Callable[[], object]) -> int:
    taken = 0

    def count() -> bool:
        nonlocal taken
        taken += 1
        return False

    db.execute("BEGIN")
    db.set_progress_handler(count, 10)
    try:
        work()
    finally:
        db.set_progress_handler(None)
        db.execute("ROLLBACK")
    return taken * 10


def scans(lines: list[str], tables: str) -> list[str]:
    """Of tables, not of what was read from them before."""
    inner = {line.split()[1] for line in lines if line.startswith(("CO-ROUTINE ", "MATERIALIZE "))}
    found = [line for line in lines if re.match(rf"SCAN (?:{tables})\b(?! VIRTUAL)", line)]
    return [line for line in found if line.split()[1] not in inner]
