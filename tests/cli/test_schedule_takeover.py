"""`rota schedule import celery-beat` and `apscheduler`: real objects of both, and what becomes of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import Rota

TASKS = """
import rota

app = rota.App(name="moved")


@app.task
def add(x: int, y: int = 0) -> int:
    return x + y


@app.task(queue="mail")
def send(to: str) -> None: ...
"""
BEAT = """
from datetime import timedelta

from celery import Celery
from celery.schedules import crontab, schedule, solar

app = Celery("old")
app.conf.timezone = "Europe/Berlin"
app.conf.beat_schedule = {
    "often": {"task": "old.tasks.add", "schedule": crontab(minute="*/5", hour="3,4", day_of_week="mon-fri"),
              "args": (1,), "kwargs": {"y": 2}},
    "listed": {"task": "add", "schedule": crontab(minute=[0, 30], day_of_month="1"), "args": (1,)},
    "seconds": {"task": "add", "schedule": 30.0, "args": (1, 2), "options": {"queue": "slow", "expires": 60}},
    "delta": {"task": "mailer", "schedule": timedelta(hours=1), "args": ["ann"],
              "options": {"priority": 3, "countdown": 5}},
    "relative": {"task": "add", "schedule": schedule(timedelta(minutes=2), relative=True), "args": (1,)},
    "sunny": {"task": "add", "schedule": solar.__new__(solar), "args": (1,)},  # it needs `ephem`
    "both days": {"task": "add", "schedule": crontab(day_of_month="1", day_of_week="mon"), "args": (1,)},
    "unknown": {"task": "old.tasks.gone", "schedule": 5},
    "many": {"task": "add", "schedule": 5, "args": (1, 2, 3)},
    "wrong": {"task": "add", "schedule": 5, "args": ("one",)},
    "twice": {"task": "add", "schedule": 5, "args": (1,), "kwargs": {"x": 2}},
    "odd": {"task": "add", "schedule": "noon", "args": (1,)},
}
"""
APSCHEDULER = """
from datetime import datetime, timezone

from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.combining import OrTrigger
from apscheduler.triggers.interval import IntervalTrigger

scheduler = BackgroundScheduler(timezone="Europe/Berlin")


def add(x, y=0): ...


scheduler.add_job(add, "cron", day_of_week="0-4", hour=3, args=[1], id="weekdays", jitter=10)
scheduler.add_job(add, "cron", day="last", minute="*/10", second=5, args=[1], id="last day", max_instances=3,
                  coalesce=False, misfire_grace_time=None)
scheduler.add_job(add, "interval", minutes=5, args=[1], kwargs={"y": 2}, id="interval",
                  start_date=datetime(2026, 1, 1, 0, 1, tzinfo=timezone.utc), misfire_grace_time=90)
scheduler.add_job(add, "date", run_date="2090-01-01 10:00:00", args=[1], id="once", executor="other")
scheduler.add_job(add, "date", run_date="2001-01-01 10:00:00", args=[1], id="over")
scheduler.add_job(add, "cron", week=7, args=[1], id="week")
scheduler.add_job(add, "cron", day="2nd fri", args=[1], id="second friday")
scheduler.add_job(add, "cron", day=1, day_of_week="mon", args=[1], id="both days")
scheduler.add_job(add, "cron", day_of_week="*/2", args=[1], id="steps")
scheduler.add_job(add, OrTrigger([IntervalTrigger(minutes=1)]), args=[1], id="either")
scheduler.add_job(add, "interval", hours=1, args=[1], id="asleep", next_run_time=None)
"""


@pytest.fixture
def moved(rota: Rota) -> Rota:
    (rota.folder / "moved_tasks.py").write_text(TASKS)
    (rota.folder / "old_beat.py").write_text(BEAT)
    (rota.folder / "old_jobs.py").write_text(APSCHEDULER)
    return rota


def run(rota: Rota, *words: str, code: int) -> dict[str, Any]:
    """In a process of its own: the modules of each test have the same names."""
    done = rota("--json", "schedule", "import", *words)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.slow
def test_celery_beat(moved: Rota) -> None:
    words = ("celery-beat", "old_beat:app", "--app", "moved_tasks:app", "--map", "mailer=send")
    before = run(moved, *words, "--dry-run", code=1)
    assert not (moved.folder / "rota.db").exists(), "a dry run makes no store"
    after = run(moved, *words, code=1)
    assert [one["name"] for one in before["taken"]] == [one["name"] for one in after["taken"]]
    taken = {one["name"]: one for one in after["taken"]}
    assert {name: (one["task"], one["rule"], one["zone"]) for name, one in taken.items()} == {
        "often": ("add", "*/5 3,4 * * MON-FRI", "Europe/Berlin"),
        "listed": ("add", "0,30 * 1 * *", "Europe/Berlin"),
        "seconds": ("add", "every 30s", "UTC"),
        "delta": ("send", "every 1h", "UTC"),
        "relative": ("add", "every 2m", "UTC"),
    }
    assert {one["saved"] for one in taken.values()} == {"added"}
    assert "priority is left out" in taken["delta"]["notes"][0]
    assert taken["delta"]["notes"][1] == "the option countdown is left out"
    reasons = after["not_taken"]
    assert reasons.keys() == {"sunny", "both days", "unknown", "many", "wrong", "twice", "odd"}
    for name, words_ in {
        "sunny": "by the sun", "both days": "at once", "unknown": "unknown task 'old.tasks.gone'", "many": "at most 2",
        "wrong": "must be integer", "twice": "'x'", "odd": "is a str; expected crontab",
    }.items():  # fmt: skip
        assert words_ in reasons[name], reasons[name]
    shown = moved.json("schedule", "show", "often")
    assert shown["job"]["args"] == {"x": 1, "y": 2}
    seconds = moved.json("schedule", "show", "seconds")
    assert seconds["job"]["queue"] == "slow"
    assert {one["saved"] for one in run(moved, *words, code=1)["taken"]} == {"unchanged"}


def test_apscheduler(moved: Rota) -> None:
    found = run(moved, "apscheduler", "old_jobs:scheduler", "--app", "moved_tasks:app", code=1)
    taken = {one["name"]: one for one in found["taken"]}
    assert {name: (one["rule"], one["zone"]) for name, one in taken.items()} == {
        "weekdays": ("0 0 3 * * MON-FRI", "Europe/Berlin"),
        "last day": ("5 */10 * L * *", "Europe/Berlin"),
        "interval": ("every 5m from 2026-01-01T00:01:00+00:00", "UTC"),
        "once": ("at 2090-01-01T09:00:00+00:00", "UTC"),
        "asleep": (taken["asleep"]["rule"], "UTC"),
    }
    assert "never runs it earlier" in taken["weekdays"]["notes"][0]
    assert "max_instances=3" in taken["last day"]["notes"][0]
    assert "executor 'other'" in taken["once"]["notes"][0]
    weekdays, last = (moved.json("schedule", "show", name) for name in ("weekdays", "last day"))
    assert (weekdays["overlap"], last["overlap"]) == ("skip", "allow")
    assert moved.json("schedule", "show", "asleep")["state"] == "paused"
    reasons = found["not_taken"]
    assert reasons.keys() == {"over", "week", "second friday", "both days", "steps", "either"}
    assert "OrTrigger" in reasons["either"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("celery-beat", "old_beat"), "MODULE:NAME of a Celery app"),
        (("celery-beat", "old_beat:nothing"), "old_beat has no 'nothing'"),
        (("celery-beat", "old_beat:crontab"), "it is a type"),
        (("apscheduler", "old_beat:app"), "it is a Celery"),
        (("apscheduler", "no_such_module:x"), "no module"),
        (("celery-beat", "old_beat:app", "--map", "x"), "OLD=NEW"),
    ],
)
def test_wrong_targets(moved: Rota, words: tuple[str, ...], problem: str) -> None:
    done = moved("schedule", "import", *words, "--dry-run")
    assert done.returncode == 2
    assert problem in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_words_for_people(moved: Rota) -> None:
    done = moved("schedule", "import", "celery-beat", "old_beat:app", "--app", "moved_tasks:app", "--dry-run")
    assert done.returncode == 1
    assert "no (dry run)" in done.stdout
    assert "rota: sunny: not taken: " in done.stderr
    assert not Path(moved.folder / "rota.db").exists()
