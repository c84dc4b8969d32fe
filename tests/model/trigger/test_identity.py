"""Ids of jobs that schedules make."""

from __future__ import annotations

import re
from itertools import product
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from rota.clock import Chance
from rota.model.times import LATEST, MILLISECOND, instant
from rota.model.trigger.identity import fire_id

NOON = instant("2027-07-01T12:00:00+00:00")
instants = st.integers(0, LATEST)


@given(st.text(), st.text(), instants)
def test_ids_are_uuids_of_version_8(owner: str, name: str, fire: int) -> None:
    found = fire_id(owner, name, fire)
    assert found == fire_id(owner, name, fire)
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", found)
    assert (UUID(found).version, UUID(found).int >> 80) == (8, fire // MILLISECOND)


@given(st.text(), instants, instants)
def test_ids_sort_by_time_among_those_of_other_jobs(name: str, fire: int, other: int) -> None:
    if fire // MILLISECOND < other // MILLISECOND:
        assert fire_id("", name, fire) < Chance(1).job_id(other)
    if fire // MILLISECOND > other // MILLISECOND:
        assert fire_id("", name, fire) > Chance(1).job_id(other)


def test_ids_differ_by_owner_name_and_time() -> None:
    parts = [*product(("", "a", "ab"), ("", "b", "ab"), (NOON, NOON + 1, NOON + 10**6))]
    assert len({fire_id(*each) for each in parts}) == len(parts)
    crowd = {fire_id("me", f"job-{n}", NOON) for n in range(20_000)}
    assert len(crowd) == 20_000


def test_ids_are_kept_across_versions_of_rota() -> None:
    assert fire_id("me", "nightly", NOON) == "01a6753e-0e00-8289-9cbe-6111670f7701"
