"""The SQL of the stores, from files below store/sql and store/migrations.

A query follows a line `-- name: ...` and is fetched by that name. Queries and functions name lists of columns
(`store.columns`), which are filled in here. The queries below store/sql/shared serve both stores: they are written for
PostgreSQL, and `in_sqlite` says the same in SQLite's words.
"""

from __future__ import annotations

import re
from importlib import resources

from rota.store import columns

SHARED = "shared"
_NAME = re.compile(r"^-- name: *(\w+) *$", re.MULTILINE)


def load(dialect: str) -> dict[str, str]:
    """All queries of a dialect (a folder below store/sql) and the shared ones, by name."""
    queries: dict[str, str] = {}
    for folder in (dialect, SHARED):
        for text in _texts(f"sql/{folder}").values():
            parts = _NAME.split(columns.expand(dialect, text))
            for name, query in zip(parts[1::2], parts[2::2], strict=True):
                if name in queries:
                    raise ValueError(f"query {name!r} is defined twice")
                queries[name] = query.strip().rstrip(";")
                if (folder, dialect) == (SHARED, "sqlite"):
                    queries[name] = in_sqlite(queries[name])
    return queries


def _texts(folder: str) -> dict[str, str]:
    """The .sql files of a folder below store, by name and in the order of their names."""
    there = resources.files("rota.store") / folder
    found = [entry for entry in there.iterdir() if entry.name.endswith(".sql")] if there.is_dir() else []
    return {entry.name: entry.read_text("utf-8") for entry in sorted(found, key=lambda entry: entry.name)}


_PARAMETER = re.compile(r"(?<!:):([a-z_]\w*)")


def numbered(text: str) -> tuple[str, tuple[str, ...]]:
    """A query with `:names` as one with `$1`, `$2`, ..., and the names in that order."""
    names: dict[str, int] = {}
    numbered = _PARAMETER.sub(lambda found: f"${names.setdefault(found[1], len(names) + 1)}", text)
    return numbered, tuple(names)


def functions(dialect: str) -> str:
    """All functions of a dialect (the files below store/sql/<dialect>/functions), as one text."""
    return columns.expand(dialect, "\n".join(_texts(f"sql/{dialect}/functions").values()))


def migrations(dialect: str) -> list[tuple[int, str]]:
    """All migrations of a dialect as (version, text), in order."""
    return sorted((int(name.split("_")[0]), text) for name, text in _texts(f"migrations/{dialect}").items())


# -- shared queries in SQLite ----------------------------------------------------------------------------------------
_UNNEST = re.compile(r"\bunnest\(([^()]*)\)\s+(WITH ORDINALITY )?AS (\w+)\(([\w, ]+)\)")
_WORDS = [
    (r"\brota\.clock\((:\w+)\)", r"\1"),  # the parameter `now` is always given
    (r"\brota\.", ""),
    (r"= ANY \((:\w+)(?:::\w+\[\])?\)", r"IN (SELECT value FROM json_each(\1))"),
    # A column that is a list is JSON; a row that was written by hand may be broken.
    (r"= ANY \(([\w.]+)\)", r"IN (SELECT value FROM json_each(iif(json_valid(\1), \1, '[]')))"),
    (r"::\w+(?:\[\])?", ""),
    (r"\bSELECT FROM\b", "SELECT 1 FROM"),
    (r"\bgreatest\(", "max("),  # of values that are not NULL: the functions differ in that
    (r"\bleast\(", "min("),
    (r"\bstrpos\(", "instr("),
    (r"\s+FOR (?:UPDATE|KEY SHARE)(?: OF \w+)?(?: SKIP LOCKED)?", ""),  # there is one writer
]


def in_sqlite(text: str) -> str:
    """A query of PostgreSQL as one of SQLite. Lists are JSON there; lists that `unnest` reads side by side are the one
    list `:rows` of objects, with the names of the parameters as keys."""
    text = _UNNEST.sub(_rows, text)
    for pattern, words in _WORDS:
        text = re.sub(pattern, words, text)
    return text


def _rows(found: re.Match[str]) -> str:
    lists, ordinality, alias, names = found.groups()
    values = [f"value ->> '{one}'" for one in _PARAMETER.findall(lists)] + (["key + 1"] if ordinality else [])
    picked = [f"{value} AS {name}" for value, name in zip(values, names.split(", "), strict=True)]
    return f"(SELECT {', '.join(picked)} FROM json_each(:rows)) AS {alias}"  # noqa: S608
