"""Reads the schedules of a Celery app and of an APScheduler 3 scheduler, as rota would have them.

Both are live objects of a module that was imported here. Stored jobs of APScheduler are pickles and are not read. Where
the two mean something else than rota by the same word, an entry is refused with the reason, or taken with a note.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

import msgspec

_WEEKDAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")  # as APScheduler counts
_BOTH_DAYS = "it asks for a day of the month and a weekday at once; a cron rule fires when either fits"
_DJANGO = "django_celery_beat"


class Foreign(msgspec.Struct):
    """One entry: what rota would keep, or why it can't."""

    name: str
    task: str  # as it is called there
    times: dict[str, Any] = {}  # options of a schedule
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    options: dict[str, Any] = {}  # options of its jobs
    notes: list[str] = []
    paused: bool = False
    why: str = ""  # not empty: it is refused


class _Refused(Exception):
    """Why an entry can't be taken."""


def celery_entries(app: Any) -> tuple[list[Foreign], list[str]]:
    """The entries of `beat_schedule`, and notes about all of them."""
    found = []
    for name, entry in app.conf.beat_schedule.items():
        one = Foreign(str(name), str(entry.get("task", "")))
        try:
            one.times, one.notes = _celery_times(entry.get("schedule"), str(app.timezone))
            one.args, one.kwargs = tuple(entry.get("args") or ()), dict(entry.get("kwargs") or {})
            one.options, more = _celery_options(entry.get("options") or {})
            one.notes = [*one.notes, *more]
        except _Refused as problem:
            one.why = str(problem)
        found.append(one)
    notes = []
    if _DJANGO in str(app.conf.beat_scheduler):
        notes.append("the tables of django-celery-beat are not read; only the beat_schedule of the app is")
    return found, notes


def _celery_times(given: Any, zone: str) -> tuple[dict[str, Any], list[str]]:
    if isinstance(given, timedelta | int | float):
        return {"every": given}, []
    match type(given).__name__:
        case "crontab":
            fields = [
                _celery_field(getattr(given, f"_orig_{name}"))
                for name in ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
            ]
            if fields[2] != "*" and fields[4] != "*":
                raise _Refused(_BOTH_DAYS)
            return {"cron": " ".join(fields), "tz": zone}, []
        case "schedule":
            notes = ["relative=True is left out: rota counts from 1970"] if given.relative else []
            return {"every": given.run_every}, notes
        case "solar":
            raise _Refused("solar: rota has no rules by the sun")
        case kind:
            raise _Refused(f"its schedule is a {kind}; expected crontab, timedelta or a number of seconds")


def _celery_field(value: Any) -> str:
    if isinstance(value, str | int):
        return str(value).replace(" ", "").upper()
    return ",".join(str(one) for one in sorted(value))


def _celery_options(given: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    options: dict[str, Any] = {}
    notes: list[str] = []
    for name, value in given.items():
        if name == "queue":
            options["queue"] = str(getattr(value, "name", value))
        elif name == "expires" and isinstance(value, int | float | timedelta):
            options["expires"] = value
        elif name == "priority":
            notes.append("priority is left out: its direction depends on the broker; rota counts 0 as most urgent")
        else:
            notes.append(f"the option {name} is left out")
    return options, notes


# -- APScheduler -----------------------------------------------------------------------------------------------------
def apscheduler_entries(scheduler: Any) -> tuple[list[Foreign], list[str]]:
    """The jobs of a scheduler that were added in this process, and notes about all of them."""
    jobs, notes = _apscheduler_jobs(scheduler)
    defaults = scheduler._job_defaults
    found = []
    for job in jobs:
        one = Foreign(str(job.id), str(job.func_ref or job.name))
        try:
            one.times, one.notes = _apscheduler_times(job.trigger)
            more, said = _policies(job, defaults)
            one.times |= more
            one.notes = [*one.notes, *said]
            one.args, one.kwargs = tuple(job.args), dict(job.kwargs)
            one.paused = hasattr(job, "next_run_time") and job.next_run_time is None
        except _Refused as problem:
            one.why = str(problem)
        found.append(one)
    return found, notes


def _apscheduler_jobs(scheduler: Any) -> tuple[list[Any], list[str]]:
    notes = [
        f"the job store {alias!r} is not read: its jobs are pickled ({type(store).__name__})"
        for alias, store in scheduler._jobstores.items()
        if type(store).__name__ != "MemoryJobStore"
    ]
    pending = [job for job, _, _ in scheduler._pending_jobs]
    stored = [
        job
        for store in scheduler._jobstores.values()
        if type(store).__name__ == "MemoryJobStore"
        for job in store.get_all_jobs()
    ]
    return [*pending, *stored], notes


def _apscheduler_times(trigger: Any) -> tuple[dict[str, Any], list[str]]:
    bounds = {"start": getattr(trigger, "start_date", None), "end": getattr(trigger, "end_date", None)}
    times: dict[str, Any] = {name: value for name, value in bounds.items() if value is not None}
    notes = []
    if getattr(trigger, "jitter", None):
        times["jitter"] = trigger.jitter
        notes.append("jitter: rota only delays a fire, and never runs it earlier")
    match type(trigger).__name__:
        case "CronTrigger":
            return times | {"cron": _cron(trigger), "tz": str(trigger.timezone)}, notes
        case "IntervalTrigger":
            begin = times.pop("start")
            seconds = f"{trigger.interval.total_seconds():g}"
            return times | {"every": f"{seconds}s from {begin.isoformat()}"}, notes
        case "DateTrigger":
            return {"at": trigger.run_date}, notes
        case kind:
            raise _Refused(f"its trigger is a {kind}; expected cron, interval or date")


def _cron(trigger: Any) -> str:
    fields = {field.name: str(field) for field in trigger.fields}
    for name in ("year", "week"):
        if fields[name] != "*":
            raise _Refused(f"cron: rota has no field for the {name} ({fields[name]})")
    day, weekday = _day(fields["day"]), _weekday(fields["day_of_week"])
    if day != "*" and weekday != "*":
        raise _Refused(_BOTH_DAYS)
    return " ".join((fields["second"], fields["minute"], fields["hour"], day, fields["month"].upper(), weekday))


def _day(text: str) -> str:
    parts = ["L" if part.strip() == "last" else part.strip() for part in text.split(",")]
    if any(re.search(r"[a-z]", part) for part in parts):
        raise _Refused(f"cron: the day {text!r} has no equal form here; write it as a rule such as 'MON#1'")
    return ",".join(parts)


def _weekday(text: str) -> str:
    """APScheduler counts from Monday, cron from Sunday: names are the same for both."""
    if text == "*":
        return text
    if "/" in text:
        raise _Refused(f"cron: steps of weekdays ({text}) begin on Monday there and on Sunday here; name the days")
    return re.sub(r"\d+", lambda found: _WEEKDAYS[int(found[0])], text.replace(" ", "")).upper()


def _policies(job: Any, defaults: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """What a job that was not stored yet does not say comes from the scheduler."""
    grace, coalesce, most = (
        getattr(job, name, defaults.get(name)) for name in ("misfire_grace_time", "coalesce", "max_instances")
    )
    times: dict[str, Any] = {"catch_up": "latest" if coalesce else "all"}
    if grace is not None:
        times["catch_up_window"] = grace
    notes = [] if job.executor == "default" else [f"the executor {job.executor!r} is left out"]
    if most == 1:
        times["overlap"] = "skip"
    else:
        notes.append(f"max_instances={most} is left out: overlapping jobs are allowed; see `rota limit set`")
    return times, notes


def names_of(task: str) -> Iterator[str]:
    """The names that a task may have here: `shop.tasks:send` may be `shop.tasks.send` or `send`."""
    yield task
    yield task.replace(":", ".")
    yield task.replace(":", ".").rpartition(".")[2]
