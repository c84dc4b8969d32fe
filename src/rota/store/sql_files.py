"""The SQL of the stores, from files below store/sql and store/migrations.

A query follows a line `-- name: ...` and is fetched by that name. Queries and functions name lists of columns
(`store.columns`), which are filled in here.
"""

from __future__ import annotations

import re
from importlib import resources

from rota.store import columns

_NAME = re.compile(r"^-- name: *(\w+) *$", re.MULTILINE)


def load(dialect: str) -> dict[str, str]:
    """All queries of a dialect (a folder below store/sql), by name."""
    queries: dict[str, str] = {}
    folder = resources.files("rota.store") / "sql" / dialect
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if not entry.name.endswith(".sql"):
            continue
        parts = _NAME.split(columns.expand(dialect, entry.read_text("utf-8")))
        for name, text in zip(parts[1::2], parts[2::2], strict=True):
            if name in queries:
                raise ValueError(f"query {name!r} is defined twice")
            queries[name] = text.strip().rstrip(";")
    return queries


_PARAMETER = re.compile(r"(?<!:):([a-z_]\w*)")


def numbered(text: str) -> tuple[str, tuple[str, ...]]:
    """A query with `:names` as one with `$1`, `$2`, ..., and the names in that order."""
    names: dict[str, int] = {}
    numbered = _PARAMETER.sub(lambda found: f"${names.setdefault(found[1], len(names) + 1)}", text)
    return numbered, tuple(names)


def functions(dialect: str) -> str:
    """All functions of a dialect (the files below store/sql/<dialect>/functions), as one text."""
    folder = resources.files("rota.store") / "sql" / dialect / "functions"
    texts = {e.name: e.read_text("utf-8") for e in folder.iterdir() if e.name.endswith(".sql")}
    return columns.expand(dialect, "\n".join(texts[name] for name in sorted(texts)))


def migrations(dialect: str) -> list[tuple[int, str]]:
    """All migrations of a dialect as (version, text), in order."""
    folder = resources.files("rota.store") / "migrations" / dialect
    found = [(int(e.name.split("_")[0]), e.read_text("utf-8")) for e in folder.iterdir() if e.name.endswith(".sql")]
    return sorted(found)
