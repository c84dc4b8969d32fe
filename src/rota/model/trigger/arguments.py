"""Fills in `{fire_time}` and `{scheduled_for}` in the arguments of a fire."""

from __future__ import annotations

from typing import Any

from rota.model.times import SECOND, Instant
from rota.model.trigger.zones import zone

FIRE_TIME = "{fire_time}"
SCHEDULED_FOR = "{scheduled_for}"


def fill(value: Any, zone_name: str, fire_time: Instant, scheduled_for: Instant) -> Any:
    """A copy of a JSON value with the times of the fire in it, as ISO 8601 with the offset of the schedule's zone.

    `fire_time` is the instant the rule names, `scheduled_for` the one it runs at (with jitter, or late in a backfill).
    Other braces are left alone, and so are the keys of objects.
    """
    return _filled(
        value, {FIRE_TIME: local_iso(fire_time, zone_name), SCHEDULED_FOR: local_iso(scheduled_for, zone_name)}
    )


def local_iso(moment: Instant, zone_name: str) -> str:
    """`2027-01-01T09:00:00+01:00`; with microseconds only where there are any."""
    return zone(zone_name).local(moment).isoformat(timespec="microseconds" if moment % SECOND else "seconds")


def _filled(value: Any, times: dict[str, str]) -> Any:
    match value:
        case str():
            for name, text in times.items():
                value = value.replace(name, text)
            return value
        case dict():
            return {key: _filled(inner, times) for key, inner in value.items()}
        case list() | tuple():
            return [_filled(inner, times) for inner in value]
        case _:
            return value
