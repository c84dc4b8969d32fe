"""What an app makes of the words about a schedule: its times, and the order that each fire is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from rota.errors import InvalidInput
from rota.handles.task import Task
from rota.model.job import Spec
from rota.model.times import Instant
from rota.model.trigger.arguments import fill
from rota.model.trigger.reading import NAMES, read_schedule
from rota.model.trigger.schedule import Timing
from rota.model.trigger.template import Template
from rota.options import Options, read_options, requirements

JOB_OPTIONS = (
    "queue", "priority", "retry", "timeout", "expires", "labels", "exclusive", "rate", "limits", "full", "alone",
    "drain", "drained",
)  # fmt: skip


class ScheduleOrder(msgspec.Struct, frozen=True):
    """About one schedule: what it is called, what it runs, and all that was said besides."""

    name: str
    task: Task
    args: Mapping[str, Any]
    options: Mapping[str, Any]
    module: str | None = None  # that declares it


def split(options: Mapping[str, Any], also: Sequence[str] = ()) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options about the times, and those about the job."""
    for name in options:
        if name not in (*NAMES, *JOB_OPTIONS, *also):
            raise InvalidInput("option", name, f"one of {', '.join((*NAMES[1:], *JOB_OPTIONS, *also))}")
    times = {name: value for name, value in options.items() if name in NAMES}
    return times, {name: value for name, value in options.items() if name not in NAMES}


def of_task(owner: str, words: ScheduleOrder, limit: int, now: Instant) -> tuple[Timing, Template]:
    """`limit`: the largest arguments, in bytes."""
    times, rest = split(words.options)
    schedule = read_schedule(owner, words.name, times, now)
    if not isinstance(words.args, Mapping):
        raise InvalidInput("args", words.args, "a mapping of names to values")
    # Whether they fit shows when the times are filled in; what is kept has them still open.
    words.task.encode(fill(dict(words.args), schedule.zone, now, now), limit)
    spec, body, defaults = words.task.order(words.args, limit)
    return schedule, order(spec, words.task.name, body, read_options(defaults, rest, JOB_OPTIONS))


def of_spec(
    owner: str,
    name: str,
    spec: Spec,
    task: str,
    options: Mapping[str, Any],
    now: Instant,
    also: Sequence[str] = (),
) -> tuple[Timing, Template]:
    """Of a command, or an HTTP call. `also`: options that have been heard already."""
    times, rest = split(options, also)
    timing = read_schedule(owner, name, times, now)
    about_job = {option: value for option, value in rest.items() if option not in also}
    return timing, order(spec, task, "{}", read_options(Options(), about_job, JOB_OPTIONS))


def order(spec: Spec, task: str, body: str, options: Options) -> Template:
    if options.at is not None or options.delay or options.key is not None:
        raise InvalidInput("at, delay and key", "given", "none of them: the schedule says when, and each fire is a job")
    return Template(
        task=task, spec=spec, args=body, queue=options.queue, priority=options.priority, retry=options.retry,
        timeout=options.timeout, expires=options.expires, requirements=requirements(task, body, options),
    )  # fmt: skip
