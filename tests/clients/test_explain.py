"""Why a job is where it is: every kind of reason, from values and from stores."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rota
from rota.clients.explain import MOST_NAMED, explain
from rota.errors import NotFound
from rota.model.gates import Effect, Gate, Match
from rota.model.graph import EdgeState, Need, ParentInfo
from rota.model.job import JobInfo, Kind
from rota.model.lifecycle import LIVE, TERMINAL, State
from rota.model.limits import RUNNING_QUOTA, Key, Rate
from rota.model.outcome import Problem
from rota.model.principal import SYSTEM
from rota.model.requirements import Requirements
from rota.model.times import HOUR, MINUTE, SECOND, aware, aware_or_none, iso
from rota.store.admission import Holder, LimitInfo, QueueInfo, Waiting
from rota.testing import Harness, harness
from tests.store.postgres.backends import migrated_database

NOW = 1_800_000_000 * SECOND
SINCE = iso(NOW)
GATE = Gate(
    id="g1", match=Match(task="mail.*"), effect=Effect.PAUSE, reason="smtp is down", author="eve", created_at=aware(NOW)
)


def job(state: State, **changes: Any) -> JobInfo:
    known: dict[str, Any] = {
        "id": "j1", "owner": "local", "task": "mail.send", "kind": Kind.FUNCTION, "spec": {}, "args": {},
        "queue": "mail", "priority": 5, "state": state, "run_at": NOW, "created_at": NOW,
    }  # fmt: skip
    given = known | changes
    times = {name: aware_or_none(given.get(name)) for name in ("run_at", "created_at", "started_at")}
    return JobInfo(**(given | times))


def told(info: JobInfo, waiting: Waiting | None = None, *parents: ParentInfo) -> list[tuple[str, str]]:
    found = explain(info, parents, waiting, NOW)
    assert (found.job, found.state) == (info.id, info.state)
    assert str(found) == "\n".join(reason.text for reason in found.reasons)
    msgspec.json.encode(found)
    return [(reason.kind, reason.text) for reason in found.reasons]


@pytest.mark.parametrize(
    ("info", "text"),
    [
        (job(State.SUCCEEDED, reason="x"), "it succeeded"),
        (job(State.FAILED, error=Problem("E", "no luck")), "it failed for good: no luck"),
        (job(State.CANCELLED, reason="expired"), "it was cancelled: expired"),
        (job(State.SKIPPED, reason="key x was taken"), "it was skipped: key x was taken"),
        (job(State.DROPPED), "it was dropped by a gate"),
    ],
)
def test_how_it_ended(info: JobInfo, text: str) -> None:
    assert told(info) == [("ended", text)]


def test_parents_that_it_waits_for() -> None:
    parents = [ParentInfo(f"p{n}", "load", State.RUNNING, Need.FINISH) for n in range(MOST_NAMED + 2)]
    parents[1] = ParentInfo("p1", "load", State.RUNNING, Need.FINISH, name="part 1")
    done = ParentInfo("p9", "done", State.SUCCEEDED, Need.SUCCESS, EdgeState.MET)
    reasons = told(job(State.BLOCKED), Waiting(now=NOW), done, *parents)
    assert reasons[0] == ("parent", "it waits for its parent p0 (load) to end; that is running")
    assert reasons[1] == ("parent", "it waits for its parent p1 (part 1) to end; that is running")
    assert reasons[-1] == ("parent", f"and for 2 more of its {MOST_NAMED + 3} parents")
    assert len(reasons) == MOST_NAMED + 1


def test_earlier_fires_that_it_waits_for() -> None:
    assert told(job(State.BLOCKED, schedule="nightly"), Waiting(now=NOW)) == [
        ("schedule", "it waits for earlier fires of schedule 'nightly' to end")
    ]


def test_its_time_has_not_come() -> None:
    (reason,) = told(job(State.SCHEDULED, run_at=NOW + HOUR, failures=2, reason="no luck"), Waiting(now=NOW))
    assert reason == ("time", "its time is 2027-01-15T09:00:00.000000+00:00 after 2 failed attempts, in 1h (no luck)")
    ((kind, text),) = told(job(State.SCHEDULED, run_at=NOW - 1), Waiting(now=NOW))
    assert kind == "time"
    assert text.endswith("now: a control node has yet to see to it")


def test_a_gate_in_its_way() -> None:
    (reason,) = told(job(State.HELD), Waiting(gate=GATE, now=NOW))
    assert reason == ("gate", "a gate of eve holds task mail.*: smtp is down (gate g1)")
    dropping = msgspec.structs.replace(GATE, effect=Effect.DROP, until=aware(NOW + HOUR))
    ((_, text),) = told(job(State.HELD), Waiting(gate=dropping, now=NOW))
    assert text.startswith("a gate of eve drops task mail.* until 2027-01-15T09:00:00")


def test_keys_that_are_full() -> None:
    holders = tuple(Holder(f"h{n}", 1, aware(NOW - MINUTE), "n1") for n in range(MOST_NAMED + 1))
    full = LimitInfo("local", "db", len(holders), None, holders, 3)
    spent = LimitInfo("local", "api", None, Rate(60, MINUTE), (), 4, aware(NOW + 20 * SECOND))
    free = LimitInfo("local", "free", 9, Rate(60, MINUTE), holders, 1)
    first, second = told(job(State.HELD), Waiting(keys=(full, spent, free), now=NOW))
    assert first[1].startswith("key 'db' allows 6 at once and is held by h0 on n1 for 1m, h1 on n1 for 1m")
    assert first[1].endswith(" and 1 more; 3 wait in line")
    assert second == ("key", "key 'api' allows 60/1m, all used; the next start is in 20s; 4 wait in line")


def test_a_quota_for_running_jobs_that_is_used_up() -> None:
    holder = Holder("a", 1, aware(NOW - SECOND), "n1")
    used_up = Waiting(keys=(LimitInfo("ann", RUNNING_QUOTA, 1, None, (holder,), 3),), now=NOW)
    said = "the quota of user 'ann' for running jobs is used up: running=1, 1 run (a on n1 for 1s); 3 wait in line"
    assert told(job(State.HELD), used_up) == [("quota", said)]
    (reason,) = explain(job(State.HELD), [], used_up, NOW).reasons
    assert (reason.data["quota"], reason.data["used"], reason.data["allowed"]) == ("running", 1, 1)
    free = Waiting(keys=(LimitInfo("ann", RUNNING_QUOTA, 2, None, (holder,), 0),), now=NOW)
    assert [one.kind for one in explain(job(State.READY), [], free, NOW).reasons] == ["rank"]


def test_a_queue_that_is_paused_and_a_task_that_nobody_knows() -> None:
    queue = QueueInfo(name="mail", running=3, slots=4, nodes=2, paused_at=aware(NOW), paused_by="eve", note="new disk")
    reasons = told(job(State.READY), Waiting(queue=queue, offered=False, ahead=7, now=NOW))
    assert reasons == [
        ("queue", "queue 'mail' was paused by eve: new disk"),
        ("worker", f"no live node serves queue 'mail' and knows task 'mail.send'; it has been ready since {SINCE}"),
        (
            "rank",
            "it is ready in queue 'mail' with priority 5: 7 ready jobs of yours go first; "
            "3 of yours run, 4 slots on 2 nodes",
        ),
    ]
    assert told(job(State.READY, kind=Kind.COMMAND), Waiting(offered=False, now=NOW))[0] == (
        "worker", f"no live node serves queue 'mail'; it has been ready since {SINCE}",
    )  # fmt: skip
    assert told(job(State.HELD), Waiting(offered=False, now=NOW))[-1] == (
        "worker", "no live node serves queue 'mail' and knows task 'mail.send'",
    )  # fmt: skip


def test_a_task_that_no_node_has_ever_offered() -> None:
    queue = QueueInfo(name="mail", running=0, slots=16, nodes=1)
    waiting = Waiting(queue=queue, offered=False, known=False, now=NOW)
    ((kind, text),) = told(job(State.READY), waiting)  # and not that it is next: no node can take it
    assert kind == "worker"
    assert text == (
        f"no live node serves queue 'mail' and knows task 'mail.send'; it has been ready since {SINCE}; "
        "no node has ever offered that task, and unless one does it goes to the dead letters after `unknown_grace` "
        f"(a setting of control nodes; by default 1h: at {iso(NOW + HOUR)})"
    )
    ((_, text),) = told(job(State.SCHEDULED, run_at=NOW + HOUR), waiting)[1:]
    assert text.endswith("(a setting of control nodes; by default 1h)")


def test_it_is_next() -> None:
    ((kind, text),) = told(job(State.READY), Waiting(now=NOW))
    assert (kind, text) == ("rank", "it is ready in queue 'mail' with priority 5: it is the next of yours")


def test_it_runs() -> None:
    waiting = Waiting(node="n1", lease_until=NOW + 10 * SECOND, gate=GATE, now=NOW)
    (reason,) = told(job(State.RUNNING, started_at=NOW - MINUTE, cancelling=True), waiting)
    assert reason == (
        "running",
        "it runs on node n1 for 1m, and was asked to stop; its node is trusted until 2027-01-15T08:00:10.000000+00:00",
    )


def test_what_nothing_is_known_of() -> None:
    assert told(job(State.HELD)) == [("state", "it is held")]
    assert told(job(State.BLOCKED)) == [("state", "it is blocked")]


# -- whatever rows hold ----------------------------------------------------------------------------------------------
moments = st.integers(-(2**63), 2**63 - 1)
times = moments.map(aware)
texts = st.text(max_size=20)
counts = st.integers(0, 2**40)
gates = st.none() | st.builds(
    Gate, id=texts, match=st.builds(Match, st.none() | texts, st.none() | texts), effect=st.sampled_from(Effect),
    reason=texts, author=texts, created_at=times, until=st.none() | times,
)  # fmt: skip
rates = st.none() | st.builds(Rate, counts, counts)
holders = st.builds(Holder, job=texts, fence=counts, since=times, node=st.none() | texts)
limits = st.builds(
    LimitInfo, owner=texts, key=texts, concurrency=st.none() | counts, rate=rates,
    holders=st.lists(holders, max_size=8).map(tuple), waiting=counts, next_start=st.none() | times,
)  # fmt: skip
queues = st.none() | st.builds(
    QueueInfo, name=texts, running=counts, slots=counts, nodes=counts, paused_at=st.none() | times,
    paused_by=st.none() | texts, note=texts,
)  # fmt: skip
waitings = st.none() | st.builds(
    Waiting, gate=gates, keys=st.lists(limits, max_size=3).map(tuple), queue=queues, ahead=counts, rank=moments,
    node=st.none() | texts, lease_until=st.none() | moments, offered=st.booleans(), now=moments,
)  # fmt: skip
parents = st.lists(
    st.builds(
        ParentInfo, texts, texts, st.none() | st.sampled_from(State), st.sampled_from(Need), st.sampled_from(EdgeState)
    ),
    max_size=8,
)
needed = st.builds(Requirements, keys=st.lists(st.builds(Key, texts), max_size=2).map(tuple))
jobs = st.builds(
    job, st.sampled_from(State), task=texts, kind=st.sampled_from(Kind), queue=texts, priority=moments, run_at=moments,
    reason=st.none() | texts, started_at=st.none() | moments, failures=counts, crashes=counts, node=st.none() | texts,
    cancelling=st.booleans(), schedule=st.none() | texts, requirements=needed,
    error=st.none() | st.builds(Problem, texts, texts),
)  # fmt: skip


@settings(deadline=None)
@given(jobs, parents, waitings, moments)
def test_there_is_always_a_reason(info: JobInfo, of: list[ParentInfo], waiting: Waiting | None, now: int) -> None:
    found = explain(info, of, waiting, now)
    assert found.reasons
    assert all(reason.kind and reason.text for reason in found.reasons)
    msgspec.json.encode(found)
    assert (found.reasons[0].kind == "ended") is (info.state in TERMINAL)


# -- from stores -----------------------------------------------------------------------------------------------------
app = rota.App("sqlite:///never-made.db")


@app.task(retry=0)
async def good() -> None: ...


@app.task(retry=0)
async def bad() -> None:
    raise ValueError("no luck")


@app.task(retry=rota.Retry(3, backoff="1h", jitter=0))
async def flaky() -> None:
    raise ValueError("not yet")


@app.task
async def curious(ctx: rota.Context) -> Any:
    return (await rota.Job(app, ctx.job.id).explain()).reasons


@pytest.fixture(params=["sqlite", "postgres"])
async def stage(request: pytest.FixtureRequest) -> AsyncIterator[Harness]:
    if request.param == "sqlite":
        async with harness(app) as rota_test:
            yield rota_test
        return
    with migrated_database() as url:
        async with harness(app, store=url) as rota_test:
            yield rota_test


async def kinds(one: rota.Job[Any]) -> list[str]:
    return [reason.kind for reason in (await one.explain()).reasons]


async def test_jobs_that_have_ended_and_jobs_that_wait(stage: Harness) -> None:
    done, failed, again = await good.submit(), await bad.submit(), await flaky.submit()
    later = await good.options(delay="2h").submit()
    child = await good.options(after=later).submit()
    await stage.run_due()
    assert str(await done.explain()) == "it succeeded"
    assert str(await failed.explain()) == "it failed for good: no luck (after 1 attempt, 1 failed, 0 crashed)"
    assert "after 1 failed attempt, in 1h" in str(await again.explain())
    assert (await kinds(later))[0] == "time"
    assert f"it waits for its parent {later.id} (good) to succeed; that is scheduled" in str(await child.explain())


async def test_jobs_that_gates_and_keys_hold(stage: Harness) -> None:
    admissions = await app.admissions()
    gate = await admissions.pause(label="x", reason="not now")
    await admissions.set_limit("k", starts="1/1h")
    gated, keyed = await good.options(labels="x").submit(), good.options(limits={"k": None})
    first, second = await keyed.submit(), await keyed.submit()
    await stage.run_due()
    found = (await gated.explain()).reasons[0]
    assert (found.kind, found.data["gate"]) == ("gate", gate.id)
    waits = second if (await first.info()).ended else first
    found = (await waits.explain()).reasons[0]
    assert (found.kind, found.data["key"], found.data["waiting"]) == ("key", "k", 1)
    assert "allows 1/1h, all used; the next start is in " in found.text


async def test_a_job_that_runs_explains_itself(stage: Harness) -> None:
    one = await curious.submit()
    await stage.run_due()
    (reason,) = await one.result()
    assert reason["kind"] == "running"
    assert reason["text"].startswith("it runs on node harness")


async def test_a_job_that_nobody_serves(stage: Harness) -> None:
    lost = good.options(queue="nowhere", priority=2)
    first, second = await lost.submit(), await lost.submit()
    assert await kinds(first) == ["worker", "rank"]
    assert "1 ready job of yours goes first" in str(await second.explain())
    await second.cancel()
    assert str(await second.explain()) == "it was cancelled: cancelled by its user"


async def test_every_live_state_has_its_reason(stage: Harness) -> None:
    assert {State.BLOCKED, State.SCHEDULED, State.HELD, State.READY, State.RUNNING} == LIVE
    with pytest.raises(NotFound):
        await rota.Job(app, "zzz").explain()
    with pytest.raises(NotFound):
        await (await app._core.client()).explain("00000000-0000-7000-8000-000000000000")
    assert await (await app._core.client()).store.waiting(SYSTEM, "zzz") is None
