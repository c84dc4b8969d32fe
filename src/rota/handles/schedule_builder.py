"""Builds a schedule from its options: its timing, and the template of the order that each fire makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from rota.errors import InvalidInput
from rota.handles.task import Task
from rota.model.job import Spec
from rota.model.option_table import COMMANDS, SCHEDULE_NAMES, names
from rota.model.options import Options, read_options
from rota.model.times import Instant
from rota.model.trigger.arguments import fill
from rota.model.trigger.reading import NAMES, read_schedule
from rota.model.trigger.schedule import Timing
from rota.model.trigger.template import Template, template_of
from rota.orders import HttpCall

if TYPE_CHECKING:
    from rota.app_core import AppCore


class ScheduleOrder(msgspec.Struct, frozen=True):
    """One schedule as its caller gave it: name, task, arguments and options."""

    name: str
    task: Task[..., Any]
    args: Mapping[str, Any]
    options: Mapping[str, Any]
    module: str | None = None  # the module that declares it


def split(options: Mapping[str, Any], also: Sequence[str] = ()) -> tuple[dict[str, Any], dict[str, Any]]:
    """Splits options into those of the timing and those of the job."""
    for name in options:
        if name not in (*NAMES, *SCHEDULE_NAMES, *also):
            raise InvalidInput("option", name, f"one of {', '.join((*NAMES[1:], *SCHEDULE_NAMES, *also))}")
    times = {name: value for name, value in options.items() if name in NAMES}
    return times, {name: value for name, value in options.items() if name not in NAMES}


def build(
    app: AppCore,
    name: str,
    task: Task[..., Any] | HttpCall | Sequence[str],
    args: Mapping[str, Any] | None,
    options: Mapping[str, Any],
    within: Any = None,
) -> tuple[Timing, Template]:
    """The schedule of a task, an HTTP call or a command. `within`: the connection that it will be saved on."""
    limit, now, user = app.settings.max_args, app.clock.now(), app.who.user
    if isinstance(task, Task):
        task._check_connection(within)
        return of_task(user, ScheduleOrder(name, task, args or {}, options), limit, now)
    if args is not None:
        raise InvalidInput("args", args, "none: a command has its arguments in its list, a call in its body")
    if isinstance(task, HttpCall):
        return of_spec(user, name, task.spec, task.task, options, now)
    also = names(COMMANDS)
    about = {part: options[part] for part in also if options.get(part) is not None}
    return of_spec(user, name, *app.command(task, **about), options, now, also)


def of_task(owner: str, words: ScheduleOrder, limit: int, now: Instant) -> tuple[Timing, Template]:
    """`limit`: the largest arguments, in bytes."""
    times, rest = split(words.options)
    schedule = read_schedule(owner, words.name, times, now)
    if not isinstance(words.args, Mapping):
        raise InvalidInput("args", words.args, "a mapping of names to values")
    # Arguments are checked with sample times filled in, and stored with the fields unfilled.
    words.task._encode(fill(dict(words.args), schedule.zone, now, now), limit)
    spec, body, defaults = words.task._order(words.args, limit)
    return schedule, template_of(spec, words.task.name, body, read_options(defaults, rest, SCHEDULE_NAMES))


def of_spec(
    owner: str,
    name: str,
    spec: Spec,
    task: str,
    options: Mapping[str, Any],
    now: Instant,
    also: Sequence[str] = (),
) -> tuple[Timing, Template]:
    """The schedule of a command or an HTTP call. `also`: options that the caller has read already."""
    times, rest = split(options, also)
    timing = read_schedule(owner, name, times, now)
    about_job = {option: value for option, value in rest.items() if option not in also}
    return timing, template_of(spec, task, "{}", read_options(Options(), about_job, SCHEDULE_NAMES))
