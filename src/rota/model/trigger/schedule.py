"""A schedule: a rule, the zone it is meant in, its bounds and its policies."""

from __future__ import annotations

import msgspec

from rota.errors import InvalidInput
from rota.model.times import LATEST, LONGEST, Duration, Instant, iso, short
from rota.model.trigger.cron import cron_plan
from rota.model.trigger.policies import CatchUp, Fold, Gap, Overlap
from rota.model.trigger.recurrence import recurrence_end, recurrence_plan
from rota.model.trigger.rules import Cron, Every, Recurrence, Rule
from rota.model.trigger.wall import Readings
from rota.model.trigger.zones import zone

MOST_FIRES = 1_000_000_000


class Timing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Checked as a whole when it is made, so every value can be asked for its fires.

    `start` and `end` are themselves inside. `exclude` and `only` name calendars: a fire must lie in none of the former
    and in all of the latter. `limit` is the number of its fires.
    """

    name: str
    owner: str = ""
    rule: Rule
    zone: str = "UTC"
    gap: Gap = Gap.SHIFT
    fold: Fold = Fold.FIRST
    start: Instant | None = None
    end: Instant | None = None
    jitter: Duration = 0
    limit: int | None = None
    exclude: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    overlap: Overlap = Overlap.ALLOW
    catch_up: CatchUp = CatchUp()

    def __post_init__(self) -> None:
        given: tuple[tuple[str, object], ...] = (("name", self.name), ("zone", self.zone))
        for what, text in given:
            if not isinstance(text, str) or not text:
                raise InvalidInput(f"schedule {what}", text, "a text that is not empty")
        zone(self.zone)
        readings(self)
        last_named(self)
        _check_bounds(self)
        _check_jitter(self)
        if self.limit is not None and not 1 <= self.limit <= MOST_FIRES:
            raise InvalidInput("limit", self.limit, f"a whole number from 1 to {MOST_FIRES:,}")


def readings(schedule: Timing) -> Readings | None:
    """The rule as wall-clock readings; None for rules in elapsed time."""
    match schedule.rule:
        case Cron(text):
            return cron_plan(text, schedule.name if "h" in text.lower() else "")  # without H all names share a plan
        case Recurrence(text, begin):
            return recurrence_plan(text, begin)
        case _:
            return None


def last_named(schedule: Timing) -> Instant | None:
    """The last instant of a rule that names one; None if its readings end by themselves, or never."""
    match schedule.rule:
        case Recurrence(text, begin):
            return recurrence_end(text, begin, schedule.zone, schedule.gap, schedule.fold)
        case _:
            return None


def _check_bounds(schedule: Timing) -> None:
    for what, moment in (("start", schedule.start), ("end", schedule.end)):
        if moment is not None and not 0 <= moment <= LATEST:
            raise InvalidInput(what, moment, "an instant from 1970 to 9892")
    if schedule.start is not None and schedule.end is not None and schedule.end < schedule.start:
        raise InvalidInput("end", iso(schedule.end), f"a time after the start, {iso(schedule.start)}")


def _check_jitter(schedule: Timing) -> None:
    if not 0 <= schedule.jitter <= LONGEST:
        raise InvalidInput("jitter", schedule.jitter, "a duration, not negative, at most 100 years")
    if isinstance(schedule.rule, Every) and schedule.jitter > schedule.rule.period:
        period = short(schedule.rule.period)
        raise InvalidInput("jitter", short(schedule.jitter), f"no more than the period, {period}")


_decoder = msgspec.json.Decoder(Timing)


def to_json(schedule: Timing) -> str:
    return msgspec.json.encode(schedule).decode()


def from_json(text: str) -> Timing:
    """Reads a schedule and checks it again: its zone or rule may be invalid on this machine."""
    try:
        return _decoder.decode(text)
    except (msgspec.MsgspecError, RecursionError) as problem:
        if isinstance(problem.__cause__, InvalidInput):
            raise problem.__cause__ from None
        raise InvalidInput("schedule", text, f"a schedule as JSON ({problem})") from None
