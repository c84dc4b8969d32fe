"""The lists of columns: true to both schemas, to the structs, and to the texts that name them."""

from __future__ import annotations

import re

import apsw
import psycopg
import pytest

from rota.model.job import Claimed, JobInfo, NewJob
from rota.store import columns, sql_files
from rota.store.postgres import migrate
from tests.contracts.world import command
from tests.store.postgres.backends import migrated_database

LISTS = columns.LISTS


def test_the_lists_are_the_columns_of_postgresql() -> None:
    with migrated_database() as url, psycopg.connect(url) as db:
        for table, listed in columns.TABLES["postgres"].items():
            found = db.execute(
                "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
                "WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped",
                (f"rota.{table}",),
            ).fetchall()
            assert dict(found) == {one.name: one.type for one in listed}, table
            assert len(found) == len(listed)
        schedules = db.execute("SELECT * FROM rota.schedules").description or ()
        assert {one.name for one in LISTS["postgres"]["schedules.shown"]} <= {one.name for one in schedules}


def test_the_lists_are_the_columns_of_sqlite() -> None:
    db = apsw.Connection(":memory:")
    for _, text in sql_files.migrations("sqlite"):
        db.execute(text).fetchall()

    def found(table: str) -> list[str]:
        return [name for (name,) in db.execute("SELECT name FROM pragma_table_info(?)", (table,)) if name != "seq"]

    for table, listed in columns.TABLES["sqlite"].items():
        assert sorted(found(table)) == sorted(one.name for one in listed), table
    assert {one.name for one in LISTS["sqlite"]["schedules.shown"]} <= {*found("schedules")}


def test_a_claim_brings_every_field_and_a_read_all_that_is_stored() -> None:
    assert tuple(one.name for one in LISTS["postgres"]["jobs.claimed"]) == Claimed.__struct_fields__
    stored = {one.name for one in columns.TABLES["postgres"]["jobs"]}
    assert stored & {*JobInfo.__struct_fields__} <= {one.name for one in columns.SHOWN}


def test_every_field_of_an_order_has_its_column() -> None:
    job = NewJob("1", "t", command("ls"))
    values = columns.given_lists([job])
    assert (values["spec"], values["kind"], values["special"]) == ([job.spec.body], ["command"], [False])
    # The rest is worked out (at, delay, expires), encoded, or kept in tables of its own (after, workflow, name).
    apart = {"at", "delay", "expires", "retry", "requirements", "after", "workflow", "job_name"}
    assert {*NewJob.__struct_fields__} - apart == {one.given.partition(".")[0] for one in columns.GIVEN if one.given}


@pytest.mark.parametrize("dialect", ["postgres", "sqlite"])
def test_no_text_names_a_list_that_is_not_filled_in(dialect: str) -> None:
    texts = [*sql_files.load(dialect).values(), migrate.known().functions]
    assert [text for text in texts if re.search(r"{jobs\.|\.(kept|shown)\b", text)] == []


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("({output.kept})", "(job, fence, number, at, kept_at, stream, body)"),
        (
            "{output.kept o; at = 1 + 1;\n number = f(2, 3)}",
            "o.job, o.fence, f(2, 3), 1 + 1, o.kept_at, o.stream, o.body",
        ),
        ("{output.kept; at = 7; * = NULL}", "NULL, NULL, NULL, 7, NULL, NULL, NULL"),
        ("{payloads.inserted?}", "?, ?, ?, ?, ?, ?, ?"),
        ("{jobs.inserted[]}", ":seq::text[], :id::uuid[]"),
        ("{jobs.order j p}", "j.id, j.queue, j.kind, j.task, j.priority, p.spec"),
        ("{jobs.claimed::}", "job_id text, fence bigint, owner text"),
        ("'{a,b}' '{}' x{1,2} '{{' {jobs}", "'{a,b}' '{}' x{1,2} '{{' {jobs}"),
    ],
)
def test_a_list_is_filled_in(text: str, expanded: str) -> None:
    assert columns.expand("sqlite", text).startswith(expanded)


@pytest.mark.parametrize("text", ["{jobs.nothing}", "{jobs.kept; colour = 1}", "{jobs.claimed j; job_id = j.id}"])
def test_a_wrong_list_is_refused(text: str) -> None:
    with pytest.raises((KeyError, ValueError)):
        columns.expand("postgres", text)
