"""Times and states of schedules as text."""

from __future__ import annotations

from rota.cli.show import ago
from rota.model.times import Instant
from rota.model.trigger.arguments import local_iso
from rota.model.trigger.records import StoredSchedule
from rota.views.schedules import look, next_of, standing


def in_zone(moment: Instant, where: str) -> str:
    """`2027-01-01 09:00:00+01:00`"""
    return local_iso(moment, where).replace("T", " ")


def utc(moment: Instant) -> str:
    return in_zone(moment, "UTC").replace("+00:00", "Z")


def next_text(info: StoredSchedule, now: Instant) -> str:
    parsed, _ = look(info)
    fire = next_of(info, parsed)
    if parsed is None or fire is None:
        stands = standing(info, parsed)
        return "it has ended and does not fire any more" if stands == "ended" else f"it is {stands}"
    if fire <= now:
        return "it is due now"
    return f"next fire {in_zone(fire, parsed.schedule.zone)} ({utc(fire)}, {ago(fire, now)})"
