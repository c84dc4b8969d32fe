"""The files of the migrations: numbered, and true to what they say they fit."""

from __future__ import annotations

import pytest

from tests.store.postgres import migration_lint
from tests.store.postgres.migration_lint import KNOWN, NEWEST, NEXT

# -- the files --------------------------------------------------------------------------------------------------------


def test_migrations_are_numbered_without_gaps() -> None:
    assert [number for number, _ in KNOWN.steps] == list(range(1, NEWEST + 1))


@pytest.mark.parametrize(("number", "text"), [*KNOWN.steps, (NEWEST + 1, NEXT)])
def test_migrations_break_nothing_that_they_say_they_fit(number: int, text: str) -> None:
    assert migration_lint.complaints(number, text) == []


FITS = "-- works with: 7\n"


@pytest.mark.parametrize(
    "text",
    [
        "DROP TABLE rota.jobs;",
        "drop index rota.jobs_ready;",
        "ALTER TABLE rota.jobs DROP COLUMN key;",
        "ALTER TABLE rota.jobs DROP CONSTRAINT x;",
        "ALTER TABLE rota.jobs RENAME COLUMN key TO keys;",
        "ALTER TABLE rota.jobs RENAME TO work;",
        "ALTER TABLE rota.jobs ALTER COLUMN priority TYPE integer;",
        "ALTER TABLE rota.jobs ALTER priority SET DATA TYPE integer;",
        "ALTER TABLE rota.jobs ALTER COLUMN key SET NOT NULL;",
        "ALTER TABLE rota.jobs ADD COLUMN a text NOT NULL;",
        "ALTER TABLE rota.jobs ADD a text NOT NULL;",
        "ALTER TABLE rota.jobs ADD COLUMN a text DEFAULT '', ADD COLUMN b text NOT NULL;",
        "ALTER TABLE rota.jobs ADD COLUMN IF NOT EXISTS a text NOT NULL CHECK (a <> 'DEFAULT');",
        "ALTER TABLE rota.jobs\n  ADD\n  COLUMN a text\n  NOT\n NULL;",
        "ALTER TABLE rota.jobs SET SCHEMA other;",
        "TRUNCATE rota.outbox;",
        "CREATE TABLE rota.x (i int); DROP FUNCTION rota.clock(bigint);",
    ],
)
def test_what_would_break_the_version_before_is_seen(text: str) -> None:
    assert migration_lint.complaints(8, FITS + text) != []
    assert migration_lint.complaints(8, text) == [], "it says that it fits nobody else"
    assert migration_lint.complaints(8, "-- works with: 8\n" + text) == []
    assert migration_lint.complaints(8, f"{text}\n{FITS}") == [], "said too late"


@pytest.mark.parametrize(
    "text",
    [
        NEXT,
        "ALTER TABLE rota.jobs ADD COLUMN a text;",
        "ALTER TABLE rota.jobs ADD COLUMN a text NOT NULL DEFAULT '';",
        "ALTER TABLE rota.jobs ADD COLUMN a bigint NOT NULL GENERATED ALWAYS AS IDENTITY;",
        "ALTER TABLE rota.jobs ADD CONSTRAINT c CHECK (key IS NOT NULL OR true) NOT VALID;",
        "CREATE TABLE rota.x (i int NOT NULL);",
        "-- DROP TABLE rota.jobs;\nSELECT 1;",
        "/* DROP TABLE rota.jobs; */ SELECT 1;",
        "CREATE FUNCTION rota.f() RETURNS void LANGUAGE plpgsql AS $$ BEGIN DROP TABLE x; END $$;",
        "INSERT INTO rota.tasks VALUES ('DROP TABLE; it''s', '{}', 0);",
        "ALTER TABLE rota.jobs ALTER COLUMN key DROP NOT NULL;",
        "ALTER TABLE rota.jobs ALTER COLUMN key DROP DEFAULT;",
    ],
)
def test_what_only_adds_is_not_complained_about(text: str) -> None:
    assert migration_lint.complaints(8, FITS + text) == []
