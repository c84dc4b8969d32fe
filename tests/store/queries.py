"""The names of queries by the files they are in."""

from __future__ import annotations

import re
from pathlib import Path

from rota.store import sql_files

FOLDER = Path(sql_files.__file__).parent / "sql"


def names(dialect: str, *nouns: str) -> set[str]:
    """The queries of a store about these nouns: `admission` is admission.sql of the dialect and of both stores."""
    files = [FOLDER / room / f"{noun}.sql" for room in (dialect, sql_files.SHARED) for noun in nouns]
    texts = [file.read_text() for file in files if file.exists()]
    assert len(texts) >= len(nouns)
    return {name for text in texts for name in re.findall(r"^-- name: (\w+)", text, re.MULTILINE)}
