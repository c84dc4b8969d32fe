"""`rota job list QUERY`: the same on a store and over a server; its orders, pages, columns, forms and errors."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.cli.listing import _show_count, _show_facets
from rota.model.access import Role
from rota.store.values import Facet, Facets, JobCount
from tests.cli.jobs_there import FORMULA, TASKS, Place, arrange, with_store
from tests.cli.program import Rota, on_terminal
from tests.remote.serving import key_of, server_on
from tests.servers.postgres import fresh_schema_name, shared_server

FAILED, SUCCEEDED, OLDER, NEWER, LATER = range(len(TASKS))


@pytest.fixture(scope="module", params=["sqlite", "server"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Nobody changes its jobs."""
    folder = tmp_path_factory.mktemp(request.param)
    url = f"sqlite:///{folder}/rota.db"
    ids = asyncio.run(with_store(url, arrange))
    if request.param == "sqlite":
        made = Place(folder, ROTA_STORE=url)
        made.ids = ids
        yield made
        return
    with server_on(folder / "rota.db") as server:
        made = Place(folder, ROTA_SERVER=server.url, ROTA_KEY=key_of(Role.VIEWER))
        made.ids = ids
        yield made


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ([], [LATER, NEWER, OLDER, SUCCEEDED, FAILED]),
        (["*"], [LATER, NEWER, OLDER, SUCCEEDED, FAILED]),
        (["state:failed"], [FAILED]),
        (["state:failed,ready", "-task:report"], [FAILED]),
        (["task:mail.*", "OR", "task:sweep"], [LATER, SUCCEEDED, FAILED]),
        (["connection refused"], [FAILED]),
        (["refused", "connection"], [FAILED]),
        (["label:slow"], [OLDER]),
        (["args.number>=0", "--state", "ready,scheduled"], [LATER, NEWER, OLDER]),
        (["args.number>=0", "--task", "rep*", "--label", "slow"], [OLDER]),
        (["task:report", "--sort", "created"], [OLDER, NEWER]),
        (["--sort=-task", "--limit", "3"], [LATER, NEWER, OLDER]),
        (["--sort", "-finished", "state:ended"], [SUCCEEDED, FAILED]),
        (["finished>-1h", "took<5m", "--queue", "mails"], [SUCCEEDED, FAILED]),
        (["user:bob"], []),
        (["secret"], []),
        (["--limit", "1", "state:ready"], [NEWER]),
    ],
)
def test_a_query_finds_jobs(place: Place, words: list[str], found: list[int]) -> None:
    assert sorted(place.found(*words)) == sorted(found)
    if "finished" not in " ".join(words):  # both ended at one instant
        assert place.found(*words) == found


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["stat:failed"], 'query, character 1: there is no field "stat"; did you mean "state"?'),
        (["user:ann", "state:faild"], 'query, character 16: no state is "faild"; did you mean "failed"?'),
        (["(user:ann"], 'query, character 1: this "(" is not closed'),
        (["stream:stderr"], 'query, character 1: there is no field "stream" of jobs'),
        (["/(/"], "query, character 1: "),
        (["x" * 10_001], "query: expected a text of at most 10,000 characters"),
        (["--sort", "tsk"], "sort: 'tsk' is not valid; expected one of id, "),
        (["--columns", "id,tsk"], "there is no field \"tsk\"; did you mean \"task\"?"),
        (["--columns", "id,zzz"], '(there is no field "zzz")\n'),
        (["--columns", "id OR x"], "--columns: 'id OR x' is not valid; expected "),
        (["--columns", "args"], '"args" needs the name of a value'),
        (["--columns", ""], "--columns: '' is not valid"),
        (["--after", "nonsense!"], "--after: 'nonsense!' is not valid; expected the id of a job, or "),
        (["--csv", "--json"], "--json and --csv are two forms: give one"),
        (["--count", "--sort", "id"], "--sort does not go with --count"),
        (["--facets", "--limit", "3"], "--limit does not go with --facets"),
        (["--json", "--columns", "id"], "--columns does not go with --json"),
        (["--watch", "--csv"], "not allowed with argument"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("place", ["sqlite"], indirect=True, scope="module")
def test_what_is_wrong_is_one_line(place: Place, words: list[str], said: str) -> None:
    assert said in place.refused("job", "list", *words)


@pytest.mark.parametrize("place", ["server"], indirect=True, scope="module")
def test_what_is_wrong_is_the_same_line_on_a_server(place: Place) -> None:
    said = place.refused("job", "list", "user:ann", "state:faild")
    assert said == 'rota: query, character 16: no state is "faild"; did you mean "failed"?\n'
    assert "no store" not in place.refused("job", "list", "(user:ann", "--store", "sqlite:///none.db")


def test_a_page_goes_on_behind_a_job_or_where_the_last_one_stopped(place: Place) -> None:
    assert place.found("--after", place.ids[NEWER]) == [OLDER, SUCCEEDED, FAILED]
    assert place.found("--after", place.ids[OLDER][-10:], "--limit", "1") == [SUCCEEDED]
    assert place.found("--sort", "task", "--after", place.ids[NEWER]) == [LATER]
    assert "no job 'ffff0000'" in place.refused("job", "list", "--after", "ffff0000", code=1)


def test_columns_are_fields_of_the_language(place: Place) -> None:
    asked = "task,state,label,args.number,args.tags,took,finished,args.none,priority"
    shown = place.ok("job", "list", "state:failed,ready", "--columns", asked).splitlines()
    assert shown[0].split() == asked.split(",")
    assert shown[1].split() == ["report", "ready", "1", '["a","b"]', "5"]
    assert shown[2].split() == ["report", "ready", "nightly,", "slow", "0", '["a","b"]', "5"]
    task, state, number, tags, took, finished, priority = shown[3].split()
    assert (task, state, number, tags, priority) == ("mail.send", "failed", "-2", '["a","b"]', "5")
    assert took.endswith("ms")
    assert finished.endswith("Z")


def test_csv_is_for_spreadsheets(place: Place) -> None:
    asked = 'id,reason,args.who,args.number,exit,took,created,label,args."a,b"'
    text = place.ok("job", "list", "queue:mails OR task:report", "--csv", "--columns", asked)
    assert text.count("\r\n") == text.count("\n") == 5
    head, *rows = csv.reader(io.StringIO(text, newline=""))
    assert head == ["id", "reason", "args.who", "args.number", "exit", "took", "created", "label", 'args."a,b"']
    assert [row[0] for row in rows] == [place.ids[n] for n in (NEWER, OLDER, SUCCEEDED, FAILED)]
    failed, older = rows[3], rows[1]
    assert failed[1] == f"'{FORMULA}"
    assert failed[2:5] == ['x, "0"', "-2", "-9"]
    assert float(failed[5]) >= 0
    assert failed[6].endswith("+00:00")
    assert older[1:6] == ["", 'x, "2"', "0", "", ""]
    assert older[7] == "nightly, slow"
    usual = next(csv.reader(io.StringIO(place.ok("job", "list", "--csv", "state:skipped"), newline="")))
    assert {"id", "task", "state", "took", "error"} <= set(usual)


def test_counts_and_facets(place: Place) -> None:
    assert place.ok("job", "list", "--count", "task:mail.*") == "2\n"
    assert json.loads(place.ok("job", "list", "--count", "--json")) == {"number": 5, "exact": True}
    shown = place.ok("job", "list", "--facets").splitlines()
    assert shown[0] == "5 jobs"
    assert shown[2:4] == ["STATE      JOBS", "ready      2"]
    assert "local  5" in shown
    assert shown[-2].split() == ["GROUP", "JOBS", "ERROR"]
    group, number, title = shown[-1].split(None, 2)
    assert (place.found(f"group:{group}"), number) == ([FAILED], "1")
    assert "connection refused" in title
    facets = json.loads(place.ok("job", "list", "--facets", "--json", "-state:ready"))
    assert facets["total"] == {"number": 3, "exact": True}
    assert {one["value"]: one["number"] for one in facets["fields"]["task"]} == {"mail.send": 2, "sweep": 1}


def test_estimates_are_marked(capsys: pytest.CaptureFixture[str]) -> None:
    _show_count(Namespace(json=False), JobCount(1_234_567, exact=False))
    few = {"task": [Facet("a\x1b", 1_200_000, False), Facet("b", 7)], "queue": []}
    _show_facets(Namespace(json=False), Facets(JobCount(1_234_567, False), few, complete=False))
    assert capsys.readouterr().out == (
        "about 1,234,567\nabout 1,234,567 jobs\n\nTASK   JOBS\na\\x1b  about 1,200,000\nb      7\n"
        "\n(other values may be there)\n"
    )


def test_dead_letters_are_listed_by_query_too(place: Place) -> None:
    (letter,) = json.loads(place.ok("dead", "list", "task:mail.*", "--json"))
    assert letter["id"] == place.ids[FAILED]
    assert json.loads(place.ok("dead", "list", "task:report", "--json")) == []
    assert place.ok("dead", "list", "--count", "connection refused") == "1\n"
    assert "character 1" in place.refused("dead", "list", "stat:failed")
    (group,) = json.loads(place.ok("dead", "list", "--groups", "error~refused", "--json"))
    assert (group["task"], group["count"]) == ("mail.send", 1)
    assert json.loads(place.ok("dead", "list", "--groups", "task:report", "--json")) == []
    assert json.loads(place.ok("dead", "list", f"group:{group['id']}", "--json")) == [letter]
    assert "takes conditions on fields only" in place.refused("dead", "list", "--groups", "/zzz/")
    assert "takes no conditions on arguments" in place.refused("dead", "list", "--groups", "args.number:7")
    assert "--sort does not go with --groups" in place.refused("dead", "list", "--groups", "--sort", "id")


def test_the_query_works_on_postgresql(tmp_path: Path) -> None:
    schema = fresh_schema_name()
    url = f"{shared_server().url()}?schema={schema}"
    try:
        place = Place(tmp_path, ROTA_STORE=url)
        place.ids = asyncio.run(with_store(url, arrange))
        assert place.found("task:mail.*", "OR", "connection refused", "--sort", "task") == [FAILED, SUCCEEDED]
        assert place.found("args.number>=0", "-label:slow", "--after", place.ids[LATER]) == [NEWER]
        assert place.ok("job", "list", "--count", "state:live") == "3\n"
        assert "mail.send  2" in place.ok("job", "list", "--facets", "state:ended")
        assert f"'{FORMULA[:10]}" in place.ok("job", "list", "--csv", "state:failed").replace('""', '"')
        assert place.ok("job", "cancel", "--all", "task:report", "--yes") == "2 jobs cancelled\n"
    finally:
        shared_server().execute(f"DROP SCHEMA {schema} CASCADE")


def test_a_terminal_is_told_where_to_go_on(rota: Rota) -> None:
    store = f"sqlite:///{rota.folder}/rota.db"
    ids = asyncio.run(with_store(store, arrange))
    code, shown = on_terminal(rota.folder, "job", "list", "--limit", "2", "task:*", env={"ROTA_STORE": store})
    assert code == 0
    place = Place(rota.folder, ROTA_STORE=store)
    place.ids = ids
    cursor = shown.split("--after ")[1].split(")")[0]
    assert "(2 shown; there may be more: --limit N, or --after" in shown
    assert place.found("task:*", "--after", cursor) == [OLDER, SUCCEEDED, FAILED]
    assert "one of a page with the same conditions" in place.refused("job", "list", "task:x", "--after", cursor)
