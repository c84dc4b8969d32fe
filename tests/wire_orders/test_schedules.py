"""Schedules as JSON: the fields of the timing, and the order that each fire makes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rota.errors import InvalidInput
from rota.model.times import instant
from rota.model.trigger.reading import NAMES, read_schedule
from rota.wire_orders.entries import OrderEntry
from rota.wire_orders.schedules import ScheduleEntry, TimingEntry, read_template, read_timing
from tests.wire_orders.test_jobs import LIMIT, Known

NOW = instant("2027-01-01T00:00:00Z")


def test_the_fields_are_those_that_python_takes() -> None:
    assert TimingEntry.__struct_fields__ == NAMES


def test_a_timing_is_read_like_that_of_python() -> None:
    given = {"cron": "0 3 * * *", "tz": "Europe/Berlin", "jitter": "5s", "overlap": "skip", "catch_up": "all"}
    entry = msgspec.convert(given | {"job": {"command": ["x"]}}, ScheduleEntry)
    assert read_timing(entry, "ann", "nightly", NOW) == read_schedule("ann", "nightly", given, NOW)


def test_a_template_has_the_options_of_its_task() -> None:
    made = read_template(OrderEntry(task="welcome", args={"user_id": 7}), LIMIT, Known())
    assert (made.task, made.args, made.queue, made.retry.retries) == ("welcome", '{"user_id":7}', "mail", 5)


@pytest.mark.parametrize(
    ("order", "what"),
    [
        ({"command": ["x"], "at": "2090-01-01T00:00:00Z"}, "job.at"),
        ({"command": ["x"], "key": "k"}, "job.key"),
        ({"command": ["x"], "after": "a"}, "job.after"),
        ({"task": "welcome", "results": {"user_id": "a"}}, "job.results"),
        ({"task": "nobody"}, "job.task"),
        ({"command": ["x"], "timeout": "soon"}, "job.timeout"),
    ],
)
def test_refusals_name_the_field_of_the_job(order: dict[str, Any], what: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_template(msgspec.convert(order, OrderEntry), LIMIT, Known())
    assert refused.value.what == what
