"""`rota schedule ...`: rules that make jobs, seen and changed from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.program import LATER, Rota, refused, sql

DATED = """

from datetime import datetime

@app.task(retry=0)
def stamped(at: datetime, times: int = 1) -> str:
    return at.isoformat()
"""


# -- add -------------------------------------------------------------------------------------------------------------
def test_adding_says_what_was_done_and_when_it_fires(kept: Rota, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("schedule", "add", "nightly", LATER, "--tz", "Europe/Berlin")
    same = kept.ok(*words, "--", "echo", "at {fire_time}")
    assert same.startswith("nightly unchanged; next fire ")
    assert " 03:00:00+0" in same
    assert "Z, in " in same
    assert "schedule: 'nightly' is not valid; expected a name that is free, or --replace" in refused(
        kept, capsys, *words, "--", "echo", "other"
    )
    assert kept.json("schedule", "show", "nightly")["job"]["spec"]["argv"] == ["echo", "at {fire_time}"]
    assert kept.ok(*words, "--replace", "--", "echo", "other").startswith("nightly replaced; next fire ")
    assert kept.ok("schedule", "add", "daily", "@daily", "--", "ls").startswith("daily added; next fire ")


def test_every_option_of_a_schedule_arrives(rota: Rota) -> None:
    rota.ok("calendar", "add", "holidays", "--dates", "2027-12-24")
    rota.ok("calendar", "add", "workdays", "--dates", "2028-01-03")
    found = rota.json(
        "schedule", "add", "n", "every 2h from 2027-01-01T00:30:00Z", "--tz", "Asia/Kathmandu", "--gap", "skip",
        "--fold", "both", "--start", "2027-01-01T00:00:00Z", "--end", "2029-01-01T00:00:00Z", "--jitter", "90s",
        "--limit", "7", "--exclude", "holidays", "--only", "workdays", "--overlap", "queue", "--catch-up", "all",
        "--catch-up-window", "1d", "--catch-up-max", "5", "--paused", "--note", "not yet", "--queue", "q",
        "--priority", "1", "--retries", "2", "--backoff", "5s", "--timeout", "1m", "--expires", "1h", "--cwd", "/",
        "--env", "A=b", "--name", "other", "--fatal-exit-codes", "3", "--label", "l", "--exclusive", "x", "--rate",
        "9/1m", "--job-limit", "db=5", "--job-limit", "db=2/s", "--full", "skip", "--flow", "f", "--", "ls", "-l",
    )  # fmt: skip
    assert (found["saved"], found["state"], found["note"], found["paused_by"]) == (
        "added", "paused", "not yet", "local",
    )  # fmt: skip
    names = ("rule", "zone", "gap", "fold", "jitter", "limit", "exclude", "only", "overlap")
    assert [found[name] for name in names] == [
        "every 2h from 2027-01-01T00:30:00+00:00", "Asia/Kathmandu", "skip", "both", "1m30s", 7, ["holidays"],
        ["workdays"], "queue",
    ]  # fmt: skip
    assert (found["start"][:10], found["end"][:10]) == ("2027-01-01", "2029-01-01")
    assert (found["catch_up"], found["catch_up_window"], found["catch_up_max"]) == ("all", "1d", 5)
    assert found["job"] == {
        "task": "other", "kind": "command", "args": {}, "queue": "q", "priority": 1, "timeout": "1m", "expires": "1h",
        "retry": {"retries": 2, "backoff": "5s", "jitter": 0.1, "rules": {}},
        "spec": {"argv": ["ls", "-l"], "cwd": "/", "env": {"A": "b"}, "fatal_exit_codes": [3]},
        "labels": ["l"], "keys": ["db", "task:other", "x"], "alone": None, "flow": "f",
    }  # fmt: skip
    shown = rota.ok("schedule", "show", "n")
    for line in ("catch-up       all, not older than 1d, at most 5", "note           not yet", "environment    A\n"):
        assert line in shown
    assert "db (5 at once, 2/1s, else skipped), task:other (9/1m, else skipped), x (1 at once, else skipped)" in shown


@pytest.mark.parametrize(
    "rule",
    [
        "0 3 * * *", "@daily", "every 1m30s", "every 1h from 2027-01-01T00:00:00+00:00",
        "DTSTART:20270101T090000\nRRULE:FREQ=WEEKLY;BYDAY=MO",
        "at 2090-01-01T09:00:00+00:00, 2091-01-01T09:00:00.500000+00:00",
    ],
)  # fmt: skip
def test_rules_are_shown_as_they_can_be_given_again(rota: Rota, rule: str) -> None:
    found = rota.json("schedule", "add", "n", rule, "--", "ls")
    assert found["rule"] == rule
    assert rota.json("schedule", "add", "n", found["rule"], "--", "ls")["saved"] == "unchanged"


def test_an_rrule_without_beginning_counts_from_when_it_was_first_given(rota: Rota) -> None:
    words = ("schedule", "add", "n", "FREQ=DAILY;INTERVAL=2", "--", "ls")
    sql_begin = '"begin":"2020-02-02T09:00:00"'
    begin = rota.json(*words)["rule"]
    old = f"{begin[8:12]}-{begin[12:14]}-{begin[14:19]}:{begin[19:21]}:{begin[21:23]}"
    sql(rota, "UPDATE schedules SET timing = replace(timing, ?, ?)", f'"begin":"{old}"', sql_begin)
    again = rota.json(*words)
    assert (again["saved"], again["rule"][:23]) == ("unchanged", "DTSTART:20200202T090000")
    changed = rota.json(*words[:4], "--replace", "--tz", "Asia/Tokyo", "--", "ls")
    assert (changed["saved"], changed["rule"]) == ("replaced", again["rule"])
    other = rota.json(*words[:3], "FREQ=DAILY;INTERVAL=3", "--replace", "--", "ls")
    assert "20200202" not in other["rule"]


def test_times_are_filled_in_before_arguments_are_checked(rota: Rota, capsys: pytest.CaptureFixture[str]) -> None:
    (rota.folder / "dated.py").write_text((rota.folder / "shop.py").read_text() + DATED)
    words = ("schedule", "add", "n", "@daily", "--app", "dated:app", "stamped")
    wrong = refused(rota, capsys, *words, '{"at": "{fire_time}", "times": "{fire_time}"}')
    assert "arguments of task 'stamped': 'times' must be int, not" in wrong
    assert "arguments of task 'stamped'" in refused(rota, capsys, *words, '{"at": "{fire}"}')
    assert not list(rota.folder.glob("rota.db*"))
    found = rota.json(*words, '{"at": "{fire_time}"}')
    assert found["job"]["args"] == {"at": "{fire_time}"}  # still open


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["n", ""], "rule: '' is not valid; expected a cron expression"),
        (["n", "x"], "cron: 'x' is not valid; expected five fields"),
        (["n", "61 * * * *"], "cron field 1 (minute): '61' is not valid"),
        (["n", "0 0 30 feb *"], "cron field 3 (day of month): '30' is not valid; expected a day that exists"),
        (["n", "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"], "there is no such date"),
        (["n", "FREQ=OFTEN"], "rrule FREQ: 'OFTEN' is not valid"),
        (["n", "DTSTART:20270101T000000\nRRULE:FREQ=SECONDLY;INTERVAL=60;BYSECOND=1"], "never fires, or so rarely"),
        (["n", "30 2 * 3 SUNL", "--tz", "Europe/Berlin", "--gap", "skip"], "expected a rule that fires more often"),
        (["n", "DTSTART;TZID=Asia/Tokyo:20270101T000000 RRULE:FREQ=DAILY", "--tz", "UTC"], "tz: 'UTC' is not valid"),
        (["n", "0 0 12 * * ? 2027"], "expected five fields, or six with seconds first; for years use start and end"),
        (["n", "CRON_TZ=Asia/Tokyo 0 3 * * *"], "the time zone is given apart, as tz or --tz"),
        (["n", "0~30 3 * * *"], "expected H or H(0-29) instead of ~"),
        (["n", "*/90 * * * *"], "expected a step from 1 to 60; write 'every 90m' for longer periods"),
        (["n", "0 0 L/2 * *"], "expected a step after *, a number or a range only"),
        (["n", "@every soon"], "every: 'soon' is not valid"),
        (["n", "every 1ms"], "every: '1ms' is not valid"),
        (["n", "every 1h from noon"], "anchor: 'noon' is not valid"),
        (["n", "at 2090-01-01T00:00:00"], "the offset is missing"),
        (["n", "\x1b[31m"], "cron: '\\x1b[31m' is not valid"),
        (["n", "\udcff"], "cron: '\\udcff' is not valid"),
        (["n", LATER, "--tz", "Mars/Base"], "time zone: 'Mars/Base' is not valid"),
        (["n", LATER, "--tz", "../../etc/passwd"], "time zone: '../../etc/passwd' is not valid"),
        (["n", LATER, "--gap", "x"], "gap: 'x' is not valid; expected one of skip, shift"),
        (["n", LATER, "--fold", "x"], "fold: 'x' is not valid"),
        (["n", LATER, "--start", "x"], "start: 'x' is not valid; expected a time in ISO 8601"),
        (
            ["n", LATER, "--start", "2030-01-01T00:00:00Z", "--end", "2029-01-01T00:00:00Z"],
            "end: '2029-01-01T00:00:00.000000+00:00' is not valid; expected a time after the start",
        ),
        (["n", LATER, "--jitter", "x"], "jitter: 'x' is not valid"),
        (["n", LATER, "--exclude", ","], "exclude: ',' is not valid; expected names of calendars"),
        (["n", LATER, "--overlap", "x"], "overlap: 'x' is not valid; expected one of allow, skip, queue, replace"),
        (["n", LATER, "--catch-up", "x"], "catch up: 'x' is not valid"),
        (["n", LATER, "--catch-up-max", "20000"], "catch-up maximum: 20000 is not valid"),
        (["n", LATER, "--queue", "a b"], "queue: 'a b' is not valid"),
        (["n", LATER, "--job-limit", "db=x"], "--job-limit: 'db=x' is not valid; expected KEY=5"),
        (["n", LATER, "--exclusive", "{a}"], "field {a} of the key"),
        (["n", LATER, "--label", "a b"], "label: 'a b' is not valid"),
        (["n", LATER, "--paused", "--note", "\udcff"], "--note: '\\udcff' is not valid; expected a text in UTF-8"),
        (["", LATER], "schedule name: '' is not valid"),
        ([" n", LATER], "schedule name: ' n' is not valid"),
        (["a\nb", LATER], "schedule name: 'a\\nb' is not valid"),
        (["\udcff", LATER], "schedule name: '\\udcff' is not valid"),
        (["x" * 300, LATER], "expected a name of up to 200 printable characters"),
    ],
)
def test_a_bad_schedule_writes_nothing(
    rota: Rota, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in refused(rota, capsys, "schedule", "add", *words, "--", "ls")
    assert said in refused(rota, capsys, "--json", "schedule", "add", *words, "--", "ls")
    assert not list(rota.folder.glob("rota.db*"))


def test_what_a_store_knows_better(kept: Rota, capsys: pytest.CaptureFixture[str]) -> None:
    add = ("schedule", "add", "n", LATER)
    assert "calendar: 'none' is not valid" in refused(kept, capsys, *add, "--exclude", "none", "--", "ls")
    assert "unknown task 'hello'; no node has registered any" in refused(kept, capsys, *add, "hello")
    past = refused(kept, capsys, "schedule", "add", "n", "at 2020-01-01T00:00:00Z", "--", "ls")
    assert "expected one that fires at least once after" in past
    assert len(kept.json("schedule", "list")) == 1


@pytest.mark.parametrize("verb", ["list", "show n", "history n", "next n", "pause n", "resume n", "fire n", "remove n"])
def test_other_verbs_make_no_store(rota: Rota, verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no store at rota.db" in refused(rota, capsys, "schedule", *verb.split(), code=1)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("verb", ["show", "history", "next", "pause", "resume", "fire", "remove"])
@pytest.mark.parametrize(("name", "code", "said"), [
    ("none", 1, "no schedule 'none'"), ("", 1, "no schedule ''"), ("a\x1b[31m", 1, "no schedule 'a\\x1b[31m'"),
    ("' OR 1=1 --", 1, "no schedule"), ("\udcff", 2, "NAME: '\\udcff' is not valid; expected a text in UTF-8"),
])  # fmt: skip
def test_names_that_nobody_has(
    kept: Rota, verb: str, name: str, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in refused(kept, capsys, "schedule", verb, name, code=code)


# -- list, show ------------------------------------------------------------------------------------------------------
def test_a_list_shows_how_each_stands(kept: Rota) -> None:
    kept.ok("schedule", "add", "over", "every 1h", "--limit", "3", "--", "ls")
    kept.ok("schedule", "add", "asleep", "every 1h", "--paused", "--", "ls")
    kept.ok("schedule", "add", "torn", "every 1h", "--", "ls")
    kept.ok("schedule", "add", "set-aside", "every 1h", "--", "ls")
    sql(kept, "UPDATE schedules SET fired = 3, last_fire = 1800000000123456, app = 'billing' WHERE name = 'over'")
    sql(kept, "UPDATE schedules SET timing = '{' WHERE name = 'torn'")
    sql(kept, "UPDATE schedules SET broken = 'no zone \x1b', next_at = NULL WHERE name = 'set-aside'")
    lines = [line.split() for line in kept.ok("schedule", "list").splitlines()]
    assert lines[0] == ["NAME", "RULE", "ZONE", "NEXT", "LAST", "STATE", "TASK"]
    states = {line[0]: line[-2] for line in lines[1:]}
    assert states == {
        "asleep": "paused", "nightly": "active", "over": "ended", "set-aside": "broken", "torn": "broken",
    }  # fmt: skip
    assert next(line for line in lines if line[0] == "over")[-4:] == ["2027-01-15", "08:00:00+00:00", "ended", "ls"]
    found = {one["name"]: one for one in kept.json("schedule", "list")}
    assert {name: one["state"] for name, one in found.items()} == states
    assert [found[name]["next_fire"] is None for name in sorted(found)] == [True, False, True, True, True]
    assert found["torn"]["broken"].startswith("schedule: '{' is not valid")
    assert [one["name"] for one in kept.json("schedule", "list", "--app-name", "billing")] == ["over"]
    assert kept.json("schedule", "list", "--app-name", "none") == []
    for name in ("torn", "set-aside"):
        shown = kept.ok("schedule", "show", name)
        assert "\x1b" not in shown
        assert "broken  " in shown
    assert "declared by    app billing" in kept.ok("schedule", "show", "over")


def test_one_whose_rule_is_refused_shows_what_it_is_made_of(kept: Rota) -> None:
    """Enough to write it anew."""
    kept.ok("schedule", "add", "bad", "0-29/4 * * * *", "--tz", "Europe/Berlin", "--", "ls", "-l")
    sql(kept, "UPDATE schedules SET timing = replace(timing, '0-29/4 ', '0-29/40 ') WHERE name = 'bad'")
    shown = kept.ok("schedule", "show", "bad")
    for part in ("broken ", "rule     0-29/40 * * * *\n", "zone     Europe/Berlin\n", "ls -l"):
        assert part in shown
    found = kept.json("schedule", "show", "bad")
    assert (found["state"], found["rule"], found["zone"]) == ("broken", "0-29/40 * * * *", "Europe/Berlin")
    assert found["job"]["spec"]["argv"] == ["ls", "-l"]
    row = next(line for line in kept.ok("schedule", "list").splitlines() if line.startswith("bad "))
    assert row.split() == ["bad", "0-29/40", "*", "*", "*", "*", "Europe/Berlin", "broken", "ls"]
    rules = {
        '{"kind":"rrule","text":"FREQ=NO","begin":"2027-01-01T09:00:00"}': "DTSTART:20270101T090000\nRRULE:FREQ=NO",
        '{"kind":"every","period":1000}': "every 1ms",
        '{"kind":"moon"}': '{"kind":"moon"}',
    }
    for rule, text in rules.items():
        sql(kept, "UPDATE schedules SET timing = json_set(timing, '$.rule', json(?)) WHERE name = 'bad'", rule)
        assert kept.json("schedule", "show", "bad")["rule"] == text
        kept.ok("schedule", "show", "bad")
    for timing in ("{", "[" * 100_000, '{"rule":' * 100_000):
        sql(kept, "UPDATE schedules SET timing = ? WHERE name = 'bad'", timing)
        assert kept.json("schedule", "show", "bad")["job"]["task"] == "ls"
    sql(kept, "UPDATE schedules SET work = '{' WHERE name = 'bad'")
    assert kept.json("schedule", "show", "bad")["job"] is None


def test_a_list_is_as_long_as_there_are_schedules(kept: Rota) -> None:
    columns = [row[1] for row in sql(kept, "PRAGMA table_info(schedules)")]
    values = ", ".join({"name": "'n' || value", "revision": "value"}.get(column, column) for column in columns)
    numbers = json.dumps(list(range(1200)))
    sql(kept, f"INSERT INTO schedules ({', '.join(columns)}) SELECT {values} FROM schedules, json_each(?)", numbers)
    assert len(kept.json("schedule", "list")) == 1201


def test_all_there_is_to_see(kept: Rota) -> None:
    shown = kept.ok("schedule", "show", "nightly")
    assert "command        echo 'at {fire_time}'" in shown
    assert len([line for line in shown.splitlines() if " 03:00:00+0" in line]) == 5
    found = kept.json("schedule", "show", "nightly")
    assert len(found["next"]) == 5
    assert found["next"][0]["fire_time"] == found["next_fire"]
    assert found["history"] == []


# -- next ------------------------------------------------------------------------------------------------------------
def test_next_fires_in_the_zone_and_in_utc(kept: Rota) -> None:
    lines = kept.ok("schedule", "next", "nightly", "-n", "20").splitlines()
    assert len(lines) == 21
    assert lines[0].split() == ["Europe/Berlin", "UTC", "IN"]
    assert all("03:00:00+0" in line and (":00:00Z" in line) for line in lines[1:])
    assert len(kept.json("schedule", "next", "nightly")) == 10


def test_a_rule_can_be_tried_out_without_a_store(rota: Rota) -> None:
    words = ("--start", "2027-03-27T00:00:00Z", "--end", "2027-03-29T23:00:00Z", "--tz", "Europe/Berlin")
    found = rota.json("schedule", "next", "--rule", "30 2 * * *", *words)
    assert [one["local"] for one in found] == [
        "2027-03-27T02:30:00+01:00", "2027-03-28T03:00:00+02:00", "2027-03-29T02:30:00+02:00",
    ]  # fmt: skip
    found = rota.json("schedule", "next", "--rule", "30 2 * * *", *words, "--gap", "skip")
    assert [one["local"][8:10] for one in found] == ["27", "29"]
    assert not list(rota.folder.glob("rota.db*"))


def test_the_name_decides_what_h_is(rota: Rota) -> None:
    fires = [rota.json("schedule", "next", name, "--rule", "H H * * *", "-n", "1") for name in ("a", "b", "a")]
    assert fires[0] == fires[2] != fires[1]


def test_fewer_fires_because_it_ends(kept: Rota, capsys: pytest.CaptureFixture[str]) -> None:
    kept.ok("schedule", "add", "twice", "every 1h", "--limit", "2", "--", "ls")
    capsys.readouterr()
    assert len(kept.ok("schedule", "next", "twice").splitlines()) == 3
    assert capsys.readouterr().err == "rota: no more than 2: then it ends\n"
    assert kept.json("schedule", "next", "--rule", "at 2020-01-01T00:00:00Z") == []
    assert capsys.readouterr().err == "rota: there are no fires to come: it has ended\n"


def test_a_rule_may_name_calendars(kept: Rota, capsys: pytest.CaptureFixture[str]) -> None:
    kept.ok("calendar", "add", "days", "--dates", "2090-01-01")
    found = kept.json("schedule", "next", "--rule", "@daily", "--only", "days")
    assert [one["fire_time"][:10] for one in found] == ["2090-01-01"]
    assert "calendar: 'x' is not valid" in refused(kept, capsys, "schedule", "next", "--rule", "@daily", "--only", "x")


# -- pause, resume, remove -------------------------------------------------------------------------------------------
def test_pausing_and_resuming(kept: Rota, capsys: pytest.CaptureFixture[str]) -> None:
    assert kept.ok("schedule", "pause", "nightly", "--note", "broken \x1b[31mdisk") == "nightly paused"
    assert kept.ok("schedule", "pause", "nightly") == "nightly was paused before"
    shown = kept.ok("schedule", "show", "nightly")
    assert "note           broken \\x1b[31mdisk" in shown
    assert " ago) by local" in shown
    assert "all skipped while it is paused" in shown
    capsys.readouterr()
    kept.ok("schedule", "next", "nightly")
    assert "schedule 'nightly' is paused" in capsys.readouterr().err
    assert kept.ok("schedule", "resume", "nightly").startswith("nightly resumed; next fire ")
    assert kept.ok("schedule", "resume", "nightly").startswith("nightly was not paused; next fire ")


def test_several_at_once_and_one_that_is_not_there(kept: Rota, capsys: pytest.CaptureFixture[str]) -> None:
    kept.ok("schedule", "add", "other", LATER, "--", "ls")
    capsys.readouterr()
    assert kept.here("schedule", "pause", "none", "other", "nightly") == (1, "other paused\nnightly paused")
    assert capsys.readouterr().err == "rota: no schedule 'none'\n"
    code, said = kept.here("--json", "schedule", "remove", "other", "none")
    assert code == 1
    assert json.loads(said) == [
        {"name": "other", "done": False, "answer": "schedule 'other' was left alone: a name beside it is unknown"},
        {"name": "none", "done": False, "answer": "no schedule 'none'"},
    ]
    assert not capsys.readouterr().err
    assert [one["name"] for one in kept.json("schedule", "list")] == ["nightly", "other"]
    assert kept.ok("schedule", "remove", "other", "nightly") == "other removed\nnightly removed"


def test_removing_what_an_app_declares_is_not_for_good(kept: Rota, capsys: pytest.CaptureFixture[str]) -> None:
    sql(kept, "UPDATE schedules SET app = 'billing'")
    taken = refused(kept, capsys, "schedule", "add", "nightly", LATER, "--replace", "--", "ls")
    assert "app 'billing' declares it" in taken
    assert kept.ok("schedule", "remove", "nightly") == "nightly removed"
    said = capsys.readouterr().err
    assert said == "rota: app 'billing' declares schedule 'nightly': it comes back when a node of that app starts\n"


def test_a_broken_one_that_was_mended_goes_on(kept: Rota, capsys: pytest.CaptureFixture[str]) -> None:
    sql(kept, "UPDATE schedules SET broken = 'no such zone here', next_at = NULL")
    assert "one that is not broken: no such zone here" in refused(kept, capsys, "schedule", "next", "nightly")
    assert kept.ok("schedule", "resume", "nightly").startswith("nightly resumed; ")
    assert kept.json("schedule", "show", "nightly")["state"] == "active"
    sql(kept, "UPDATE schedules SET broken = 'why', next_at = NULL, timing = '{}'")
    assert "is not valid" in refused(kept, capsys, "schedule", "resume", "nightly", code=1)


def test_the_folder_is_left_as_it_was(rota: Rota) -> None:
    """What only looks at rules writes nothing, not even a journal."""
    rota.ok("schedule", "next", "--rule", "@daily")
    assert [path.name for path in Path(rota.folder).iterdir()] == ["shop.py"]
