"""A made-up next version of the schema, and the changes that a step must not make beside older nodes."""

from __future__ import annotations

import re

from rota.store.postgres.migrate import KnownSchema, known, works_with

KNOWN = known()
NEWEST = KNOWN.newest
# A typical next version: it adds, and takes nothing away.
NEXT = f"""-- works with: {NEWEST}
ALTER TABLE rota.jobs ADD COLUMN colour text;
ALTER TABLE rota.history ADD COLUMN colour text;
ALTER TABLE rota.nodes ADD COLUMN shoe_size integer NOT NULL DEFAULT 42;
CREATE TABLE rota.colours (name text PRIMARY KEY);
CREATE INDEX jobs_colour ON rota.jobs (colour) WHERE colour IS NOT NULL;

-- after functions

CREATE TRIGGER colour_written BEFORE UPDATE OF colour ON rota.jobs FOR EACH ROW EXECUTE FUNCTION rota.mix();
"""
# Its functions: a new one, and an old one with the same meaning in other words.
MIX = """
CREATE OR REPLACE FUNCTION rota.mix() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
CREATE OR REPLACE FUNCTION rota.microseconds(span interval) RETURNS bigint LANGUAGE sql IMMUTABLE AS
$$ SELECT (1000000 * extract(epoch FROM span))::bigint $$;
"""


def with_next(*texts: str, functions: str = KNOWN.functions + MIX, code: str = "99.0.0") -> KnownSchema:
    """The schema that code of later versions knows."""
    steps = tuple(enumerate(texts or (NEXT,), start=NEWEST + 1))
    return KnownSchema(KNOWN.steps + steps, functions, code)


_QUOTED = re.compile(r"\$(\w*)\$.*?\$\1\$|'(?:[^']|'')*'", re.DOTALL)
_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
BREAKING = {
    "drops something": re.compile(r"\bDROP\b(?!\s+(?:NOT\s+NULL|DEFAULT)\b)", re.IGNORECASE),
    "renames something": re.compile(r"\bRENAME\b", re.IGNORECASE),
    "changes a type": re.compile(r"\bALTER\s+(?:COLUMN\s+)?\w+\s+(?:SET\s+DATA\s+)?TYPE\b", re.IGNORECASE),
    "forbids NULL": re.compile(r"\bSET\s+NOT\s+NULL\b", re.IGNORECASE),
    "moves a table": re.compile(r"\bSET\s+SCHEMA\b", re.IGNORECASE),
    "empties a table": re.compile(r"\bTRUNCATE\b", re.IGNORECASE),
}
_ADDED = re.compile(
    r"\bADD\s+(?:COLUMN\s+)?(?:IF\s+NOT\s+EXISTS\s+)?(?!CONSTRAINT\b|CHECK\b|PRIMARY\b|UNIQUE\b|FOREIGN\b)", re.I
)


def complaints(number: int, text: str) -> list[str]:
    """Why the code of the version before could not go on, although the migration says that it can."""
    if works_with(number, text) >= number:
        return []
    found: list[str] = []
    for statement in _COMMENT.sub("", _QUOTED.sub("''", text)).split(";"):
        short = " ".join(statement.split())[:60]
        found += [f"it {what}: {short}" for what, pattern in BREAKING.items() if pattern.search(statement)]
        found += [f"it adds what old code does not fill in: {short}" for part in _columns(statement) if _needed(part)]
    return found


def _columns(statement: str) -> list[str]:
    """What `ALTER TABLE ... ADD COLUMN` adds, one by one."""
    if not re.match(r"\s*ALTER\s+TABLE\b", statement, re.IGNORECASE):
        return []
    return _ADDED.split(statement)[1:]


def _needed(column: str) -> bool:
    return bool(re.search(r"\bNOT\s+NULL\b", column, re.I)) and not re.search(
        r"\bDEFAULT\b|\bGENERATED\b", column, re.IGNORECASE
    )
