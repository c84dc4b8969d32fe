"""Time that can be set, chance that can be repeated, ids that rise."""

from __future__ import annotations

import os
import threading
import time
import uuid

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rota.clock import Chance, Clock, ManualClock, SystemClock

START = 1_800_000_000_000_000
LATEST = 253_402_300_799_000_000
moments = st.integers(0, LATEST)
seeds = st.integers(0, 2**64)


def milliseconds(job_id: str) -> int:
    return uuid.UUID(job_id).int >> 80


def fraction(job_id: str) -> int:
    """The 12 bits that UUIDv7 leaves for the part of the millisecond."""
    return uuid.UUID(job_id).int >> 64 & 0xFFF


@settings(deadline=None)
@given(moments, seeds)
@example(0, 0)
@example(LATEST, 1)
def test_an_id_is_a_uuid_of_version_7(now: int, seed: int) -> None:
    text = Chance(seed).job_id(now)
    found = uuid.UUID(text)
    assert str(found) == text, "written the canonical way: lower case, 36 characters"
    assert (found.version, found.variant) == (7, uuid.RFC_4122)


@settings(deadline=None)
@given(st.integers(1, LATEST), seeds)
@example(START, 0)
@example(START + 999, 0)
@example(START + 999_999, 0)
def test_an_id_carries_its_time_to_less_than_a_microsecond(now: int, seed: int) -> None:
    text = Chance(seed).job_id(now)
    assert milliseconds(text) == now // 1000
    assert abs(fraction(text) * 1000 / 4096 - now % 1000) < 1


@settings(deadline=None)
@given(st.lists(moments, min_size=2, max_size=50), seeds)
@example([START] * 50, 0)
@example([START, START - 10_000_000, START - 1, START, START + 1], 0)
@example(list(range(START, START + 50)), 0)
def test_ids_rise_whatever_the_clock_does(nows: list[int], seed: int) -> None:
    chance = Chance(seed)
    ids = [chance.job_id(now) for now in nows]
    assert ids == sorted(set(ids)), "as texts, as the stores compare them"
    assert sorted(uuid.UUID(text).int for text in ids) == [uuid.UUID(text).int for text in ids]


@settings(deadline=None)
@given(st.lists(moments, min_size=1, max_size=20), seeds)
def test_an_id_is_never_older_than_its_job(nows: list[int], seed: int) -> None:
    chance = Chance(seed)
    for now in nows:
        assert milliseconds(chance.job_id(now)) >= now // 1000


def test_a_standing_clock_gives_more_ids_than_a_millisecond_has_room_for() -> None:
    chance = Chance(1)
    ids = [chance.job_id(START) for _ in range(10_000)]
    assert ids == sorted(set(ids))
    assert {uuid.UUID(text).version for text in ids} == {7}
    assert milliseconds(ids[0]) == START // 1000
    assert milliseconds(ids[-1]) - START // 1000 == 2, "it borrows from the next milliseconds, no more than it must"


def test_after_borrowing_the_clock_is_followed_again() -> None:
    chance = Chance(1)
    for _ in range(10_000):
        chance.job_id(START)
    assert milliseconds(chance.job_id(START + 1_000_000)) == START // 1000 + 1000


@settings(deadline=None)
@given(seeds, st.lists(moments, max_size=10))
def test_the_same_seed_repeats_everything(seed: int, nows: list[int]) -> None:
    one, other = Chance(seed), Chance(seed)
    assert [one.job_id(now) for now in nows] == [other.job_id(now) for now in nows]
    assert [one.random() for _ in range(5)] == [other.random() for _ in range(5)]
    assert one.token() == other.token()


def test_other_seeds_and_no_seed_give_other_ids() -> None:
    chances = [Chance(seed) for seed in range(100)] + [Chance() for _ in range(100)]
    assert len({chance.job_id(START) for chance in chances}) == 200
    assert len({chance.token() for chance in chances}) == 200


def test_ids_of_one_instant_differ_in_more_than_their_count() -> None:
    chance = Chance()
    tails = {uuid.UUID(chance.job_id(START)).int & (2**62 - 1) for _ in range(1_000)}
    assert len(tails) == 1_000


def test_ids_are_unique_and_rise_for_every_thread() -> None:
    chance, made = Chance(1), [list[str]() for _ in range(4)]
    together = threading.Barrier(4)

    def submit(ids: list[str]) -> None:
        together.wait()
        ids += [chance.job_id(START) for _ in range(2_000)]

    threads = [threading.Thread(target=submit, args=(ids,)) for ids in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(ids == sorted(ids) for ids in made)
    assert len({text for ids in made for text in ids}) == 8_000


@settings(deadline=None)
@given(seeds)
def test_chance_is_from_0_up_to_but_not_1(seed: int) -> None:
    chance = Chance(seed)
    assert all(0 <= chance.random() < 1 for _ in range(100))


def test_chance_is_spread_evenly() -> None:
    chance = Chance(1)
    tenths = [int(chance.random() * 10) for _ in range(10_000)]
    assert all(800 < tenths.count(tenth) < 1_200 for tenth in range(10))


def test_tokens_are_short_names_of_fixed_length() -> None:
    chance = Chance(1)
    tokens = [chance.token() for _ in range(1_000)]
    assert len(set(tokens)) == 1_000
    assert all(len(token) == 12 and int(token, 16) >= 0 for token in tokens)


def test_manual_time_stands_still_until_it_is_moved() -> None:
    clock = ManualClock(START)
    assert [(clock.now(), clock.monotonic()) for _ in range(3)] == [(START, 0.0)] * 3


@given(st.lists(st.integers(0, 10**9), max_size=20))
def test_manual_time_moves_both_clocks_by_what_it_is_told(steps: list[int]) -> None:
    clock = ManualClock(START)
    for micros in steps:
        clock.advance(micros / 1_000_000)
    assert clock.now() == START + sum(steps)
    assert clock.monotonic() == pytest.approx(sum(steps) / 1_000_000)


def test_manual_clocks_are_independent() -> None:
    one, other = ManualClock(START), ManualClock(START)
    one.advance(5)
    assert (one.now() - other.now(), other.monotonic()) == (5_000_000, 0.0)


def test_the_system_clock_tells_the_time_in_whole_microseconds() -> None:
    before = time.time_ns() // 1000
    now = SystemClock().now()
    after = time.time_ns() // 1000
    assert type(now) is int
    assert before <= now <= after


def test_the_system_clock_never_goes_back_and_counts_sleep() -> None:
    clock = SystemClock()
    source = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    readings = [
        time.clock_gettime(source),
        *(clock.monotonic() for _ in range(1_000)),
        time.clock_gettime(source),
    ]
    assert readings == sorted(readings)


@pytest.mark.parametrize("clock", [SystemClock(), ManualClock()])
def test_every_clock_keeps_the_same_contract(clock: Clock) -> None:
    assert isinstance(clock.now(), int)
    assert isinstance(clock.monotonic(), float)


def test_a_forked_child_does_not_go_on_with_its_parents_numbers() -> None:
    chance = Chance()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, chance.token().encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    theirs = os.read(reader, 100).decode()
    os.close(reader)
    assert theirs
    assert theirs != chance.token()


def test_the_wall_clock_can_jump_alone() -> None:
    clock = ManualClock()
    before, elapsed = clock.now(), clock.monotonic()
    clock.jump(-30)
    assert (clock.now(), clock.monotonic()) == (before - 30_000_000, elapsed)
    with pytest.raises(ValueError, match="backwards"):
        clock.advance(-1)
