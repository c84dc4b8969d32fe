"""When a node is taken for dead: after a lease of silence that was its own, and not a moment sooner."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.model.job import Ref
from rota.model.node import NewNode, News, NodeInfo, NodeState, Watch
from rota.model.times import LATEST, SECOND, aware

LEASE = 10
LONG_AGO = 0.0  # the observer itself has been healthy for ever


def node(
    beats: int = 0,
    *,
    name: str = "a",
    lease: int = LEASE,
    gone: bool = False,
    seen_at: int = 0,
    id: str = "host",
) -> NodeInfo:
    return NodeInfo(
        id=id,
        incarnation=name,
        roles=("worker",),
        queues={"default": 8},
        version="0",
        state=NodeState.LIVE,
        started_at=aware(0),
        seen_at=aware(seen_at),
        lease=lease * SECOND,
        beats=beats,
        gone=gone,
    )


def dead(watch: Watch, *nodes: NodeInfo, now: float, healthy_since: float = LONG_AGO) -> list[str]:
    return [found.incarnation for found in watch.dead(nodes, now, healthy_since)]


@given(st.integers(0, 2**31), st.floats(0, 1e9), st.integers(0, 3_600))
def test_nobody_is_dead_at_first_sight(beats: int, now: float, lease: int) -> None:
    assert dead(Watch(), node(beats, lease=lease), now=now) == [], "the silence before isn't ours to judge"


def test_silence_for_a_lease_kills_and_not_a_moment_sooner() -> None:
    watch = Watch()
    assert dead(watch, node(5), now=100) == []
    assert dead(watch, node(5), now=105) == []
    assert dead(watch, node(5), now=110) == [], "exactly a lease is still within it"
    assert dead(watch, node(5), now=110.001) == ["a"]


def test_the_dead_stay_dead_while_they_are_silent_and_shown() -> None:
    watch = Watch()
    dead(watch, node(5), now=100)
    assert [dead(watch, node(5), now=now) for now in (111, 112, 500)] == [["a"]] * 3


def test_a_new_beat_gives_a_whole_new_lease() -> None:
    watch = Watch()
    dead(watch, node(5), now=100)
    assert dead(watch, node(6), now=109) == []
    assert dead(watch, node(6), now=119) == []
    assert dead(watch, node(6), now=119.5) == ["a"]


def test_a_beat_seen_late_counts_from_when_it_was_seen() -> None:
    watch = Watch()
    dead(watch, node(5), now=100)
    assert dead(watch, node(6), now=150) == [], "the observer looked seldom, the node went on beating"


def test_any_other_count_is_a_sign_of_life() -> None:
    watch = Watch()
    dead(watch, node(5), now=100)
    assert dead(watch, node(4), now=150) == []


@given(st.lists(st.integers(-LATEST, LATEST), min_size=1, max_size=10), st.integers(1, LEASE))
def test_wall_clocks_play_no_part_however_they_jump(walls: list[int], pause: int) -> None:
    silent, living = Watch(), Watch()
    for turn, wall in enumerate(walls):
        now = 100 + turn * pause
        assert dead(living, node(turn, seen_at=wall), now=now) == []
        assert dead(silent, node(0, seen_at=wall), now=now) == (["a"] if turn * pause > LEASE else [])


def test_after_its_own_illness_the_observer_gives_everyone_a_whole_lease() -> None:
    watch = Watch()
    dead(watch, node(5), now=100)
    assert dead(watch, node(5), now=160, healthy_since=160) == [], "nobody could renew, so silence proves nothing"
    assert dead(watch, node(5), now=170, healthy_since=160) == []
    assert dead(watch, node(5), now=170.5, healthy_since=160) == ["a"]


def test_an_observer_that_keeps_falling_ill_kills_nobody() -> None:
    watch = Watch()
    assert [dead(watch, node(5), now=now, healthy_since=now - 5) for now in range(100, 200, 9)] == [[]] * 12


def test_health_of_the_observer_does_not_lengthen_a_silence() -> None:
    watch = Watch()
    dead(watch, node(5), now=100, healthy_since=1)
    assert dead(watch, node(5), now=109, healthy_since=1) == []


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.integers(0, 9))
def test_a_process_that_is_known_to_be_gone_is_dead_at_once(now: float, healthy: float, beats: int) -> None:
    assert dead(Watch(), node(beats, gone=True), now=now, healthy_since=healthy) == ["a"]


def test_gone_beats_a_fresh_beat() -> None:
    watch = Watch()
    dead(watch, node(5), now=100)
    assert dead(watch, node(6, gone=True), now=101) == ["a"]


def test_each_node_is_judged_by_its_own_lease_and_silence() -> None:
    watch = Watch()
    dead(watch, node(name="short", lease=5), node(name="long", lease=60), node(1, name="lively"), now=100)
    silent = (node(name="short", lease=5), node(name="long", lease=60))
    assert dead(watch, *silent, node(2, name="lively"), now=111) == ["short"]
    assert dead(watch, *silent, node(3, name="lively"), now=161) == ["short", "long"]


def test_a_new_start_of_a_dead_node_does_not_inherit_its_silence() -> None:
    watch = Watch()
    dead(watch, node(5, name="first", id="host"), now=100)
    both = (node(5, name="first", id="host"), node(5, name="second", id="host"))
    assert dead(watch, *both, now=111) == ["first"]
    assert dead(watch, *both, now=121) == ["first"]
    assert dead(watch, *both, now=122) == ["first", "second"]


def test_who_was_out_of_sight_is_seen_for_the_first_time_again() -> None:
    watch = Watch()
    dead(watch, node(5), now=100)
    dead(watch, now=105)
    assert dead(watch, node(5), now=130) == []


def test_every_observer_judges_by_what_it_saw_itself() -> None:
    early, late = Watch(), Watch()
    dead(early, node(5), now=100)
    dead(late, node(5), now=108)
    assert dead(early, node(5), now=111) == ["a"]
    assert dead(late, node(5), now=111) == []


looks = st.tuples(
    st.integers(0, 15),  # seconds since the last look
    st.booleans(),  # the node has renewed in between
    st.booleans(),  # the observer could not renew in between
    st.integers(0, 30).map(lambda n: n == 0),  # its process is known to be gone
)


@given(st.lists(looks, max_size=40), st.integers(1, 20))
def test_dead_means_gone_or_silent_for_a_lease_of_healthy_watching(
    story: list[tuple[int, bool, bool, bool]], lease: int
) -> None:
    watch, now, beats, healthy_since = Watch(), 1_000, 0, 0
    quiet = 0  # seconds for which the observer, in good health, has seen nothing new
    dead(watch, node(beats, lease=lease), now=now)
    for pause, renewed, ill, gone in story:
        now += pause
        beats += renewed
        healthy_since = now if ill else healthy_since
        quiet = 0 if renewed or ill else quiet + pause
        found = dead(watch, node(beats, lease=lease, gone=gone), now=now, healthy_since=healthy_since)
        assert found == (["a"] if gone or quiet > lease else [])


@given(st.lists(st.floats(0.1, LEASE), min_size=1, max_size=50))
def test_who_renews_within_its_lease_is_never_killed(pauses: list[float]) -> None:
    watch, now = Watch(), 1_000.0
    for beats, pause in enumerate(pauses):
        assert dead(watch, node(beats), now=now) == []
        now += pause
        assert dead(watch, node(beats), now=now - pause / 2) == [], "a look between two beats"


def test_what_is_found_is_what_was_shown() -> None:
    watch, shown = Watch(), node(gone=True)
    assert watch.dead([shown], 0, 0)[0] is shown
    assert watch.dead(iter([shown]), 0, 0) == [shown], "any iterable will do"
    assert watch.dead([], 0, 0) == []


def test_news_can_be_stored_and_read_back() -> None:
    assert News(known=False).cancels == (), "a node that was declared dead has nothing left to stop"
    news = News(True, cancels=((Ref("j", 1), "by ann"), (Ref("k", 2), "timeout")))
    assert msgspec.json.decode(msgspec.json.encode(news), type=News) == news


def test_a_node_can_be_stored_and_read_back() -> None:
    new = NewNode("host", "a1b2", ("control", "worker"), {"default": 8}, "0", LEASE * SECOND)
    assert msgspec.json.decode(msgspec.json.encode(new), type=NewNode) == new
    info = node(3)
    assert msgspec.json.decode(msgspec.json.encode(info), type=NodeInfo) == info


@pytest.mark.parametrize("state", NodeState)
def test_states_of_nodes_are_plain_words(state: NodeState) -> None:
    assert NodeState(str(state)) is state
