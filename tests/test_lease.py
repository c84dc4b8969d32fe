"""A node's own view of its lease."""

from __future__ import annotations

from rota.clock import ManualClock
from rota.lease import EXPOSED_MARGIN, EXPOSED_WARNING, GAP, MARGIN, WARNING, Lease
from rota.model.times import SECOND


def test_the_deadline_counts_from_the_question_not_from_the_answer() -> None:
    clock = ManualClock()
    lease = Lease(clock, 10.0)
    asked = clock.monotonic()
    clock.advance(2.5)
    lease.renewed(asked)
    assert lease.deadline == asked + 10.0 - MARGIN


def test_it_warns_before_the_deadline() -> None:
    clock = ManualClock()
    lease = Lease(clock, 10.0)
    clock.advance(10.0 - MARGIN - WARNING)
    assert not lease.endangered
    clock.advance(0.01)
    assert lease.endangered
    lease.renewed(clock.monotonic())
    assert not lease.endangered


def test_an_exposed_node_is_warned_before_its_keeper_would_kill_it() -> None:
    clock = ManualClock()
    lease = Lease(clock, 10.0, lambda: 2 * SECOND)
    assert lease.deadline == clock.monotonic() + 2.0 - EXPOSED_MARGIN
    clock.advance(2.0 - EXPOSED_MARGIN - EXPOSED_WARNING)
    assert not lease.endangered
    clock.advance(0.01)
    assert lease.endangered
    assert clock.monotonic() < lease.deadline


def test_jumps_of_the_wall_clock_do_not_matter() -> None:
    clock = ManualClock()
    lease = Lease(clock, 10.0)
    clock.jump(3600)
    assert not lease.endangered
    assert lease.healthy_since() == 0.0


def test_a_gap_in_the_renewals_makes_the_observer_start_anew() -> None:
    clock = ManualClock()
    lease = Lease(clock, 10.0)
    for _ in range(5):
        clock.advance(1.0)
        lease.renewed(clock.monotonic())
    assert lease.healthy_since() == 0.0
    clock.advance(GAP + 0.1)
    assert lease.healthy_since() == clock.monotonic()
    lease.renewed(clock.monotonic())
    since = clock.monotonic()
    clock.advance(1.0)
    lease.renewed(clock.monotonic())
    assert lease.healthy_since() == since
