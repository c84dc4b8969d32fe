"""Schedules as JSON: `{"cron": "0 3 * * *", "tz": "Europe/Berlin", "job": {"task": "report", "args": {"day": 1}}}`.

The fields of the timing have the names of `model/trigger/reading.py`, which reads them; `job` is an order of one job.
"""

from __future__ import annotations

import msgspec

from rota.errors import InvalidInput
from rota.model.option_table import SCHEDULE_NAMES, Span
from rota.model.times import Instant
from rota.model.trigger.reading import NAMES, read_schedule
from rota.model.trigger.schedule import Timing
from rota.model.trigger.template import Template, template_of
from rota.wire_orders.entries import OrderEntry
from rota.wire_orders.jobs import Tasks, read_order, within

WITHOUT_NAME = "preview"


class TimingEntry(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """When a schedule fires: one of the first five says it."""

    rule: str | None = None
    cron: str | None = None
    every: Span | None = None
    rrule: str | None = None
    at: str | list[str] | None = None
    tz: str | None = None
    gap: str | None = None
    fold: str | None = None
    start: str | None = None
    end: str | None = None
    jitter: Span | None = None
    limit: int | None = None
    exclude: str | list[str] | None = None
    only: str | list[str] | None = None
    overlap: str | None = None
    catch_up: str | None = None
    catch_up_window: Span | None = None
    catch_up_max: int | None = None


class ScheduleEntry(TimingEntry, kw_only=True, forbid_unknown_fields=True):
    """A schedule to save. `note`: why a new one begins as paused."""

    job: OrderEntry
    paused: bool = False
    note: str | None = None


def read_timing(entry: TimingEntry, owner: str, name: str, now: Instant) -> Timing:
    return read_schedule(owner, name, {name: getattr(entry, name) for name in NAMES}, now)


def read_template(entry: OrderEntry, limit: int, tasks: Tasks) -> Template:
    """The order that each fire makes. Complaints name it `job`."""
    try:
        ordered = read_order(entry, limit, tasks, SCHEDULE_NAMES)
        return template_of(*ordered)
    except InvalidInput as error:
        raise within("job", error) from None
