"""`rota workflow ...`, `--after`, and what `job show` says of jobs that wait for others."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rota.cli import workflow_file
from tests.cli.program import Rota, on_terminal, refused

NIGHTLY: list[dict[str, Any]] = [
    {"name": "rows", "task": "hello", "args": {"name": "you"}},
    {"name": "clean", "command": ["true"], "after": {"rows": "finish"}},
    {"name": "boom", "task": "boom", "after": ["rows"]},
    {"name": "alarm", "command": ["echo", "help"], "after": "boom", "on": "failure"},
    {"name": "never", "command": ["true"], "after": ["boom", "clean"]},
]


def write(rota: Rota, jobs: list[dict[str, Any]], name: str = "", file: str = "flow.json") -> str:
    (rota.folder / file).write_text(json.dumps({"name": name, "jobs": jobs}))
    return file


def order(rota: Rota, jobs: list[dict[str, Any]], name: str = "") -> dict[str, Any]:
    found: dict[str, Any] = rota.json("workflow", "submit", write(rota, jobs, name))
    return found


@pytest.fixture(scope="module")
def nightly(served: Rota) -> dict[str, Any]:
    """One that has ended with a failure."""
    flow = order(served, NIGHTLY, "nightly")
    assert served.here("workflow", "wait", flow["id"])[0] == 1
    return flow


@pytest.fixture
def waiting(rota: Rota) -> dict[str, Any]:
    """One of three jobs that does not start: there is no node."""
    jobs = [{"name": name, "command": ["true"]} for name in "abc"]
    jobs[1]["after"], jobs[2]["after"] = ["a"], ["b"]
    return order(rota, jobs, "chain")


# -- looking ---------------------------------------------------------------------------------------------------------
def test_the_list_says_what_is_going_on(served: Rota, nightly: dict[str, Any]) -> None:
    header, *rows = served.ok("workflow", "list", "--name", "nightly").splitlines()
    assert header.split() == ["ID", "NAME", "AGE", "STATE", "JOBS"]
    (row,) = rows
    assert row.startswith(f"{nightly['id']}  nightly  ")
    assert row.endswith("failed  3 succeeded, 1 failed, 1 skipped")
    (found,) = served.json("workflow", "list", "--name", "nightly", "--limit", "1")
    assert (found["state"], found["counts"]) == ("failed", {"succeeded": 3, "failed": 1, "skipped": 1})
    assert served.json("workflow", "list", "--name", "none of them") == []


def test_the_list_on_a_terminal(served: Rota, nightly: dict[str, Any]) -> None:
    code, shown = on_terminal(served.folder, "workflow", "list", "--name", "nightly")
    assert code == 0
    assert "\x1b[31mfailed" in shown
    assert "3 succeeded, 1 failed, 1 skipped" in shown


def test_a_workflow_is_shown_as_a_tree(served: Rota, nightly: dict[str, Any]) -> None:
    ids = {name: job[-8:] for name, job in nightly["jobs"].items()}
    shown = served.ok("workflow", "show", "nightly")
    head, _, drawing = shown.partition("\n\n")
    assert f"id       {nightly['id']}" in head
    assert "jobs     3 succeeded, 1 failed, 1 skipped" in head
    lines = drawing.splitlines()
    assert lines[0].startswith(f"rows (hello)  {ids['rows']}  succeeded")
    assert any(line.startswith(f"├─ clean  {ids['clean']}  succeeded  on finish") for line in lines)
    assert any(f"alarm  {ids['alarm']}  succeeded  on failure" in line for line in lines)
    assert any(f"never  {ids['never']}  skipped" in line for line in lines)
    for part in (nightly["id"], nightly["id"][-9:], nightly["id"][:33]):
        assert served.ok("workflow", "show", part).partition("\n\n")[2] == drawing


def test_a_workflow_in_other_languages(served: Rota, nightly: dict[str, Any]) -> None:
    assert served.ok("workflow", "show", "nightly", "--mermaid").startswith("flowchart TD\n")
    assert served.ok("workflow", "show", "nightly", "--graphviz").startswith("digraph workflow {\n")
    found = served.json("workflow", "show", "nightly")
    assert [job["task"] for job in found["jobs"]] == ["hello", "clean", "boom", "alarm", "never"]
    assert [job["name"] for job in found["jobs"]] == ["rows", "clean", "boom", "alarm", "never"]
    assert found["jobs"][1]["after"] == [{"id": nightly["jobs"]["rows"], "need": "finish", "result": []}]
    assert found["jobs"][4]["finished_at"].endswith("+00:00")


@pytest.mark.slow
def test_names_can_do_no_harm(rota: Rota) -> None:
    flow = order(rota, [{"name": "[red]x", "command": ["true"]}], "[bold]n")
    assert "[red]x" in rota.ok("workflow", "show", flow["id"])
    code, shown = on_terminal(rota.folder, "workflow", "list")
    assert code == 0
    assert "[bold]n" in shown


def test_of_two_with_a_name_the_latest_is_meant(rota: Rota) -> None:
    first, second = (order(rota, [{"name": "a", "command": ["true"]}], "twin") for _ in range(2))
    assert first["id"] != second["id"]
    assert rota.json("workflow", "show", "twin")["id"] == second["id"]
    assert [one["id"] for one in rota.json("workflow", "list", "--name", "twin")] == [second["id"], first["id"]]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (("show", "zzz"), "no workflow 'zzz'", 1),
        (("show", ""), "no workflow ''", 1),
        (("show", "\udcff"), "a text in UTF-8", 2),
        (("show", "chain", "--mermaid", "--graphviz"), "not allowed with argument --mermaid", 2),
        (("show", "chain", "--mermaid", "--json"), "give --json or --mermaid, not both", 2),
        (("list", "--limit", "0"), "--limit: '0' is not a number", 2),
        (("cancel", "zzz"), "no workflow 'zzz'", 1),
        (("retry", "chain"), "has no job that failed or was cancelled", 1),
        (("retry", "chain", "--from", "zzz"), "that fits 'zzz'", 1),
        (("replay", "chain"), "expected --yes, if you mean it", 2),
        (("replay", "chain", "--yes"), "a workflow whose jobs have ended", 2),
        (("wait", "chain", "--timeout", "soon"), "--timeout: 'soon' is not valid", 2),
        (("wait", "chain", "--timeout", "1ms"), "has not ended: 2 blocked, 1 ready", 124),
    ],
)
@pytest.mark.usefixtures("waiting")
def test_what_is_refused(
    rota: Rota, words: tuple[str, ...], said: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in refused(rota, capsys, "workflow", *words, code=code)


@pytest.mark.parametrize("words", [("list",), ("show", "x"), ("cancel", "x"), ("wait", "x"), ("replay", "x", "--yes")])
def test_no_store_is_made_by_looking(rota: Rota, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert "no store at rota.db" in refused(rota, capsys, "workflow", *words, code=1)
    (rota.folder / "rota.db").touch()
    assert "run `rota migrate`" in refused(rota, capsys, "workflow", *words, code=1)


# -- changing --------------------------------------------------------------------------------------------------------
def test_cancel_ends_all_that_has_not_ended(
    rota: Rota, waiting: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert rota.ok("workflow", "cancel", "chain", "--reason", "too late") == f"{waiting['id']} cancelled: 3 jobs"
    found = rota.json("workflow", "show", "chain")
    assert [(job["state"], job["reason"]) for job in found["jobs"]] == [("cancelled", "too late")] * 3
    assert "had ended before" in refused(rota, capsys, "workflow", "cancel", "chain", code=1)
    code, said = rota.here("--json", "workflow", "cancel", "chain")
    assert (code, json.loads(said)) == (1, {"id": waiting["id"], "done": False, "jobs": 0})


def test_retry_runs_what_failed_and_what_was_skipped(rota: Rota, waiting: dict[str, Any]) -> None:
    rota.ok("workflow", "cancel", "chain")
    said = rota.ok("workflow", "retry", "chain", "--from", waiting["jobs"]["b"][-8:])
    assert said.startswith(f"{waiting['id']} runs again: 2 jobs")
    assert rota.json("workflow", "list")[0]["counts"].keys() >= {"cancelled"}
    assert rota.json("workflow", "retry", "chain", "--from", "a") == {"id": waiting["id"], "done": True, "jobs": 1}


@pytest.mark.slow
def test_a_whole_name_is_meant_though_an_id_ends_like_it(rota: Rota) -> None:
    names = "0123456789abcdef"
    flow = order(rota, [{"name": name, "command": ["true"]} for name in names], "hex")
    rota.ok("workflow", "cancel", "hex")
    for name in names:  # the ids of sixteen jobs end like several of them
        assert rota.json("workflow", "retry", "hex", "--from", name)["jobs"] == 1
        assert rota.job(flow["jobs"][name])["state"] != "cancelled"


@pytest.mark.slow
def test_replay_runs_all_of_it_again(served: Rota) -> None:
    jobs = [{"name": "one", "command": ["true"]}, {"name": "two", "command": ["true"], "after": "one"}]
    flow = order(served, jobs, "again")
    assert served("workflow", "wait", "again").stdout == f"{flow['id']} succeeded: 2 succeeded\n"
    assert served.json("workflow", "replay", flow["id"], "--from", "two", "-y")["jobs"] == 1
    assert served.ok("workflow", "wait", flow["id"])
    assert served.ok("workflow", "replay", flow["id"], "--yes") == f"{flow['id']} runs again: 2 jobs"
    assert served.ok("workflow", "wait", flow["id"])
    assert [served.job(flow["jobs"][name])["replays"] for name in ("one", "two")] == [1, 2]
    code, shown = on_terminal(served.folder, "workflow", "replay", flow["id"], answer="n\n")
    assert code == 1
    assert "what has succeeded too (2 succeeded)" in shown
    assert "nothing was changed" in shown
    code, shown = on_terminal(served.folder, "workflow", "replay", flow["id"], answer="y\n")
    assert code == 0
    assert "runs again: 2 jobs" in shown


def test_from_must_fit_one_job(rota: Rota, capsys: pytest.CaptureFixture[str]) -> None:
    rota.json("submit", "--in", "1h", "--", "true")
    jobs = [{"name": name, "command": ["true"]} for name in ("x", "y")]
    order(rota, jobs, "pair")
    first = rota.json("workflow", "show", "pair")["jobs"][0]["id"]
    assert "what fits one job only" in refused(rota, capsys, "workflow", "retry", "pair", "--from", first[:8])


@pytest.mark.slow
def test_wait_says_how_it_went(served: Rota, nightly: dict[str, Any]) -> None:
    done = served("workflow", "wait", "nightly")
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == f"{nightly['id']} failed: 3 succeeded, 1 failed, 1 skipped\n"
    good = order(served, [{"name": "a", "command": ["true"]}])
    done = served("workflow", "wait", good["id"], "--json", "--timeout", "30s")
    assert (done.returncode, json.loads(done.stdout)["state"]) == (0, "succeeded")


# -- ordering --------------------------------------------------------------------------------------------------------
@pytest.mark.slow
def test_a_workflow_from_standard_input(served: Rota) -> None:
    text = json.dumps(
        {"jobs": [{"name": "b", "command": ["true"], "after": ["a"]}, {"name": "a", "command": ["true"]}]}
    )
    done = served("workflow", "submit", "-", stdin=text)
    assert (done.returncode, done.stderr) == (0, "")
    assert served.here("workflow", "wait", done.stdout.strip())[0] == 0
    bad = served("workflow", "submit", "-", stdin="")
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr.startswith("rota: standard input: is not JSON")


def test_every_option_of_a_job_arrives(rota: Rota) -> None:
    job = {
        "name": "n", "command": ["true"], "cwd": "/", "env": {"A": "b"}, "fatal_exit_codes": [3], "delay": "1h",
        "priority": 0, "queue": "q", "key": "k", "retries": 7, "backoff": "5s", "timeout": 90, "expires": "1d",
        "labels": ["b", "a"], "exclusive": "x", "rate": "9/1m", "limits": {"db": 5, "api": "2/s", "late": None},
        "full": "skip",
    }  # fmt: skip
    flow = order(rota, [job])
    made = rota.job(flow["jobs"]["n"])
    assert (made["task"], made["state"], made["priority"], made["queue"], made["key"]) == (
        "n",
        "scheduled",
        0,
        "q",
        "k",
    )
    assert (made["timeout"], made["retry"]["retries"], made["retry"]["backoff"]) == ("1m30s", 7, "5s")
    assert made["spec"] == {"argv": ["true"], "cwd": "/", "env": {"A": "b"}, "fatal_exit_codes": [3]}
    assert (made["labels"], made["keys"]) == (["a", "b"], ["api", "db", "late", "task:n", "x"])
    assert (made["workflow"], made["workflow_name"]) == (flow["id"], None)
    assert order(rota, [job]) == flow  # known by its key


BAD: list[tuple[Any, str]] = [
    ("no json", "flow.json: is not JSON"),
    ('{"jobs": [', "flow.json: is not JSON (it ends too early)"),
    ('{"jobs": [],}', "flow.json: is not JSON (trailing comma in object (byte 12))"),
    ([], "flow.json: must be an object, not a list; expected a workflow such as"),
    ({}, "flow.json: 'jobs' is missing; expected"),
    ({"jobs": []}, "has 0 jobs; a workflow has 1 to 20,000"),
    ({"jobs": [{"name": "a"}]}, "job 'a': task, command and http: 'none' is not valid; expected one of them"),
    ({"jobs": [{"command": ["ls"]}]}, "flow.json: 'jobs[0].name' is missing; expected"),
    ({"jobs": [{"name": "a", "task": "hello", "command": ["ls"]}]}, "http: 'task and command' is not valid"),
    ({"jobs": [{"name": "a", "comand": ["ls"]}]}, "flow.json: 'jobs[0].comand' is unknown; expected"),
    ({"jobs": [{"name": "a", "command": "ls -l"}]}, "'jobs[0].command' must be a list or null, not a text"),
    ({"jobs": [{"name": "a", "command": []}]}, "job 'a': command: [] is not valid"),
    ({"jobs": [{"name": "", "command": ["ls"]}]}, "task name: '' is not valid"),
    ({"jobs": [{"name": "a\nb", "command": ["ls"]}]}, "task name: 'a\\nb' is not valid"),
    ({"name": "a\nb", "jobs": [{"name": "a", "command": ["ls"]}]}, "workflow name: 'a\\nb' is not valid"),
    ({"jobs": [{"name": "a", "command": ["ls"]}] * 2}, "jobs 1 and 2 have the same name, 'a'"),
    ({"jobs": [{"name": "a", "task": "helo"}]}, "job 'a': unknown task 'helo'; did you mean hello?"),
    ({"jobs": [{"name": "a", "task": "hello"}]}, "job 'a': arguments of task 'hello': "),
    ({"jobs": [{"name": "a", "task": "hello", "args": {"name": 7}}]}, "'name' must be str"),
    ({"jobs": [{"name": "a", "task": "boom", "cwd": "/"}]}, "cwd: '/' is not valid; expected it at a command"),
    ({"jobs": [{"name": "a", "command": ["ls"], "args": {}}]}, "a command has its arguments in its list"),
    ({"jobs": [{"name": "a", "command": ["ls"], "after": ["b"]}]}, "job 'a': after: 'b' is not valid; expected the"),
    ({"jobs": [{"name": "abc", "command": ["ls"], "after": "abd"}]}, "did you mean 'abc'?"),
    ({"jobs": [{"name": "a", "command": ["ls"], "after": ["a"]}]}, "job 'a': after: 'a' is not valid; expected other"),
    ({"jobs": [{"name": "a", "command": ["ls"], "on": "finish"}]}, "on: 'finish' is not valid; expected it together"),
    ({"jobs": [{"name": "a", "command": ["ls"], "timeout": "soon"}]}, "job 'a': timeout: 'soon' is not valid"),
    ({"jobs": [{"name": "a", "command": ["ls"], "retries": -1}]}, "job 'a': retries: -1 is not valid"),
    ({"jobs": [{"name": "a", "command": ["ls"], "labels": "a b"}]}, "job 'a': label: 'a b' is not valid"),
    ({"jobs": [{"name": "a", "command": ["ls"], "exclusive": "{b}"}]}, "job 'a': field {b} of the key"),
    ({"jobs": [{"name": "a", "command": ["ls"], "rate": "x"}]}, "job 'a': rate: 'x' is not valid"),
    ({"jobs": [{"name": "a", "command": ["ls"], "limits": {"db": 0}}]}, "job 'a': limit of key 'db': 0 is not valid"),
    ({"jobs": [{"name": "a", "command": ["ls"], "full": "skip"}]}, "full: 'skip' is not valid; expected it together"),
    ({"jobs": [{"name": "a", "command": ["ls"], "drain": "5s"}]}, "drain: '5s' is not valid; expected it together"),
    (
        {"jobs": [{"name": name, "command": ["ls"], "key": "k"} for name in "ab"]},
        "jobs 'a' and 'b' have the same key, 'k'",
    ),
    ({"jobs": [{"name": "", "command": ["ls"]}]}, "job 1: task name: '' is not valid"),
    (
        {"jobs": [{"name": "a", "command": ["ls"]}, {"name": "b", "task": "x", "after": {"a": "any"}, "on": "finish"}]},
        "job 'b': on: 'finish' is not valid; expected it beside a list: in a mapping each name has its own",
    ),
    ({"jobs": [{"name": "a", "command": ["ls"], "limits": ["db"]}]}, "limits' must be an object or null, not a list"),
    ({"jobs": [{"name": "a", "command": ["ls"], "limits": {"": 1}}]}, "job 'a': limits: '' is not valid"),
    ({"jobs": [{"name": "a", "command": ["ls"], "full": "x"}]}, "job 'a': full: 'x' is not valid"),
    (
        {"jobs": [{"name": "a", "command": ["ls"]}, {"name": "b", "command": ["ls"], "after": {"a": "never"}}]},
        "job 'b': on: 'never' is not valid; expected one of success, finish, failure",
    ),
    (
        {"jobs": [{"name": n, "command": ["ls"], "after": [p]} for n, p in (("a", "c"), ("b", "a"), ("c", "b"))]},
        "jobs wait for each other in a circle: ",
    ),
]  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("content", "said"), BAD)
def test_a_wrong_file_is_refused_whole(rota: Rota, content: Any, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    (rota.folder / "flow.json").write_text(content if isinstance(content, str) else json.dumps(content))
    done = rota("workflow", "submit", "flow.json", "--app", "shop:app") if "task" in str(content) else None
    err = done.stderr if done else refused(rota, capsys, "workflow", "submit", "flow.json")
    assert said in err
    assert err.count("\n") == 1
    assert not done or (done.returncode, done.stdout) == (2, "")
    assert not list(rota.folder.glob("rota.db*"))


def test_a_circle_is_told_in_full(rota: Rota, capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"{letter}-{'x' * 30}" for letter in "abcd"]
    jobs = [{"name": name, "command": ["ls"], "after": [names[n - 1]]} for n, name in enumerate(names)]
    err = refused(rota, capsys, "workflow", "submit", write(rota, jobs))
    assert all(name in err for name in names)
    assert " -> " in err


def test_a_file_that_is_not_there(rota: Rota, capsys: pytest.CaptureFixture[str]) -> None:
    err = refused(rota, capsys, "workflow", "submit", "missing.json")
    expected = "expected a workflow that can be read (No such file or directory)"
    assert err == f"rota: FILE: 'missing.json' is not valid; {expected}\n"


def test_a_file_without_end(rota: Rota, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workflow_file, "LARGEST_FILE", 1_000)
    assert refused(rota, capsys, "workflow", "submit", "/dev/zero") == "rota: /dev/zero: has more than 1,000 bytes\n"


def test_a_command_gets_no_results(rota: Rota, capsys: pytest.CaptureFixture[str]) -> None:
    assert "unrecognized arguments: --result" in refused(rota, capsys, "run", "--result", "a=1", "--", "true")


def test_more_jobs_than_an_order_takes(rota: Rota, capsys: pytest.CaptureFixture[str]) -> None:
    jobs = [{"name": str(n), "command": ["ls"]} for n in range(20_001)]
    assert "has 20,001 jobs" in refused(rota, capsys, "workflow", "submit", write(rota, jobs))


# -- --after, and job show -------------------------------------------------------------------------------------------
def test_a_job_that_waits_says_for_what(rota: Rota, waiting: dict[str, Any]) -> None:
    a, b = waiting["jobs"]["a"], waiting["jobs"]["b"]
    shown = rota.ok("job", "show", b)
    assert f"waits for  a (…{a[-8:]}) ready" in shown
    assert f"after      a (…{a[-8:]}) ready" in shown
    assert f"workflow   chain ({waiting['id']})" in shown
    job = rota.job(b)
    assert (job["workflow"], job["workflow_name"]) == (waiting["id"], "chain")
    assert job["parents"] == [
        {"id": a, "name": "a", "task": "a", "state": "ready", "need": "success", "edge": "open", "result": []}
    ]
    alone = rota.job(rota.ok("submit", "--", "true"))
    assert (alone["workflow"], alone["workflow_name"], alone["parents"]) == (None, None, [])


def test_of_many_parents_some_are_shown(rota: Rota) -> None:
    jobs: list[dict[str, Any]] = [{"name": f"p{n}", "command": ["true"]} for n in range(25)]
    jobs.append({"name": "last", "command": ["true"], "after": [f"p{n}" for n in range(25)]})
    shown = rota.ok("job", "show", order(rota, jobs)["jobs"]["last"])
    assert "and 22 more" in shown
    assert "and 5 more; see --json" in shown


@pytest.mark.slow
def test_after_takes_short_ids_and_needs(served: Rota) -> None:
    good = served.ok("submit", "--name", "good", "--", "true")
    _, bad = served.here("submit", "--wait", "--retries", "0", "--name", "bad", "--", "false")
    done = served(
        "submit", "--wait", "--after", f"{good[-12:]}", "--after", f"{bad.upper()}:failure", "hello", '{"name": "x"}'
    )
    assert done.returncode == 0, done.stderr
    job = served.job(done.stdout.split()[0])
    assert {(one["id"], one["need"], one["edge"]) for one in job["parents"]} == {
        (good, "success", "met"), (bad, "failure", "met"),
    }  # fmt: skip
    shown = served.ok("job", "show", job["id"])
    assert f"good (…{good[-8:]}) succeeded" in shown
    assert f"bad (…{bad[-8:]}) failed, on failure" in shown
    assert served("run", "--after", good, "--after", bad, "--on", "finish", "--", "echo", "hi").stdout == "hi\n"


@pytest.mark.slow
def test_run_after_a_job_that_failed_is_skipped(served: Rota) -> None:
    _, bad = served.here("submit", "--wait", "--retries", "0", "--name", "bad", "--", "false")
    done = served("run", "--after", bad, "--", "echo", "hi")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"skipped: its parent {bad} (bad) failed" in done.stderr


@pytest.mark.slow
def test_whoever_waits_is_told_what_for(served: Rota) -> None:
    first = served.ok("submit", "--in", "1h", "--name", "first", "--", "true")
    running = served.start("run", "--after", first, "--", "true")
    running.read_until(f"rota: waiting for first (…{first[-8:]}) scheduled")
    served.ok("job", "cancel", first)
    assert running.end() == 1


@pytest.mark.sampled(3)
@pytest.mark.parametrize("verb", ["submit", "run"])
@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (("--after", "zzz"), "no job 'zzz'", 1),
        (("--after", ""), "job: '' is not valid", 2),
        (("--after", ":finish"), "job: '' is not valid", 2),
        (("--after", "zzz:never"), "--after: 'zzz:never' is not valid; expected an id, or one with a need", 2),
        (("--after", "zzz:"), "--after: 'zzz:' is not valid", 2),
        (("--after", "\udcff"), "a text in UTF-8", 2),
        (("--after", "zzz", "--on", "never"), "on: 'never' is not valid; expected one of success, finish", 2),
        (("--on", "finish"), "--on says what --after needs; give --after too", 2),
    ],
)
@pytest.mark.usefixtures("waiting")
def test_a_wrong_after(
    rota: Rota, verb: str, words: tuple[str, ...], said: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    before = len(rota.json("job", "list"))
    assert said in refused(rota, capsys, verb, *words, "--", "true", code=code)
    assert len(rota.json("job", "list")) == before


def test_one_parent_with_two_needs_is_a_contradiction(
    rota: Rota, waiting: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    a = waiting["jobs"]["a"]
    err = refused(rota, capsys, "submit", "--after", f"{a}:finish", "--after", a, "--", "true")
    assert "each parent once, with one need" in err


@pytest.mark.slow
def test_after_makes_no_store(rota: Rota, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no store at rota.db" in refused(rota, capsys, "submit", "--after", "abc", "--", "true", code=1)
    assert not list(rota.folder.glob("rota.db*"))
