"""Schedules as stores keep them and as people read them."""

from __future__ import annotations

from datetime import datetime

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from rota.model.http import HIDDEN
from rota.model.times import LATEST, aware
from rota.model.trigger.records import ScheduleInfo, StoredSchedule

instants = st.integers(0, LATEST)
words = st.text(st.characters(codec="utf-8"), max_size=5)
stored = st.builds(
    StoredSchedule,
    owner=words, name=words, revision=st.integers(1, 9), timing=words, work=words, app=st.none() | words,
    created_at=instants, changed_at=instants, handled=instants, next_at=st.none() | instants, fired=st.integers(0, 9),
    last_fire=st.none() | instants, paused_at=st.none() | instants, undeclared_at=st.none() | instants,
)  # fmt: skip


@given(stored)
def test_people_get_the_times_of_a_schedule_as_datetimes(schedule: StoredSchedule) -> None:
    shown = schedule.shown()
    assert shown.paused == schedule.paused
    for name in StoredSchedule.__struct_fields__:
        kept, read = getattr(schedule, name), getattr(shown, name)
        if name == "work":  # that can't be read: there may be secrets in it
            kept = HIDDEN
        assert read == (aware(kept) if isinstance(read, datetime) else kept)


@given(stored)
def test_schedules_are_the_same_after_a_way_through_json(schedule: StoredSchedule) -> None:
    assert msgspec.json.decode(msgspec.json.encode(schedule), type=StoredSchedule) == schedule
    # An integer in the place of a time would not be read back.
    assert msgspec.json.decode(msgspec.json.encode(schedule.shown()), type=ScheduleInfo) == schedule.shown()


def test_a_schedule_with_times_that_no_datetime_can_hold_can_be_shown() -> None:
    broken = StoredSchedule(
        owner="local", name="s", revision=1, timing="", work="", app=None, fired=0,
        created_at=-1, changed_at=2**63, handled=2**63, next_at=-(2**63),
    )  # fmt: skip
    assert broken.shown().created_at < broken.shown().changed_at
