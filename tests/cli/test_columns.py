"""Fields of jobs as cells of tables and of spreadsheets."""

from __future__ import annotations

from datetime import timedelta

import pytest

from rota.cli.columns import cells, columns_of, fields, harmless
from rota.errors import InvalidInput
from rota.model.outcome import Problem
from rota.model.query.fields import JOB_FIELDS, Depth
from tests.model.query.samples import JOB_ID, STARTED, job

WORKFLOW = "01942f0c-1111-7000-8000-000000000000"


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("id", ["id"]),
        ("id, task", ["id", "task"]),
        ("owner,args.a.0", ["owner", "args.a.0"]),
        ('args."a,b",result', ['args."a,b"', "result"]),
    ],
)
def test_columns_are_split_outside_of_quotes(given: str, names: list[str]) -> None:
    assert [column.name for column in columns_of(given)] == names


@pytest.mark.parametrize(
    "given", ["", ",", " ", "tsk", "id OR task", "-id", "id:*", "args", "stream", 'args."open', "id)", "*", "(id"]
)
def test_what_is_no_field_of_jobs_is_refused(given: str) -> None:
    with pytest.raises(InvalidInput, match="--columns"):
        columns_of(given)


def test_every_field_can_be_a_column() -> None:
    names = [f"{field.name}.x" if field.depth is Depth.NEEDED else field.name for field in JOB_FIELDS]
    columns = columns_of(",".join(names))
    assert [column.name for column in columns] == names
    assert len(cells(columns, job(), {})) == len(fields(columns, job(), {})) == len(names)


@pytest.mark.parametrize(
    ("column", "cell", "field"),
    [
        ("id", JOB_ID, JOB_ID),
        ("state", ("failed", "red"), "failed"),
        ("started", "2027-01-02T11:00:30Z", "2027-01-02T11:00:30.000000+00:00"),
        ("took", "6m", "360"),
        ("waited", "30s", "30"),
        ("label", "nightly, eu/west", "nightly, eu/west"),
        ("workflow", "etl", "etl"),
        ("exit", "2", "2"),
        ("args.user_id", "7", "7"),
        ("args.items.0.n", "2.5", "2.5"),
        ("args.items", '[{"n":2.5},null]', '[{"n":2.5},null]'),
        ("args.on", "true", "true"),
        ("args.no", "", ""),
        ("args.none.at.all", "", ""),
        ("expires", "", ""),
        ("result", "", ""),
        ("error_type", "builtins.TimeoutError", "builtins.TimeoutError"),
    ],
)
def test_values(column: str, cell: object, field: str) -> None:
    columns, names = columns_of(column), {WORKFLOW: "etl"}
    assert cells(columns, job(), names) == (cell,)
    assert fields(columns, job(), names) == [field]


def test_a_workflow_without_a_name_is_its_id() -> None:
    assert fields(columns_of("workflow"), job(), {}) == [WORKFLOW]


def test_parts_of_a_second_are_kept() -> None:
    quick = job(finished_at=STARTED + timedelta(microseconds=1_250_000))
    assert fields(columns_of("took"), quick, {}) == ["1.25"]
    assert fields(columns_of("took"), job(finished_at=STARTED), {}) == ["0"]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "\n=x"])
def test_no_text_is_a_formula(text: str) -> None:
    assert harmless(text) == f"'{text}"
    bad = job(args={"x": text, "y": [text], "n": -1}, error=Problem("E", text))
    assert fields(columns_of("args.x,error"), bad, {}) == [f"'{text}", f"'{text}"]
    assert fields(columns_of("args.n"), bad, {}) == ["-1"], "a number is none"
    assert fields(columns_of("args.y"), bad, {})[0].startswith("[")


def test_other_texts_stay() -> None:
    assert [harmless(text) for text in ("", "a=b", "7", "'x", "ü-1")] == ["", "a=b", "7", "'x", "ü-1"]
