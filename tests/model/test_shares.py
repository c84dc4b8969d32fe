"""Shares: what is promised is kept, what is idle is lent, and nothing is given twice."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from rota.model.shares import wants


class Worker(NamedTuple):
    shares: dict[str, int]
    running: dict[str, int]
    dry: frozenset[str]

    @property
    def total(self) -> int:
        return sum(self.shares.values())

    @property
    def free(self) -> int:
        return max(0, self.total - sum(self.running.values()))

    @property
    def busy(self) -> list[str]:
        return [queue for queue in self.shares if queue not in self.dry]

    def short(self, queue: str) -> int:
        return max(0, self.shares[queue] - self.running.get(queue, 0))

    def keepers(self) -> list[str]:
        return [
            queue for queue in self.dry if len(self.shares) > 1 and self.shares[queue] and not self.running.get(queue)
        ]

    def wants(self) -> dict[str, int]:
        return wants(self.shares, self.running, self.dry)


@st.composite
def workers(draw: st.DrawFn, least: int = 1) -> Worker:
    """Any worker that could be: slots are taken one by one, by whichever queue, up to the total."""
    shares = draw(st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 12), min_size=least))
    slots = draw(st.lists(st.sampled_from(sorted(shares)), max_size=sum(shares.values())))
    dry = draw(st.sets(st.sampled_from(sorted(shares))))
    return Worker(shares, {queue: slots.count(queue) for queue in set(slots)}, frozenset(dry))


@st.composite
def scarce(draw: st.DrawFn) -> Worker:
    """One queue was lent so much that the others, all busy now, can't have their shares."""
    shares = draw(st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 12), min_size=2))
    lucky = draw(st.sampled_from(sorted(shares)))
    total = sum(shares.values())
    free = draw(st.integers(0, total - shares[lucky] - 1))
    return Worker(shares, {lucky: total - free}, frozenset())


@given(workers())
def test_nothing_is_asked_for_twice(worker: Worker) -> None:
    asked = worker.wants()
    assert asked.keys() == worker.shares.keys()
    assert all(want >= 0 for want in asked.values())
    assert sum(asked.values()) <= worker.free


@given(workers())
def test_all_slots_together_are_never_exceeded(worker: Worker) -> None:
    asked = worker.wants()
    assert sum(worker.running.values()) + sum(asked[queue] for queue in worker.busy) <= worker.total


@given(workers())
def test_no_slot_stays_free_while_a_queue_is_busy(worker: Worker) -> None:
    """But for those that idle queues keep, and even those are asked for."""
    assume(worker.busy)
    assert sum(worker.wants().values()) == worker.free


@given(workers())
def test_busy_queues_get_their_own_share_before_anything_is_lent(worker: Worker) -> None:
    asked = worker.wants()
    promised = sum(map(worker.short, worker.busy))
    got = sum(min(asked[queue], worker.short(queue)) for queue in worker.busy)
    assert got == min(promised, worker.free)


@given(workers())
def test_a_busy_queue_gets_its_whole_share_if_the_slots_are_there(worker: Worker) -> None:
    short = [queue for queue in worker.busy if worker.short(queue)]
    assume(len(short) == 1 or sum(map(worker.short, short)) <= worker.free)
    asked = worker.wants()
    assert all(asked[queue] >= min(worker.short(queue), worker.free) for queue in short)


@given(scarce())
def test_scarce_slots_are_divided_by_what_is_missing(worker: Worker) -> None:
    missing = sum(map(worker.short, worker.busy))
    assert missing > worker.free
    asked = worker.wants()
    for queue in worker.busy:
        exact = worker.free * worker.short(queue) / missing
        assert abs(asked[queue] - exact) < 1
        assert asked[queue] <= worker.short(queue)


@given(workers())
def test_each_idle_queue_keeps_a_slot_if_nobody_runs_beyond_its_share(worker: Worker) -> None:
    assume(all(count <= worker.shares[queue] for queue, count in worker.running.items()))
    asked = worker.wants()
    assert all(asked[queue] >= 1 for queue in worker.keepers())


@given(workers())
def test_kept_slots_are_never_lent(worker: Worker) -> None:
    asked = worker.wants()
    lent = sum(max(0, asked[queue] - worker.short(queue)) for queue in worker.busy)
    own = sum(min(asked[queue], worker.short(queue)) for queue in worker.busy)
    assert lent == max(0, worker.free - own - len(worker.keepers())) or not worker.busy


@given(workers())
def test_dry_queues_are_asked_for_no_more_than_their_own_share(worker: Worker) -> None:
    asked = worker.wants()
    assert all(asked[queue] <= worker.short(queue) for queue in worker.dry)
    if not worker.busy:
        assert sum(asked.values()) == min(worker.free, sum(map(worker.short, worker.dry)))


@given(workers())
def test_without_lending_each_queue_has_its_share_and_no_more(worker: Worker) -> None:
    asked = wants(worker.shares, worker.running, worker.dry, lend=False)
    assert asked == {queue: worker.short(queue) for queue in worker.shares}


@given(workers(), st.randoms(use_true_random=False))
def test_the_order_of_the_queues_does_not_matter(worker: Worker, random: Random) -> None:
    turned = list(worker.shares.items())
    random.shuffle(turned)
    assert wants(dict(turned), worker.running, sorted(worker.dry)) == worker.wants()


@pytest.mark.parametrize(
    ("shares", "running", "dry", "expected"),
    [
        ({"a": 4}, {}, "", {"a": 4}),
        ({"a": 4}, {}, "a", {"a": 4}),
        ({"a": 4}, {"a": 3}, "a", {"a": 1}),
        ({"a": 3, "b": 1}, {}, "", {"a": 3, "b": 1}),
        ({"a": 3, "b": 1}, {}, "b", {"a": 3, "b": 1}),
        ({"a": 3, "b": 3}, {}, "b", {"a": 5, "b": 1}),
        ({"a": 3, "b": 3}, {}, "ab", {"a": 3, "b": 3}),
        ({"a": 3, "b": 3}, {"b": 1}, "b", {"a": 5, "b": 0}),
        ({"a": 3, "b": 3}, {"a": 5}, "", {"a": 0, "b": 1}),
        ({"a": 3, "b": 3}, {"a": 6}, "", {"a": 0, "b": 0}),
        ({"a": 3, "b": 3}, {"a": 5}, "b", {"a": 0, "b": 1}),
        ({"a": 3, "b": 1, "c": 5}, {}, "c", {"a": 6, "b": 2, "c": 1}),
        ({"a": 1, "b": 1, "c": 2}, {}, "c", {"a": 2, "b": 1, "c": 1}),
        ({"b": 1, "a": 1, "c": 2}, {}, "c", {"a": 2, "b": 1, "c": 1}),
        ({"a": 2, "b": 2, "c": 2}, {"a": 4}, "c", {"a": 0, "b": 2, "c": 0}),
        ({"a": 1, "b": 9, "c": 1}, {"b": 1}, "ab", {"a": 1, "b": 0, "c": 9}),
        ({"a": 0, "b": 4}, {}, "b", {"a": 3, "b": 1}),
        ({"a": 0, "b": 4}, {}, "a", {"a": 0, "b": 4}),
        ({"a": 4}, {"gone": 3}, "", {"a": 1}),
        ({"a": 4}, {"gone": 9}, "", {"a": 0}),
        ({"a": 4, "b": 1}, {}, "b", {"a": 4, "b": 1}),
        ({}, {}, "", {}),
    ],
)
def test_examples(shares: dict[str, int], running: dict[str, int], dry: str, expected: dict[str, int]) -> None:
    assert wants(shares, running, dry) == expected


seeds = st.integers(0, 2**32)  # hypothesis's own randoms are slow by the thousand


def run(shares: Mapping[str, int], start: Mapping[str, int], busy: str, random: Random, steps: int) -> dict[str, int]:
    """Jobs end one by one, by chance; every busy queue always has more, every other one none."""
    running = {queue: start.get(queue, 0) for queue in shares}
    dry = [queue for queue in shares if queue not in busy]
    for _ in range(steps):
        taken = [queue for queue, count in running.items() for _ in range(count)]
        if taken:
            running[random.choice(taken)] -= 1
        for queue, want in wants(shares, running, dry).items():
            running[queue] += want if queue in busy else 0
        assert sum(running.values()) <= sum(shares.values())
    return running


@st.composite
def starts(draw: st.DrawFn, slots: int) -> dict[str, int]:
    first = draw(st.integers(0, slots))
    return {"a": first, "b": draw(st.integers(0, slots - first))}


@given(st.integers(1, 5).flatmap(lambda n: st.tuples(st.just(n), starts(4 * n))), seeds)
@example((2, {"a": 8}), 1)
@example((2, {"b": 8}), 1)
def test_two_busy_queues_come_to_their_shares_whatever_the_start(given: tuple[int, dict[str, int]], seed: int) -> None:
    times, start = given
    shares = {"a": 3 * times, "b": times}
    assert run(shares, start, "ab", Random(seed), 400) == shares


@given(starts(8), seeds)
@example({"b": 8}, 1)
def test_a_busy_queue_beside_an_idle_one_gets_all_but_one(start: dict[str, int], seed: int) -> None:
    assert run({"a": 6, "b": 2}, start, "a", Random(seed), 200) == {"a": 7, "b": 0}
    assert run({"a": 6, "b": 2}, start, "b", Random(seed), 200) == {"a": 0, "b": 7}


@given(seeds)
def test_what_is_lent_stays_in_proportion_as_jobs_come_and_go(seed: int) -> None:
    """Were each freed slot lent by itself, the queue with the larger share would end up with all of them."""
    shares = {"a": 6, "b": 2, "c": 9}
    assert run(shares, {}, "ab", Random(seed), 200) == {"a": 12, "b": 4, "c": 0}


def test_a_queue_that_wakes_up_starts_at_once_and_has_its_share_back_as_jobs_end() -> None:
    shares = {"a": 3, "b": 3}
    running = {"a": 5, "b": 0}
    for ended in range(4):
        asked = wants(shares, running, dry=())
        assert asked == {"a": 0, "b": 1 if ended < 3 else 0} or running == shares
        running = {"a": max(3, running["a"] - 1), "b": min(3, running["b"] + asked["b"])}
    assert running == shares
