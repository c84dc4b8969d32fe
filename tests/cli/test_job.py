"""`rota job ...`: tables and JSON, prefixes, cancel, retry, wait."""

from __future__ import annotations

import json
from datetime import datetime

import pytest

from tests.cli.program import Rota, on_terminal

JOB = {
    "id", "task", "queue", "priority", "state", "run_at", "created_at", "started_at", "finished_at", "attempts",
    "result", "error",
}  # fmt: skip
ATTEMPT = {"number", "node", "started_at", "finished_at", "outcome", "exit_code", "error"}


@pytest.fixture(scope="module")
def failed(served: Rota) -> str:
    """A command that failed at its second attempt, with a name and an environment that are up to no good."""
    done = served(
        "--json", "run", "--retries", "1", "--backoff", "1ms", "--queue", "default", "--env", "TOKEN=s3cret",
        "--name", "bad*[red]name", "--", "sh", "-c", "echo some; echo words >&2; exit 4",
    )  # fmt: skip
    assert done.returncode == 4, done.stderr
    job_id: str = json.loads(done.stdout)["id"]
    return job_id


def test_a_job_in_json(served: Rota, failed: str) -> None:
    job = served.job(failed)
    assert job.keys() >= JOB
    assert [attempt["number"] for attempt in job["attempts"]] == [1, 2]
    assert all(attempt.keys() >= ATTEMPT for attempt in job["attempts"])
    assert {(a["node"], a["outcome"], a["exit_code"]) for a in job["attempts"]} == {("first", "failed", 4)}
    assert job["error"] == job["attempts"][1]["error"] == {"type": "rota.ExitCode", "message": "exit code 4"}
    moments = [job[name] for name in ("created_at", "run_at", "started_at", "finished_at")]
    assert all(datetime.fromisoformat(moment).tzinfo for moment in moments)
    assert job["spec"]["env"] == {"TOKEN": "s3cret"}


def test_the_truth_about_a_job(served: Rota, failed: str) -> None:
    """Without a hot tier it is all the same."""
    assert served.ok("--json", "job", "show", "--fresh", failed) == served.ok("--json", "job", "show", failed)
    assert served("job", "show", "--fresh=yes", failed).returncode == 2


def test_a_job_for_people(served: Rota, failed: str) -> None:
    shown = served.ok("job", "show", failed)
    assert "TOKEN" in shown
    assert "s3cret" not in shown
    assert "command      sh -c 'echo some; echo words >&2; exit 4'" in shown
    assert "exit code 4" in shown
    assert "\x1b" not in shown


def test_a_function_for_people(served: Rota) -> None:
    _, job_id = served.here("submit", "--wait", "boom", '{"text": "\\u001b]0;owned\\u0007"}')
    shown = served.ok("job", "show", job_id)
    assert "\x1b" not in shown
    assert "builtins.ValueError: \\x1b]0;owned\\x07" in shown
    assert "trace of the last error" in shown
    assert "raise ValueError(text)" in shown


def test_all_that_was_said_of_a_command_is_shown(served: Rota) -> None:
    job = served.ok(
        "submit", "--in", "1h", "--stdin", "s3cret", "--memory", "512MB", "--cpu", "90s", "--files", "100",
        "--user", "nobody", "--group", "7", "--env-from", "PATH", "--fatal-exit-codes", "4,3", "--", "true",
    )  # fmt: skip
    said = {" ".join(line.split()) for line in served.ok("job", "show", job).splitlines()}
    assert said >= {
        "input 6 bytes", "may use cpu 1m30s, memory 512MB, files 100", "runs as user nobody, group 7", "inherits PATH",
        "fatal codes 3, 4",
    }  # fmt: skip


def test_the_class_of_an_exception_stands_with_each_attempt(served: Rota) -> None:
    _, job = served.here("submit", "--wait", "--retries", "0", "boom", '{"text": "3"}')
    shown = served.ok("job", "show", job)
    assert shown.count("  ValueError: 3\n") == 1, shown
    assert "so far     1 failure\n" in shown


def test_lists_can_be_narrowed(served: Rota, failed: str) -> None:
    def ids(*words: str) -> list[str]:
        return [job["id"] for job in served.json("job", "list", *words)]

    other = served.ok("submit", "--queue", "later", "--name", "other", "--", "true")
    assert {failed, other} <= set(ids())
    assert failed in ids("--state", "failed,cancelled")
    assert other not in ids("--state", "failed")
    assert ids("--queue", "later") == [other]
    assert ids("--task", "oth*") == [other]
    assert len(ids("--limit", "1")) == 1
    assert ids("--task", "none of them") == []


def test_a_table_in_a_pipe(served: Rota, failed: str) -> None:
    header, row = served.ok("job", "list", "--task", "bad*").splitlines()
    assert header.split() == ["ID", "TASK", "STATE", "QUEUE", "PRI", "TRIES", "WHEN", "TOOK", "REASON"]
    assert row.startswith(f"{failed}  bad*[red]name  failed  default")
    assert header.index("STATE") == row.index("failed")


@pytest.mark.sampled
@pytest.mark.parametrize(("env", "colour"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_a_table_on_a_terminal(served: Rota, failed: str, env: dict[str, str], colour: bool) -> None:
    code, shown = on_terminal(served.folder, "job", "list", "--task", "bad*", env=env)
    assert code == 0
    assert failed in shown
    assert "bad*[red]name" in shown
    assert ("\x1b[31mfailed" in shown) is colour


@pytest.mark.slow
def test_a_table_on_a_narrow_terminal(served: Rota, failed: str) -> None:
    code, shown = on_terminal(served.folder, "job", "list", "--task", "bad*", env={"COLUMNS": "84", "NO_COLOR": "1"})
    header, row = (line.split() for line in shown.replace("\x1b[1m", "").replace("\x1b[0m", "").splitlines())
    assert code == 0
    assert header == ["ID", "TASK", "STATE", "WHEN", "REASON"]
    assert row[:3] == [failed, "bad*[red]name", "failed"]


@pytest.mark.slow
def test_ids_may_be_shortened(served: Rota, failed: str) -> None:
    other = served.ok("submit", "--in", "1h", "--", "true")
    assert served.job(failed[:30])["id"] == failed
    assert served.job(failed[:30].upper())["id"] == failed
    assert served.job(failed[-10:])["id"] == failed
    assert served.job(other[-10:])["id"] == other
    done = served("job", "show", failed[:1])
    assert done.returncode == 2
    assert "an id that fits one job only; it fits 0" in done.stderr
    missing = served("job", "show", "zzz")
    assert (missing.returncode, missing.stderr) == (1, "rota: no job 'zzz'\n")


@pytest.mark.slow
def test_waiting_jobs_are_cancelled_at_once(served: Rota) -> None:
    ids = [served.ok("submit", "--in", "1h", "--", "true") for _ in range(2)]
    assert served.ok("job", "cancel", *ids) == "".join(f"{job} cancelled\n" for job in ids).strip()
    done = served("job", "cancel", ids[0])
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"rota: job {ids[0]} had ended before\n"


def test_running_jobs_are_stopped(served: Rota) -> None:
    running = served.start("run", "--json", "--", "sh", "-c", "echo begun; sleep 60")
    running.read_until("begun")
    (job,) = served.json("job", "list", "--state", "running")
    (answer,) = served.json("job", "cancel", job["id"])
    assert answer == {"id": job["id"], "done": True, "answer": "requested"}
    assert running.end() == 130
    assert json.loads(running.out)["state"] == "cancelled"


@pytest.mark.slow
def test_one_unknown_id_and_nothing_is_done(served: Rota) -> None:
    job = served.ok("submit", "--in", "1h", "--", "true")
    assert served("job", "cancel", job, "zzz").returncode == 1
    assert served.job(job)["state"] == "scheduled"
    served.ok("job", "cancel", job)


@pytest.mark.slow
def test_retry_runs_again_what_failed_and_hurries_what_waits(served: Rota) -> None:
    _, failed = served.here("submit", "--retries", "0", "--wait", "--", "false")
    waiting = served.ok("submit", "--in", "1h", "--", "true")
    assert served.ok("job", "retry", failed, waiting) == f"{failed} runs again\n{waiting} runs again"
    done = served("job", "wait", failed, waiting)
    assert done.returncode == 1
    assert sorted(done.stdout.splitlines()) == sorted([f"{failed} failed", f"{waiting} succeeded"])
    job = served.job(failed)
    assert (job["replays"], [a["number"] for a in job["attempts"]]) == (1, [1, 2])
    refused = served("job", "retry", waiting)
    assert refused.returncode == 1
    assert refused.stderr == f"rota: job {waiting} can't be retried: it is succeeded\n"


@pytest.mark.slow
def test_wait_says_how_it_went(served: Rota) -> None:
    good = served.ok("submit", "--", "true")
    assert served("job", "wait", good).returncode == 0
    never = served.ok("submit", "--in", "1h", "--", "true")
    done = served("job", "wait", good, never, "--timeout", "100ms")
    assert done.returncode == 124
    assert done.stderr == f"rota: job {never} is still scheduled\n"
    assert [job["state"] for job in json.loads(served("--json", "job", "wait", good, good).stdout)] == ["succeeded"]


@pytest.mark.slow
def test_a_reader_that_leaves_early_is_no_error(served: Rota) -> None:
    for _ in range(3):
        running = served.start("job", "list")
        assert running.process.stdout
        running.process.stdout.close()
        running.process.stdout = None
        assert running.end() in (0, 141)
        assert running.err == ""
