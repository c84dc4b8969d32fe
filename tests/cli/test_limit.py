"""`rota limit ...`, `--exclusive`, `--rate`, `--limit`, `--full`: keys, who holds them and who waits."""

from __future__ import annotations

import pytest

from tests.cli.program import Rota, claim, refused


def order(rota: Rota, *words: str) -> str:
    return rota.ok("submit", *words, "--", "true")


def state(rota: Rota, job: str) -> str:
    found: str = rota.job(job)["state"]
    return found


def test_one_at_a_time(rota: Rota) -> None:
    first, second, third = (order(rota, "--exclusive", "user:7") for _ in range(3))
    assert claim(rota) == [first]
    header, row = rota.ok("limit", "list").splitlines()
    assert header.split() == ["KEY", "AT", "ONCE", "RATE", "WAITING", "NEXT", "START", "HOLDERS"]
    assert row.split()[:5] == ["user:7", "as", "jobs", "say", "2"]
    assert f"…{first[-8:]} for 0s" in row
    (info,) = rota.json("limit", "list", "user:7")
    assert ([holder["job"] for holder in info["holders"]], info["waiting"]) == ([first], 2)
    assert {state(rota, job) for job in (second, third)} == {"held"}
    (reason,) = rota.job(second)["held_by"]
    assert reason["text"].startswith(f"key 'user:7' allows 1 at once and is held by {first} on claimer-")
    assert reason["text"].endswith("; 2 wait in line")
    assert f"held by  {reason['text'][:80]}" in rota.ok("job", "show", second)


def test_a_limit_that_a_person_sets_wins(rota: Rota) -> None:
    jobs = [order(rota, "--limit", "db=1") for _ in range(4)]
    assert rota.ok("limit", "set", "db", "--at-once", "3", "--rate", "10/1h") == "db: 3 at once, 10/1h"
    assert claim(rota) == jobs[:3]
    (row,) = rota.ok("limit", "list").splitlines()[1:]
    assert row.split()[:4] == ["db", "3", "10/1h", "1"]
    assert rota.ok("limit", "remove", "db") == "db removed; its jobs have the bounds that they bring along"
    (info,) = rota.json("limit", "list")
    assert (info["concurrency"], info["rate"], len(info["holders"])) == (None, None, 3)


def test_a_rate_and_when_it_goes_on(rota: Rota) -> None:
    jobs = [order(rota, "--rate", "2/1h") for _ in range(3)]
    assert claim(rota) == jobs[:2]
    assert state(rota, jobs[2]) == "held"
    rota.ok("limit", "set", "task:true", "--rate", "2/1h")
    (row,) = rota.ok("limit", "list", "task:true").splitlines()[1:]
    assert "in 59m" in row or "in 60m" in row
    said = rota.ok("job", "explain", jobs[2])
    assert "key 'task:true' allows 2/1h, all used; the next start is in " in said


def test_skip_and_replace(rota: Rota) -> None:
    first = order(rota, "--exclusive", "x")
    claim(rota)
    skipped = order(rota, "--exclusive", "x", "--full", "skip")
    newer = order(rota, "--exclusive", "x", "--full", "replace")
    assert claim(rota) == []
    assert rota.job(skipped)["reason"] == "key x was taken"
    assert (state(rota, skipped), state(rota, newer)) == ("skipped", "held")
    assert rota.job(first)["cancelling"]


def test_many_holders_are_counted(rota: Rota) -> None:
    jobs = [order(rota, "--limit", "db=10") for _ in range(7)]
    claim(rota)
    (row,) = rota.ok("limit", "list").splitlines()[1:]
    assert row.count("…") == 5
    assert row.endswith(" and 2 more")
    assert len(rota.json("limit", "list")[0]["holders"]) == len(jobs)


def test_setting_in_json_and_again(rota: Rota) -> None:
    rota.ok("migrate")
    assert rota.json("limit", "set", "api", "--rate", "60/60s") == {"key": "api", "concurrency": None, "rate": "60/1m"}
    assert rota.json("limit", "set", "api", "--at-once", "2") == {"key": "api", "concurrency": 2, "rate": None}
    assert rota.json("limit", "remove", "api") == {"key": "api", "removed": True}
    assert rota.json("limit", "list") == []


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (["remove", "nope"], "no limit 'nope'", 1),
        (["list", "db", "nope"], "no limit, holder or waiting job of key 'nope'", 1),
        (["set", "db", "--at-once", "100001"], "expected a whole number from 1 to 100,000", 2),
        (["set", "db", "--rate", "1/32d"], "with a window of 10ms to 31d", 2),
        (["set", " db", "--at-once", "2"], "key: ' db' is not valid", 2),
        (["set", "a\x1b", "--at-once", "2"], "key: 'a\\x1b' is not valid", 2),
    ],
)
def test_what_is_refused_changes_nothing(
    rota: Rota, words: list[str], said: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    rota.ok("migrate")
    rota.ok("limit", "set", "db", "--at-once", "1")
    assert said in refused(rota, capsys, "limit", *words, code=code)
    (info,) = rota.json("limit", "list")
    assert (info["key"], info["concurrency"], info["rate"]) == ("db", 1, None)


def test_a_task_brings_its_keys_along_and_options_replace_them(rota: Rota) -> None:
    (rota.folder / "keyed.py").write_text(
        "import rota\napp = rota.App()\n\n"
        '@app.task(labels=["slow"], exclusive="user:{user}", limits={"db": 5}, rate="60/1m", full="skip")\n'
        "def work(user: int) -> None: ...\n"
    )
    words = ("--app", "keyed:app", "work", '{"user": 7}')
    job = rota.json("submit", *words)
    assert (job["labels"], job["keys"]) == (["slow"], ["db", "task:work", "user:7"])
    job = rota.json("submit", "--limit", "api=3", "--exclusive", "all", "--label", "quick", *words)
    assert (job["labels"], job["keys"]) == (["quick"], ["all", "api", "task:work"])


def test_a_flow_is_named_at_the_task_or_the_order_and_shown(rota: Rota) -> None:
    (rota.folder / "flowing.py").write_text(
        'import rota\napp = rota.App()\n\n@app.task(flow="bulk")\ndef work() -> None: ...\n'
    )
    job = rota.json("submit", "--app", "flowing:app", "work")
    assert job["flow"] == "bulk"
    assert "bulk" in rota.ok("job", "show", job["id"])
    assert rota.json("submit", "--flow", "own", "--app", "flowing:app", "work")["flow"] == "own"
    assert rota.json("submit", "--", "true")["flow"] is None
    rota.ok("schedule", "add", "n", "@daily", "--flow", "own", "--", "true")
    assert rota.json("schedule", "show", "n")["job"]["flow"] == "own"
    (rota.folder / "w.json").write_text('{"jobs": [{"name": "a", "command": ["true"], "flow": "own"}]}')
    (made,) = rota.json("workflow", "submit", "w.json")["jobs"].values()
    assert rota.json("job", "show", made)["flow"] == "own"


@pytest.mark.slow
def test_a_flow_that_can_not_be_is_told_in_one_line(rota: Rota) -> None:
    done = rota("submit", "--flow", " x", "--", "true")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "flow: ' x' is not valid; expected 1 to 200 printable characters" in done.stderr
    (rota.folder / "w.json").write_text('{"jobs": [{"name": "a", "command": ["true"], "flow": ""}]}')
    done = rota("workflow", "submit", "w.json")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "w.json: job 'a': flow: '' is not valid" in done.stderr


@pytest.mark.slow
def test_a_whole_run_with_a_key(served: Rota) -> None:
    done = served("run", "--exclusive", "one", "--rate", "100/1m", "--limit", "db=2", "--", "echo", "hi")
    assert (done.returncode, done.stdout) == (0, "hi\n")
    (key, *_) = [info for info in served.json("limit", "list") if info["key"] == "task:echo"]
    assert key["holders"] == []
