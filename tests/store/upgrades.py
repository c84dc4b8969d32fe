"""Schedules in a store of version 7, whose next fires an older rota has worked out, and how they stand after the
upgrade."""

from __future__ import annotations

import time

import pytest

from rota.errors import InvalidInput
from rota.model.principal import SYSTEM
from rota.model.times import DAY, HOUR, Instant
from rota.model.trigger import schedule as timing
from rota.model.trigger import template as work
from rota.model.trigger.plan import advance, parse
from rota.model.trigger.policies import CatchUp, Missed
from rota.model.trigger.rules import Every
from rota.model.trigger.schedule import Timing
from rota.store.base import Store
from tests.contracts.timetables import ORDER

OLD = 7  # the last version of the schema before schedules are worked out anew
NOW: Instant = int(time.time()) * 1_000_000
HOURS_AGO = NOW - 5 * HOUR
FAR = NOW + 400 * DAY
# name: cursor, next fire, when it was paused
STOOD: dict[str, tuple[Instant, Instant | None, Instant | None]] = {
    "due": (HOURS_AGO, NOW - HOUR, None),
    "ended": (HOURS_AGO, None, None),
    "paused": (HOURS_AGO, FAR, HOURS_AGO),
    "refused": (HOURS_AGO, FAR, None),
    "wrong": (HOURS_AGO, FAR, None),
}
COLUMNS = (
    "owner, name, revision, timing, work, overlap, calendars, created_at, changed_at, handled, next_at, paused_at, "
    "paused_by, note"
)


def rows(calendars: object) -> list[tuple[object, ...]]:
    """What stood in the table of version 7; `calendars` is how the backend writes that there are none."""
    found: list[tuple[object, ...]] = []
    for name, (handled, next_at, paused_at) in STOOD.items():
        rule = Timing(name=name, owner="local", rule=Every(HOUR), catch_up=CatchUp(Missed.ALL))
        text = timing.to_json(rule)
        if name == "refused":
            text = text.replace('"kind":"every","period":3600000000', '"kind":"cron","text":"0-29/40 * * * *"')
        paused = (paused_at, "local", "") if paused_at else (None, None, None)
        order = work.to_json(ORDER)
        found.append(
            ("local", name, 1, text, order, "allow", calendars, HOURS_AGO, HOURS_AGO, handled, next_at, *paused)
        )
    return found


async def check_upgraded(store: Store) -> None:
    """All but the ended one are due. What is due was due before; the next fires are right, and nothing is made up for
    that the older version did not have."""
    now = store.now()
    found, _ = await store.coming_schedules(SYSTEM, now, 100)
    infos = {info.name: info for info in found}
    assert sorted(infos) == ["due", "paused", "refused", "wrong"]
    assert (infos["due"].handled, infos["due"].next_at) == (HOURS_AGO, NOW - HOUR)
    hour = now // HOUR * HOUR
    for name in ("wrong", "paused"):
        info = infos[name]
        assert NOW <= info.handled <= now
        step = advance(info, parse(info), info.handled)
        assert (step.fires, step.skips, step.next_at) == ([], [], info.handled // HOUR * HOUR + HOUR)
        assert (await store.advance(SYSTEM, [step])) == [[]]
    due = advance(infos["due"], parse(infos["due"]), now)
    assert [one.fire for one in due.fires][-1] == hour
    with pytest.raises(InvalidInput, match="0-29/40"):
        parse(infos["refused"])
