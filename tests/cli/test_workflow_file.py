"""`rota workflow submit` and `rota submit --result`: results of jobs as arguments, and jobs that come last."""

from __future__ import annotations

import json
from typing import Any

import apsw
import pytest

from tests.cli.program import Rota, refused

RESULTS: dict[str, Any] = {
    "name": "results",
    "jobs": [
        {"name": "first", "task": "hello", "args": {"name": "you"}},
        {"name": "second", "task": "hello", "results": {"name": "first"}},
        {"name": "alarm", "task": "boom", "after": "second", "on": "trouble"},
    ],
    "on_failure": {"name": "warn", "command": ["echo", "it failed"]},
    "on_success": {"name": "report", "task": "hello", "results": {"name": "second"}, "priority": 2},
}


def submit(rota: Rota, description: dict[str, Any]) -> dict[str, Any]:
    (rota.folder / "flow.json").write_text(json.dumps(description))
    found: dict[str, Any] = rota.json("workflow", "submit", "flow.json")
    return found


def test_a_file_with_results_an_alarm_and_a_report(served: Rota) -> None:
    flow = submit(served, RESULTS)
    code, shown = served.here("workflow", "wait", flow["id"])
    assert (code, shown) == (0, f"{flow['id']} succeeded: 3 succeeded, 2 skipped")
    assert served.job(flow["jobs"]["report"])["result"] == "hello hello hello you"
    second = served.job(flow["jobs"]["second"])
    assert (second["name"], second["args"]) == ("second", {"name": None})
    assert second["parents"][0]["result"] == ["name"]
    text = served.ok("job", "show", flow["jobs"]["second"])
    assert f"first (…{flow['jobs']['first'][-8:]}) succeeded, its result is name" in text
    assert "name       second" in text
    found = served.json("workflow", "show", flow["id"])
    assert (found["state"], found["succeeded"], found["unneeded"]) == ("succeeded", True, 2)
    assert served.json("workflow", "replay", flow["id"], "--from", "report", "--yes")["jobs"] == 1


def test_a_file_whose_jobs_fail_runs_its_alarm(served: Rota) -> None:
    jobs = [
        {"name": "bad", "task": "boom", "retries": 0},
        {"name": "next", "task": "hello", "results": {"name": "bad"}},
    ]
    flow = submit(served, RESULTS | {"jobs": jobs, "on_success": None})
    assert served.here("workflow", "wait", flow["id"])[0] == 1
    assert served.job(flow["jobs"]["warn"])["state"] == "succeeded"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"results": {"name": "nobody"}}, "job 'x': results: 'nobody' is not valid; expected the name of a job"),
        ({"results": {"name": "x"}}, "job 'x': results: 'x' is not valid; expected other jobs; it waits for itself"),
        ({"results": {"name": 7}}, "expected a job for 'name', or a list or an object of jobs"),
        ({"results": {"nobody": "a"}}, "job 'x': arguments of task 'hello': 'name' is missing"),
        ({"results": {"name": "a"}, "args": {"name": "b"}}, "results: 'name' is not valid; expected arguments that"),
        ({"results": {"name": "a"}, "after": {"a": "finish"}}, "need success, or no need: its result is an argument"),
        ({"results": {"name": "a"}, "exclusive": "u:{name}"}, "'name' is the result of a job"),
        ({"results": {"name": "a"}, "task": None, "command": ["ls"]}, "results: ['name'] is not valid; expected none"),
    ],
)
def test_results_of_a_file_that_make_no_sense(
    served: Rota, capsys: pytest.CaptureFixture[str], change: dict[str, Any], said: str
) -> None:
    jobs = [{"name": "a", "command": ["true"]}, {"name": "x", "task": "hello", **change}]
    (served.folder / "wrong.json").write_text(json.dumps({"jobs": jobs}))
    assert said in refused(served, capsys, "workflow", "submit", "wrong.json")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": "w", "command": ["ls"], "after": "first"}, "job 'w': after and on: 'given' is not valid"),
        ({"name": "w", "task": "hello", "results": {"name": "first"}}, "a job that it comes after may have failed"),
        ({"name": "first", "command": ["ls"]}, "jobs 1 and 4 have the same name, 'first'"),
    ],
)
def test_an_alarm_of_a_file_that_makes_no_sense(
    served: Rota, capsys: pytest.CaptureFixture[str], change: dict[str, Any], said: str
) -> None:
    (served.folder / "wrong.json").write_text(json.dumps(RESULTS | {"on_failure": change}))
    assert said in refused(served, capsys, "workflow", "submit", "wrong.json")


def test_a_single_job_takes_results_on_the_command_line(served: Rota, capsys: pytest.CaptureFixture[str]) -> None:
    first = served.json("submit", "hello", '{"name": "you"}')["id"]
    code, shown = served.here("submit", "--wait", "--result", f"name={first[-12:]}", "hello")
    assert code == 0
    assert served.job(shown.split()[0])["result"] == "hello hello you"
    for words, said in (
        (["--result", "name", "hello"], "ARGUMENT=ID"),
        (["--result", f"name={first}", "hello", '{"name": "x"}'], "an argument that is not given yet; name is"),
        (["--result", f"name={first}", "--after", f"{first}:finish", "hello"], "its result is an argument"),
        (["--result", f"name={first}", "--", "ls"], "only functions get results"),
    ):
        assert said in refused(served, capsys, "submit", *words)


HOOKED = """
import rota
app = rota.App()

@app.on("submit.before")
def remember(submission):
    submission.meta["tasks"] = list(submission.tasks)

@app.on("submit.after")
def tell(submission):
    print("ordered", len(submission.jobs))

@app.task
async def seen(ctx: rota.Context) -> object:
    return ctx.meta
"""


@pytest.mark.slow
def test_submit_hooks_of_the_app_see_the_order(rota: Rota) -> None:
    (rota.folder / "hooked.py").write_text(HOOKED)
    jobs = [{"name": "a", "task": "seen", "key": "once"}, {"name": "b", "command": ["true"], "after": "a"}]
    (rota.folder / "flow.json").write_text(json.dumps({"jobs": jobs}))
    told, flow = rota("workflow", "submit", "flow.json", "--app", "hooked:app").stdout.splitlines()
    assert told == "ordered 2"
    with apsw.Connection(str(rota.folder / "rota.db")) as db:
        kept = [str(meta) for (meta,) in db.execute("SELECT DISTINCT meta FROM payloads")]
    assert list(map(json.loads, kept)) == [{"tasks": ["seen", "b"]}]
    assert len(rota.json("workflow", "show", flow)["jobs"]) == 2
