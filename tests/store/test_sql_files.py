"""Queries by name, migrations by number."""

from __future__ import annotations

from pathlib import Path

import pytest

from rota.store import sql_files


@pytest.fixture
def dialect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of queries and one of migrations, of a dialect `test`."""
    monkeypatch.setattr("importlib.resources.files", lambda _: tmp_path)
    for part in ("sql", "migrations"):
        (tmp_path / part / "test").mkdir(parents=True)
    return tmp_path


def test_a_query_is_fetched_by_its_name(dialect: Path) -> None:
    folder = dialect / "sql" / "test"
    (folder / "a.sql").write_text("-- above all\n-- name: one\nSELECT 1;\n\n-- name: two\n-- why\nSELECT 2\nFROM x;\n")
    (folder / "b.sql").write_text("-- name: three\nSELECT 'ü -- name: not this'\n")
    (folder / "readme.txt").write_text("-- name: four\nSELECT 4")
    assert sql_files.load("test") == {
        "one": "SELECT 1",
        "two": "-- why\nSELECT 2\nFROM x",
        "three": "SELECT 'ü -- name: not this'",
    }


def test_a_name_may_be_used_once(dialect: Path) -> None:
    for name in ("a.sql", "b.sql"):
        (dialect / "sql" / "test" / name).write_text("-- name: same\nSELECT 1\n")
    with pytest.raises(ValueError, match="'same' is defined twice"):
        sql_files.load("test")


def test_migrations_come_in_the_order_of_their_numbers(dialect: Path) -> None:
    for name in ("0010_ten.sql", "0002_two.sql", "0001_one.sql", "notes.md"):
        (dialect / "migrations" / "test" / name).write_text(f"-- {name}")
    assert sql_files.migrations("test") == [(1, "-- 0001_one.sql"), (2, "-- 0002_two.sql"), (10, "-- 0010_ten.sql")]


def test_every_query_of_sqlite_is_used_and_every_used_one_exists() -> None:
    store = Path(sql_files.__file__).parent
    rooms = [path for room in ("sqlite", "carriers", "search") for path in (store / room).glob("*.py")]
    rooms.append(store / "verbs.py")
    text = "\n".join(path.read_text() for path in rooms)
    unused = {name for name in sql_files.load("sqlite") if f'"{name}"' not in text}
    assert not unused


@pytest.mark.parametrize(
    ("query", "same"),
    [
        ("UPDATE rota.x SET at = rota.clock(:now)", "UPDATE x SET at = :now"),
        ("SELECT a::text FROM rota.x WHERE b <= :b::bigint", "SELECT a FROM x WHERE b <= :b"),
        ("WHERE id = ANY (:ids::uuid[])", "WHERE id IN (SELECT value FROM json_each(:ids))"),
        ("WHERE :a = ANY (x.l)", "WHERE :a IN (SELECT value FROM json_each(iif(json_valid(x.l), x.l, '[]')))"),
        ("EXISTS (SELECT FROM rota.x)", "EXISTS (SELECT 1 FROM x)"),
        ("SELECT greatest(a, least(b, :c)) FROM x FOR UPDATE OF x SKIP LOCKED", "SELECT max(a, min(b, :c)) FROM x"),
        (
            "FROM unnest(:as::text[], :bs::bigint[]) WITH ORDINALITY AS w(a, b, place)",
            "FROM (SELECT value ->> 'as' AS a, value ->> 'bs' AS b, key + 1 AS place FROM json_each(:rows)) AS w",
        ),
    ],
)
def test_a_shared_query_says_the_same_in_sqlite(query: str, same: str) -> None:
    assert sql_files.in_sqlite(query) == same


def test_shared_queries_are_of_both_stores() -> None:
    both = sql_files.load("sqlite").keys() & sql_files.load("postgres").keys()
    assert {"put_calendar", "standing_schedules"} <= both
