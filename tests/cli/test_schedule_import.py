"""`rota schedule import crontab`: what is taken, and what is said of the rest."""

from __future__ import annotations

import json
import os
import pwd
from pathlib import Path
from typing import Any

import pytest

from rota.cli.schedule_import import machine_zone
from tests.cli.program import Rota, refused, sql

GOOD = """
# backups
SHELL=/bin/bash
HOME=/tmp
GREETING="hello there"
CRON_TZ=Europe/Berlin
30 3 * * * cd /srv && ./backup.sh --all 100\\%
@hourly echo $GREETING from $(pwd)
"""
BAD = """MAILTO=me@example.org
0 0 30 2 * never
@reboot start
61 * * * * minute
nonsense
0 1 * * * fine
"""
ME = pwd.getpwuid(os.getuid())


def taken(rota: Rota, text: str, *words: str, code: int = 0) -> dict[str, Any]:
    (rota.folder / "crontab").write_text(text)
    ended, said = rota.here("--json", "schedule", "import", "crontab", "crontab", *words)
    assert ended == code, said
    found: dict[str, Any] = json.loads(said)
    return found


def test_each_line_becomes_a_schedule(rota: Rota) -> None:
    found = taken(rota, GOOD)
    assert [(one["line"], one["rule"], one["zone"], one["saved"]) for one in found["taken"]] == [
        (7, "30 3 * * *", "Europe/Berlin", "added"), (8, "@hourly", "Europe/Berlin", "added"),
    ]  # fmt: skip
    assert (found["not_taken"], found["notes"]) == ([], [])
    name = found["taken"][0]["name"]
    assert name.startswith("backup.sh-")
    kept = rota.json("schedule", "show", name)
    assert kept["job"]["spec"] == {
        "argv": ["/bin/bash", "-c", "cd /srv && ./backup.sh --all 100%"], "cwd": "/tmp",
        "env": {"SHELL": "/bin/bash", "HOME": "/tmp", "GREETING": "hello there"},
    }  # fmt: skip
    assert (kept["job"]["task"], kept["job"]["retry"]["retries"], kept["catch_up"]) == ("backup.sh", 0, "none")
    assert (kept["overlap"], kept["state"]) == ("allow", "active")


def test_importing_again_changes_nothing(rota: Rota) -> None:
    taken(rota, GOOD)
    before = rota.json("schedule", "list")
    found = taken(rota, f"# one line more\n{GOOD}")
    assert [(one["line"], one["saved"]) for one in found["taken"]] == [(8, "unchanged"), (9, "unchanged")]
    assert rota.json("schedule", "list") == before
    assert [one["saved"] for one in taken(rota, GOOD, "--queue", "slow")["taken"]] == ["replaced", "replaced"]
    assert {one["job"]["queue"] for one in rota.json("schedule", "list")} == {"slow"}


@pytest.mark.slow
def test_what_was_not_taken_is_said_line_by_line(rota: Rota) -> None:
    (rota.folder / "crontab").write_text(BAD)
    done = rota("schedule", "import", "crontab", "crontab", "--tz", "Asia/Tokyo")
    assert done.returncode == 1
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[0] == ["LINE", "NAME", "RULE", "ZONE", "NEXT", "SAVED"]
    assert lines[1][0] == "6"
    assert lines[1][-4:] == ["Asia/Tokyo", *lines[1][-3:-2], "01:00:00+09:00", "added"]
    said = done.stderr.splitlines()
    assert [line[:13] for line in said] == [f"rota: line {n}:" for n in range(1, 6)]
    assert "0 0 30 2 * never: cron field 3 (day of month): '30' is not valid; expected a day that exists" in said[1]
    assert "init system" in said[2]
    assert [one["line"] for one in taken(rota, BAD, code=1)["not_taken"]] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("text", ["nonsense\n", "@reboot x\n0 0 30 2 * y\n"])
def test_a_file_of_which_nothing_can_be_read(rota: Rota, text: str) -> None:
    assert taken(rota, text, code=2)["taken"] == []
    assert not list(rota.folder.glob("rota.db*"))


def test_a_file_without_entries_is_fine(rota: Rota) -> None:
    (rota.folder / "crontab").write_text("# nothing\nPATH=/bin\n")
    assert rota.ok("schedule", "import", "crontab", "crontab") == "there are no entries in it"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["none"], "FILE: 'none' is not valid; expected a crontab that can be read (No such file or directory)"),
        (["."], "(Is a directory)"),
        (["/dev/zero"], "expected at most 1,000,000 characters"),
        (["shop.py", "--tz", "Mars/Base"], "time zone: 'Mars/Base' is not valid"),
        (["shop.py", "--queue", "a b"], "queue: 'a b' is not valid"),
        (["shop.py", "--retries", "-1"], "retries: -1 is not valid"),
        (["shop.py", "--prefix", "\udcff"], "--prefix: '\\udcff' is not valid"),
    ],
)
def test_bad_words(rota: Rota, words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert said in refused(rota, capsys, "schedule", "import", "crontab", *words)
    assert not list(rota.folder.glob("rota.db*"))


def test_a_dry_run_writes_nothing_and_stdin_will_do(rota: Rota) -> None:
    done = rota("--json", "schedule", "import", "crontab", "-", "--dry-run", "--prefix", "old-", stdin=GOOD)
    found = json.loads(done.stdout)
    assert [one["name"].split("-")[:2] for one in found["taken"]] == [["old", "backup.sh"], ["old", "echo"]]
    assert all(one["next_fire"].endswith("Z") for one in found["taken"])
    assert found["dry_run"]
    assert not list(rota.folder.glob("rota.db*"))


def test_options_of_the_jobs(rota: Rota) -> None:
    words = (
        "--queue",
        "q",
        "--priority",
        "8",
        "--retries",
        "2",
        "--backoff",
        "9s",
        "--timeout",
        "1m",
        "--expires",
        "2m",
    )
    taken(rota, "@daily x\n", *words)
    (kept,) = rota.json("schedule", "list")
    job = kept["job"]
    assert (job["queue"], job["priority"], job["timeout"], job["expires"]) == ("q", 8, "1m", "2m")
    assert (job["retry"]["retries"], job["retry"]["backoff"]) == (2, "9s")
    assert job["spec"]["cwd"] == ME.pw_dir


def test_lines_of_other_users(rota: Rota) -> None:
    text = f"0 1 * * * {ME.pw_name} mine\n0 1 * * * somebody theirs\n"
    found = taken(rota, text, "--user-column", code=1)
    assert [one["command"][2] for one in found["taken"]] == ["mine"]
    (left,) = found["not_taken"]
    assert (left["line"], left["text"]) == (2, "theirs")
    assert "it is for the user somebody" in left["why"]
    assert len(taken(rota, text, "--user-column", "--any-user")["taken"]) == 2
    assert [one["command"][2] for one in taken(rota, text)["taken"]] == [f"{ME.pw_name} mine", "somebody theirs"]


def test_a_folder_cron_d_has_a_user_column(rota: Rota) -> None:
    (rota.folder / "cron.d").mkdir()
    (rota.folder / "cron.d" / "x").write_text(f"0 1 * * * {ME.pw_name} mine\n")
    words = ("schedule", "import", "crontab", "cron.d/x", "--dry-run")
    assert rota.json(*words)["taken"][0]["command"][2] == "mine"
    assert rota.json(*words, "--no-user-column")["taken"][0]["command"][2] == f"{ME.pw_name} mine"


def test_lines_that_are_taken_with_a_word(rota: Rota) -> None:
    found = taken(rota, "@daily echo {fire_time}\n@daily x\n@daily x\n")
    assert [one["line"] for one in found["taken"]] == [1, 2]
    assert found["notes"] == [
        "line 1: {fire_time} in the command becomes the time of each fire",
        "line 3: it says the same as line 2, and is taken once",
    ]
    assert found["not_taken"] == []


def test_a_name_that_an_app_declares_is_not_taken_away(rota: Rota) -> None:
    name = taken(rota, "@daily x\n")["taken"][0]["name"]
    sql(rota, "UPDATE schedules SET app = 'billing'")
    found = taken(rota, "@daily x\n@daily y\n", code=1)
    assert [one["command"][2] for one in found["taken"]] == ["y"]
    assert found["not_taken"][0]["text"] == name
    assert "app 'billing' declares it" in found["not_taken"][0]["why"]


def test_an_imported_command_runs_as_cron_would_run_it(served: Rota) -> None:
    found = taken(served, GOOD)
    name = next(one["name"] for one in found["taken"] if one["name"].startswith("echo-"))
    job = served.ok("schedule", "fire", name, "--wait")
    assert served("job", "logs", job).stdout == "hello there from /tmp\n"


@pytest.mark.parametrize(
    ("environment", "timezone", "link", "expected"),
    [
        ({"TZ": "Asia/Tokyo"}, "Europe/Berlin", None, "Asia/Tokyo"),
        ({"TZ": ":Asia/Tokyo"}, None, None, "Asia/Tokyo"),
        ({"TZ": ""}, "Europe/Berlin", None, "UTC"),
        ({"TZ": "CET-1CEST"}, "Europe/Berlin", None, None),
        ({}, "Europe/Berlin\n", "/usr/share/zoneinfo/Asia/Tokyo", "Europe/Berlin"),
        ({}, None, "/usr/share/zoneinfo/Asia/Tokyo", "Asia/Tokyo"),
        ({}, None, "../usr/share/zoneinfo/posix/Asia/Tokyo", "Asia/Tokyo"),
        ({}, None, "/somewhere/else", None),
        ({}, None, None, None),
        ({}, "Mars/Base", None, None),
    ],
)
def test_the_zone_of_the_machine(
    tmp_path: Path, environment: dict[str, str], timezone: str | None, link: str | None, expected: str | None
) -> None:
    if timezone is not None:
        (tmp_path / "timezone").write_text(timezone)
    if link is not None:
        (tmp_path / "localtime").symlink_to(link)
    assert machine_zone(environment, tmp_path) == expected


@pytest.mark.slow
def test_a_zone_that_can_not_be_told_is_utc_and_said_so(rota: Rota) -> None:
    (rota.folder / "crontab").write_text("@daily x\n")
    done = rota("schedule", "import", "crontab", "crontab", env={"TZ": "CET-1CEST"})
    assert done.returncode == 0
    assert " UTC " in done.stdout
    assert "rota: the time zone of this machine can't be told: the lines are taken as UTC; give --tz" in done.stderr
