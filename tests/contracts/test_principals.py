"""Principals: nobody sees or changes the jobs of another user, by any verb."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import nullcontext

import pytest
import pytest_asyncio

from rota.errors import NotAllowed, NotFound
from rota.model.access import Role
from rota.model.access_keys import NewKey
from rota.model.feedback import Feedback
from rota.model.gates import Effect, match
from rota.model.job import Kind, Membership
from rota.model.lifecycle import State
from rota.model.limits import Key, Limit
from rota.model.node import NewNode
from rota.model.outcome import CrashRule
from rota.model.principal import LOCAL, SYSTEM, Principal
from rota.model.quotas import NO_QUOTAS
from rota.model.requirements import Requirements
from rota.model.statistics import Window
from rota.model.task import TaskInfo
from rota.model.times import DAY, HOUR, MINUTE, SECOND
from rota.store.admission import NewGate
from rota.store.base import Store
from rota.store.found_lines import LineQuery
from rota.store.graph import WorkflowFilter
from rota.store.hints import ScheduledJob
from rota.store.log_store import LogRetention, RawScan, Sealing, SegmentScan
from rota.store.offers import Unoffered
from rota.store.people import AuditFilter
from rota.store.repeats import KeptStep
from rota.store.values import Cancelling, JobFilter, Note, Position, Retention
from rota.store.verbs import Caller, verbs
from tests.contracts.house import HIS, PAUSING, WORKFLOW, House, filled, hers
from tests.contracts.shelves import STATES
from tests.contracts.world import ALICE, BOB, DONE, OLGA, PLENTY, World, settled

FIRST_FENCE = 1_800_000_000_000_000  # of a lock that was taken when the world began
HIS_KEY = NewKey(id="mine", hash="hash", user="bob", role=Role.ADMIN)


@pytest_asyncio.fixture(loop_scope="session")
async def house(world: World) -> House:
    return await filled(world)


# -- people -----------------------------------------------------------------------------------------------------------


async def test_one_sees_ones_own(house: House) -> None:
    store = house.world.store
    assert {info.id for info in await store.find(ALICE, JobFilter())} == set(house.ids)
    for job in house.ids:
        info = await store.get(ALICE, job)
        assert info is not None
        assert info.owner == "alice"
        assert await store.resolve(ALICE, job) == [job]
    assert sum((await store.counts(ALICE)).values()) == len(house.ids)
    assert len(await store.output(ALICE, house.jobs[State.RUNNING], Position(), 10)) == 1


async def test_rota_itself_sees_everything(house: House) -> None:
    store = house.world.store
    mine = await house.world.one(BOB)
    assert {info.id for info in await store.find(SYSTEM, JobFilter())} == {*house.ids, mine}
    assert (await store.get(SYSTEM, mine)) is not None


async def test_nobody_reads_what_is_not_theirs(house: House) -> None:
    store = house.world.store
    assert await store.find(BOB, JobFilter()) == []
    assert await store.find(BOB, JobFilter(ids=tuple(house.ids))) == []
    for state in STATES:
        assert await store.find(BOB, JobFilter(states=(state,))) == []
    for job in house.ids:
        assert await store.get(BOB, job) is None
        assert await store.resolve(BOB, job) == []
        assert await store.output(BOB, job, Position(), 10) == []
        assert await store.parents(BOB, job) == []
    assert await store.workflows(BOB, WorkflowFilter()) == []
    assert await store.workflows(BOB, WorkflowFilter(ids=(WORKFLOW,))) == []
    assert await store.workflows(BOB, WorkflowFilter(name="her secret plan")) == []
    assert await store.workflow(BOB, WORKFLOW) == []
    for part in (WORKFLOW, WORKFLOW[:8], WORKFLOW[-8:], "her secret plan", ""):
        assert await store.resolve_workflow(BOB, part) == []
    for job in house.ids:
        assert await store.waiting(BOB, job) is None
    assert await store.gates(BOB) == []
    assert await store.limits(BOB) == await store.limits(BOB, ["her secret key"]) == []
    assert await store.locks(BOB) == await store.locks(BOB, ["her lock"]) == []
    for queue in await store.queues(BOB):
        counts = (queue.ready, queue.held, queue.scheduled, queue.blocked, queue.running, queue.ended)
        assert not any(counts), queue
        assert queue.oldest is None
    assert await store.resolve(BOB, "") == []
    assert not any((await store.counts(BOB)).values())
    assert await store.events(BOB, 0, PLENTY) == []


async def test_a_search_among_others_finds_only_ones_own(house: House) -> None:
    store = house.world.store
    mine = await house.world.several(2, BOB)
    assert {info.id for info in await store.find(BOB, JobFilter(limit=2))} == set(mine)
    assert await store.resolve(BOB, "0") == sorted(mine)
    assert await store.counts(BOB) == {State.READY: 2}


async def test_nobody_changes_what_is_not_theirs(house: House) -> None:
    store = house.world.store
    async with house.world.unchanged():
        assert await store.cancel(BOB, house.ids, "sabotage") == [Cancelling.UNKNOWN] * len(house.ids)
        assert await store.replay(BOB, house.ids) == [False] * len(house.ids)
        assert await store.replay(BOB, house.ids, again=True) == [False] * len(house.ids)
        assert await store.hurry(BOB, house.ids) == [False] * len(house.ids)
        assert await store.purge(BOB, house.ids) == [False] * len(house.ids)
        assert await store.reprioritise(BOB, house.ids, 0) == [False] * len(house.ids)
        assert not await store.open_gate(BOB, PAUSING)
        assert not await store.remove_limit(BOB, "her secret key")
        assert not await store.free_lock(BOB, "her lock")


async def test_a_limit_of_ones_own_is_not_that_of_another_with_the_same_key(house: House) -> None:
    store = house.world.store
    before = await hers(house)
    await store.set_limit(BOB, Limit("her secret key", 1))
    assert [(one.owner, one.concurrency) for one in await store.limits(BOB)] == [("bob", 1)]
    assert await hers(house) == before
    assert await store.remove_limit(BOB, "her secret key")
    assert await hers(house) == before


@pytest.mark.parametrize("effect", list(Effect))
@pytest.mark.parametrize("user", [None, "alice"])
async def test_a_gate_closes_over_nobody_else(house: House, effect: Effect, user: str | None) -> None:
    """Whatever it says it fits: neither a sweep nor a claim minds it."""
    world = house.world
    before = await hers(house)
    wide = match(everything=True) if user is None else match(user=user)
    await world.store.close_gate(BOB, NewGate(HIS, wide, effect, "sabotage"))
    await world.store.admit(SYSTEM, PLENTY)
    assert await hers(house) == before
    assert house.jobs[State.READY] in {one.job_id for one in await (await world.node()).claim()}
    assert [gate.id for gate in await world.store.gates(BOB)] == [HIS]
    assert HIS not in {gate.id for gate in await world.store.gates(ALICE)}


async def test_keys_of_the_same_name_are_two(world: World) -> None:
    actor = await world.node()
    mine, yours = [await world.one(who, requirements=Requirements(keys=(Key("k", 1),))) for who in (ALICE, BOB)]
    assert {one.job_id for one in await actor.claim()} == {mine, yours}
    for who, job in ((ALICE, mine), (BOB, yours)):
        (limit,) = await world.store.limits(who)
        assert [holder.job for holder in limit.holders] == [job]


async def test_what_flows_have_used_is_shown_to_those_whose_they_are(world: World) -> None:
    await world.store.set_feedback(SYSTEM, "default", Feedback())
    await world.store.charge(SYSTEM, {("default", "alice/secret"): 15 * SECOND, ("default", "alice2/x"): SECOND})
    assert [one.flow for one in await world.store.flows(ALICE, PLENTY)] == ["alice/secret"]
    assert await world.store.flows(BOB, PLENTY) == []
    assert len(await world.store.flows(SYSTEM, PLENTY)) == 2


async def test_nobody_waits_for_what_is_not_theirs(house: House) -> None:
    world = house.world
    for state, parent in house.jobs.items():
        async with world.unchanged():
            (answer,) = await world.store.submit(BOB, [[world.child(parent)]])
            assert isinstance(answer, NotFound), state
            assert str(answer) == f"no parent job {parent!r}", "the same as of one that is not there"
    async with world.unchanged():
        joins = world.job(workflow=Membership(WORKFLOW, new=False))
        (answer,) = await world.store.submit(BOB, [[joins]])
        assert isinstance(answer, NotFound)


async def test_a_workflow_of_ones_own_does_not_take_the_id_of_another_s(house: House) -> None:
    world = house.world
    before = await hers(house)
    mine = world.job(workflow=Membership(WORKFLOW, "mine", new=True))
    (answer,) = await world.store.submit(BOB, [[mine]])
    assert isinstance(answer, NotFound)
    assert await hers(house) == before


async def test_the_answer_does_not_tell_whether_the_job_of_another_exists(house: House) -> None:
    store = house.world.store
    for job in (*house.ids, "no-such-job"):
        assert await store.cancel(BOB, [job], "probe") == [Cancelling.UNKNOWN]


async def test_ones_own_are_changed_beside_those_of_others(house: House) -> None:
    mine = await house.world.one(BOB)
    before = await hers(house)
    answers = await house.world.store.cancel(BOB, [*house.ids, mine], "mine")
    assert answers == [Cancelling.UNKNOWN] * len(house.ids) + [Cancelling.CANCELLED]
    assert await house.world.store.purge(BOB, [mine, *house.ids]) == [True] + [False] * len(house.ids)
    assert await hers(house) == before


async def test_a_name_is_matched_whole(house: House) -> None:
    for name in ("", "Alice", "alic", "alice ", "%", "rota"):
        assert await house.world.store.find(Principal(name), JobFilter()) == []


# -- the verbs of services, in the hands of a user --------------------------------------------------------------------

Deed = Callable[[House, Store], Awaitable[object]]
DEEDS: dict[str, Deed] = {
    "tally": lambda h, s: s.tally(BOB, PLENTY),
    "count_output": lambda h, s: s.count_output(BOB),
    "runs": lambda h, s: s.runs(BOB, None, 0, PLENTY),
    "read_runs": lambda h, s: s.read_runs(BOB, [h.run], PLENTY),
    "seal": lambda h, s: s.seal(BOB, [Sealing(None, [h.run])]),
    "purged_output": lambda h, s: s.purged_output(BOB, PLENTY),
    "small_segments": lambda h, s: s.small_segments(BOB, PLENTY),
    "set_segments_aside": lambda h, s: s.set_segments_aside(BOB, [h.jobs[State.RUNNING]]),
    "prune_output": lambda h, s: s.prune_output(BOB, LogRetention(0, 0, 0, 0), PLENTY),
    "claim": lambda h, s: s.claim(BOB, h.actor.incarnation, {"default": 99}, list(Kind), {"default": 99}),
    "start": lambda h, s: s.start(BOB, [h.ahead.ref]),
    "hand_back": lambda h, s: s.hand_back(BOB, [h.ahead.ref]),
    "finish": lambda h, s: s.finish(BOB, [settled(h.running, DONE)]),
    "append_output": lambda h, s: s.append_output(BOB, [h.actor.chunk(h.running.ref, 1, b"lies")]),
    "note": lambda h, s: s.note(BOB, [Note(h.running.job_id, h.running.fence, 1, None, '"lies"')]),
    "register": lambda h, s: s.register(BOB, NewNode("x", "x", (), {}, "1", DAY), [], [h.actor.incarnation]),
    "renew": lambda h, s: s.renew(BOB, h.actor.incarnation),
    "leave": lambda h, s: s.leave(BOB, h.actor.incarnation),
    "take_over": lambda h, s: s.take_over(BOB, h.actor.incarnation, 0, CrashRule()),
    "rescue": lambda h, s: s.rescue(BOB, CrashRule()),
    "promote": lambda h, s: s.promote(BOB, PLENTY),
    "promote_jobs": lambda h, s: s.promote_jobs(BOB, h.ids),
    "scheduled_jobs": lambda h, s: s.scheduled_jobs(BOB, ScheduledJob(0, ""), h.world.clock.now() + DAY, PLENTY),
    "due_times": lambda h, s: s.due_times(BOB, h.ids),
    "coming_schedules": lambda h, s: s.coming_schedules(BOB, h.world.clock.now(), PLENTY),
    "set_aside_schedule": lambda h, s: s.set_aside_schedule(BOB, "alice", "nightly", 1, "sabotage"),
    "release": lambda h, s: s.release(BOB, PLENTY),
    "settle": lambda h, s: s.settle(BOB, PLENTY),
    "admit": lambda h, s: s.admit(BOB, PLENTY),
    "charge": lambda h, s: s.charge(BOB, {("default", "alice/true"): DAY}),
    "unoffered": lambda h, s: s.unoffered(BOB),
    "set_aside_unoffered": lambda h, s: s.set_aside_unoffered(BOB, 0, PLENTY),
    "set_aside_task": lambda h, s: s.set_aside_task(BOB, Unoffered("default", "true", 0), 0, PLENTY),
    "secret": lambda h, s: s.secret(BOB, "tickets"),
    "repeat_steps": lambda h, s: s.repeat_steps(BOB, "alice", "her key"),
    "seal_repeat": lambda h, s: s.seal_repeat(BOB, "alice", "her key", KeptStep(0, "route", "digest", b""), DAY),
    "prune": lambda h, s: s.prune(BOB, Retention(0, 0, 0, 0), PLENTY),
    "grant_of": lambda h, s: s.grant_of(BOB, "her hash"),
    "touch_keys": lambda h, s: s.touch_keys(BOB, {"hers": 1}),
    "add_first_key": lambda h, s: s.add_first_key(BOB, HIS_KEY),
}


# They concern everyone's jobs, and so are for operators. Without one's leave none of them may be done.
OPERATORS: dict[str, Deed] = {
    "pause_queue": lambda h, s: s.pause_queue(BOB, "default", "sabotage"),
    "resume_queue": lambda h, s: s.resume_queue(BOB, "default"),
    "set_step": lambda h, s: s.set_step(BOB, "default", 0),
    "set_feedback": lambda h, s: s.set_feedback(BOB, "default", None),
}
# They concern other users, and so are for admins.
ADMINS: dict[str, Deed] = {
    "put_user": lambda h, s: s.put_user(BOB, "bob", NO_QUOTAS, new=True),
    "remove_user": lambda h, s: s.remove_user(BOB, "alice"),
    "add_key": lambda h, s: s.add_key(BOB, HIS_KEY),
    "revoke_key": lambda h, s: s.revoke_key(BOB, "hers"),
    "rotate_key": lambda h, s: s.rotate_key(BOB, "hers", "mine", "hash", 0, None),
    "keys": lambda h, s: s.keys(BOB),
}
# What anyone may do with what is his own, aimed at what is not; and what anyone may know of the cluster.
PEOPLE: dict[str, Deed] = {
    "submit": lambda h, s: s.submit(BOB, [[h.world.job(key="k")]]),
    "cancel": lambda h, s: s.cancel(BOB, h.ids, "sabotage"),
    "replay": lambda h, s: s.replay(BOB, h.ids, again=True),
    "hurry": lambda h, s: s.hurry(BOB, h.ids),
    "purge": lambda h, s: s.purge(BOB, h.ids),
    "reprioritise": lambda h, s: s.reprioritise(BOB, h.ids, 0),
    "get_many": lambda h, s: s.get_many(BOB, h.ids),
    "glance": lambda h, s: s.glance(BOB, h.ids),
    "page": lambda h, s: s.page(BOB, JobFilter(ids=tuple(h.ids), limit=len(h.ids))),
    "count": lambda h, s: s.count(BOB, JobFilter(ids=tuple(h.ids))),
    "error_groups": lambda h, s: s.error_groups(BOB, JobFilter()),
    "counted": lambda h, s: s.counted(BOB, JobFilter()),
    "facets": lambda h, s: s.facets(BOB, JobFilter()),
    "values": lambda h, s: s.values(BOB, "task", "", PLENTY),
    "resolve": lambda h, s: s.resolve(BOB, h.jobs[State.READY]),
    "output": lambda h, s: s.output(BOB, h.jobs[State.RUNNING], Position(), PLENTY),
    "segments": lambda h, s: s.segments(BOB, SegmentScan()),
    "segment_extent": lambda h, s: s.segment_extent(BOB, SegmentScan()),
    "unsealed": lambda h, s: s.unsealed(BOB, RawScan()),
    "find_lines": lambda h, s: s.find_lines(BOB, LineQuery()),
    "counts": lambda h, s: s.counts(BOB),
    "statistics": lambda h, s: s.statistics(BOB, Window(HOUR)),
    "history": lambda h, s: s.history(BOB, Window(HOUR, MINUTE)),
    "events": lambda h, s: s.events(BOB, 0, PLENTY),
    "outbox_span": lambda h, s: s.outbox_span(BOB),
    "watch": lambda h, s: s.watch(BOB),
    "parents": lambda h, s: s.parents(BOB, h.jobs[State.BLOCKED]),
    "workflows": lambda h, s: s.workflows(BOB, WorkflowFilter()),
    "workflow": lambda h, s: s.workflow(BOB, WORKFLOW),
    "resolve_workflow": lambda h, s: s.resolve_workflow(BOB, WORKFLOW),
    "close_gate": lambda h, s: s.close_gate(BOB, NewGate(HIS, match(everything=True), Effect.DROP, "sabotage")),
    "open_gate": lambda h, s: s.open_gate(BOB, PAUSING),
    "gates": lambda h, s: s.gates(BOB),
    "set_limit": lambda h, s: s.set_limit(BOB, Limit("her key", 1)),
    "remove_limit": lambda h, s: s.remove_limit(BOB, "her secret key"),
    "limits": lambda h, s: s.limits(BOB),
    "acquire_lock": lambda h, s: s.acquire_lock(BOB, "her lock", "holder", HOUR),
    "renew_lock": lambda h, s: s.renew_lock(BOB, "her lock", "holder", FIRST_FENCE, HOUR),
    "release_lock": lambda h, s: s.release_lock(BOB, "her lock", "holder"),
    "free_lock": lambda h, s: s.free_lock(BOB, "her lock"),
    "locks": lambda h, s: s.locks(BOB, ["her lock"]),
    "queues": lambda h, s: s.queues(BOB),
    "flows": lambda h, s: s.flows(BOB, PLENTY),
    "waiting": lambda h, s: s.waiting(BOB, h.jobs[State.HELD]),
    "make_known": lambda h, s: s.make_known(BOB, [TaskInfo("hers", priority=0)]),
    "tasks": lambda h, s: s.tasks(BOB),
    "offering": lambda h, s: s.offering(BOB),
    "nodes": lambda h, s: s.nodes(BOB),
    "users": lambda h, s: s.users(BOB, ["alice"]),
    "quota_use": lambda h, s: s.quota_use(BOB),
    "audit": lambda h, s: s.audit(BOB, AuditFilter()),
}


# Whose schedules and calendars: tests/contracts/test_schedules.py, test_fires.py and test_calendars.py.
SCHEDULES = {
    "put_schedule", "pause_schedule", "resume_schedule", "remove_schedule", "undeclare_schedules", "make_fires",
    "advance", "schedules", "fires", "put_calendar", "remove_calendar", "calendars",
}  # fmt: skip


@pytest.mark.parametrize("verb", PEOPLE)
async def test_no_verb_of_people_reaches_what_is_another_s(house: House, verb: str) -> None:
    before = await hers(house)
    answer = await PEOPLE[verb](house, house.world.store)
    assert "secret" not in repr(answer).replace("secrets=()", "")
    assert not any(job in repr(answer) for job in house.ids)
    await house.world.store.admit(SYSTEM, PLENTY)
    assert await hers(house) == before


@pytest.mark.parametrize("verb", OPERATORS)
async def test_what_concerns_everyone_is_for_operators(house: House, verb: str) -> None:
    async with house.world.unchanged():
        with pytest.raises(NotAllowed, match=r"user 'bob' may not .* it is for operators"):
            await OPERATORS[verb](house, house.world.store)


@pytest.mark.parametrize("verb", ADMINS)
async def test_what_concerns_other_users_is_for_admins(house: House, verb: str) -> None:
    async with house.world.unchanged():
        with pytest.raises(NotAllowed, match=r"user 'bob' may not .* it is for admins"):
            await ADMINS[verb](house, house.world.store)


async def test_operators_are_those_who_are_told_so() -> None:
    assert not Principal("bob").operates
    assert [who.operates for who in (LOCAL, SYSTEM, OLGA)] == [True] * 3
    assert OLGA.sees == "olga", "she sees no more than others"


@pytest.mark.parametrize("verb", DEEDS)
async def test_no_verb_of_a_service_helps_a_user_to_the_jobs_of_another(house: House, verb: str) -> None:
    """It refuses with an error of rota's own, or finds nothing to do; it must not show or touch them."""
    house.world.clock.advance(1)
    if verb == "rescue":
        house.world.backend.lose_node(house.actor.incarnation)
    before = await hers(house)
    answer: object = None
    refused = verbs(type(house.world.store))[verb].by is Caller.NODE
    with pytest.raises(NotAllowed) if refused else nullcontext():
        answer = await DEEDS[verb](house, house.world.store)
    assert "secret" not in repr(answer)
    assert not any(job in repr(answer) for job in house.ids)
    assert {info.id for info in await house.world.store.find(SYSTEM, JobFilter())} == set(house.ids)
    assert await hers(house) == before


def test_every_verb_takes_a_principal_and_is_looked_at_here() -> None:
    assert set(verbs(Store)) == set(PEOPLE) | set(OPERATORS) | set(ADMINS) | set(DEEDS) | SCHEDULES


async def test_what_all_share_tells_nothing_of_the_jobs_of_others(world: World) -> None:
    theirs, mine = await world.several(3, Principal("bob")), await world.one(ALICE)
    node = await world.node()
    await node.claim(1)
    waiting = await world.store.waiting(ALICE, mine)
    assert waiting is not None
    assert waiting.queue is not None
    assert (waiting.ahead, waiting.queue.ready, waiting.queue.running) == (0, 1, 0)
    last = await world.store.waiting(Principal("bob"), theirs[-1])
    assert last is not None
    assert last.ahead == 1, "one runs, one goes first"
    running = {who.user: (await world.store.nodes(who))[0].running for who in (ALICE, Principal("bob"), LOCAL)}
    assert running == {ALICE.user: 0, "bob": 1, "local": 1}, "operators look after nodes"
