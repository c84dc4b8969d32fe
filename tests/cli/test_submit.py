"""`rota submit`: orders, and orders that are refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.program import Rota

FIELDS = {
    "id", "task", "queue", "priority", "state", "run_at", "created_at", "started_at", "finished_at", "attempts",
    "result", "error",
}  # fmt: skip


def result(served: Rota, *words: str, stdin: str | None = None) -> Any:
    done = served("submit", "--wait", *words, stdin=stdin)
    return served.job(done.stdout.splitlines()[0])["result"]


def test_functions_get_their_arguments_from_json(served: Rota) -> None:
    assert result(served, "hello", '{"name": "you", "times": 2}') == "hello you hello you"


@pytest.mark.slow
def test_json_may_come_from_a_file_or_from_stdin(served: Rota) -> None:
    (served.folder / "order.json").write_text('{"name": "file"}')
    assert result(served, "hello", "@order.json") == "hello file"
    assert result(served, "hello", "-", stdin='{"name": "pipe"}') == "hello pipe"


def test_options_may_stand_anywhere(served: Rota) -> None:
    job_id = served.ok("submit", "far", "--queue", "mine", '{"anything": 1}', "--json", "--store", "sqlite:///rota.db")
    assert '"queue": "mine"' in job_id


def test_a_task_brings_its_own_options_and_some_can_be_changed(served: Rota) -> None:
    job = served.json("submit", "far", "--backoff", "2s")
    assert (job["queue"], job["priority"]) == ("elsewhere", 2)
    assert job["retry"] == {"retries": 4, "backoff": "2s", "jitter": 0.1, "rules": {}}
    assert served.json("submit", "boom", "--in", "1h")["timeout"] == "1m"


def test_json_shows_the_job(served: Rota) -> None:
    job = served.json("submit", "--queue", "nowhere", "--", "ls", "-l")
    assert job.keys() >= FIELDS
    assert (job["task"], job["state"], job["attempts"], job["spec"]["argv"]) == ("ls", "ready", [], ["ls", "-l"])
    assert job["spec"]["cwd"] == str(served.folder)


def test_every_option_of_a_command_arrives(served: Rota) -> None:
    job = served.json(
        "submit", "--in", "1h", "--priority", "0", "--queue", "q", "--retries", "7", "--backoff", "linear 5s..1m",
        "--timeout", "90s", "--expires", "1d", "--key", "k1", "--cwd", "/", "--env", "SECRET=s3", "--name", "n",
        "--fatal-exit-codes", "4,3", "--", "true",
    )  # fmt: skip
    assert (job["state"], job["priority"], job["queue"], job["key"]) == ("scheduled", 0, "q", "k1")
    assert (job["timeout"], job["task"], job["retry"]["retries"]) == ("1m30s", "n", 7)
    assert job["spec"] == {"argv": ["true"], "cwd": "/", "env": {"SECRET": "s3"}, "fatal_exit_codes": [3, 4]}


def test_what_is_asked_before_it_may_run_arrives(rota: Rota) -> None:
    job = rota.json(
        "submit", "--label", "b", "--label", "a=1", "--exclusive", "user:{name}", "--rate", "60/1m", "--limit", "db=5",
        "--limit", "db=10/s", "--limit", "eu=api=60/1m", "--limit", "late", "--full", "replace", "--app", "shop:app",
        "hello", '{"name": "you"}',
    )  # fmt: skip
    assert (job["labels"], job["keys"]) == (["a=1", "b"], ["db", "eu=api", "late", "task:hello", "user:you"])
    shown = rota.ok("job", "show", job["id"])
    assert "labels     a=1, b\n" in shown
    limits = [line for line in shown.splitlines() if line.startswith("limits")]
    assert limits == [
        "limits     db (5 at once, 10/1s, replaces), eu=api (60/1m, replaces), late (replaces), "
        "task:hello (60/1m, replaces), user:you (1 at once, replaces)"
    ]


def test_a_past_time_means_now(served: Rota) -> None:
    job_id = served.ok("submit", "--at", "2001-01-01T00:00:00+00:00", "--wait", "--", "true")
    job = served.job(job_id)
    assert job["state"] == "succeeded"
    assert job["run_at"] == job["created_at"]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (("hello", '{"name": "you\\nthere"}'), "hello you\nthere\n"),
        (("numbers", "{}"), '{"a":[1,2]}\n'),
        (("far", "{}", "--queue", "default"), ""),
    ],
)
def test_wait_prints_the_result(served: Rota, words: tuple[str, ...], printed: str) -> None:
    done = served("submit", "--wait", *words)
    job, _, rest = done.stdout.partition("\n")
    assert (done.returncode, rest) == (0, printed)
    assert served.job(job)["state"] == "succeeded"


@pytest.mark.slow
def test_wait_tells_success_from_failure(served: Rota) -> None:
    done = served("submit", "--wait", "boom", '{"text": "oh \\u001b[31mno"}')
    assert done.returncode == 1
    assert "failed: oh \\x1b[31mno" in done.stderr


def test_the_same_key_gives_the_same_job_and_another_order_a_conflict(served: Rota) -> None:
    first = served.ok("submit", "--key", "once", "--", "echo", "1")
    assert served.ok("submit", "--key", "once", "--", "echo", "1") == first
    done = served("submit", "--key", "once", "--", "echo", "2")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"key 'once' was used before for another order (job {first})" in done.stderr


@pytest.mark.slow
def test_with_app_types_are_checked_before_anything_is_written(rota: Rota) -> None:
    done = rota("submit", "--app", "shop:app", "hello", '{"name": 7}')
    assert done.returncode == 2
    assert "arguments of task 'hello': 'name' must be str, not 7" in done.stderr
    assert not list(rota.folder.glob("rota.db*"))
    assert len(rota("submit", "--app", "shop:app", "hello", '{"name": "x"}').stdout.strip()) == 36
