"""Who may run, through the Python interface, on both stores."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

import rota
from rota.clients.limits import LimitsClient
from rota.errors import InvalidInput, NotFound
from rota.model.gates import Effect, Match
from rota.model.job import Kind
from rota.model.lifecycle import State
from rota.model.limits import Rate
from rota.model.node import NewNode
from rota.model.principal import SYSTEM, Principal
from rota.model.rank import AGEING_STEP
from rota.model.times import HOUR, SECOND, instant, iso
from rota.testing import Harness, harness
from rota.views.jobs import AloneView, JobView
from tests.store.postgres.backends import migrated_database

app = rota.App("sqlite:///never-made.db")
order: list[object] = []


@app.task(queue="mail", labels=["mail", "slow"])
async def send(to: str = "you") -> str:
    return to


@app.task
async def note(what: object) -> None:
    order.append(what)


@app.task(exclusive="user:{user}", limits={"db": 2, "api:{place.region}": "2/1h"}, retry=0)
async def work(user: int, place: dict[str, str]) -> None: ...


@app.task(rate="2/10s")
async def ping() -> None: ...


@app.task
async def probe(ctx: rota.Context, key: str) -> list[str]:
    """Whoever holds a key, seen by who holds it."""
    (info,) = await (await app.admissions()).limits([key])
    return [holder.job for holder in info.holders]


class Stage:
    def __init__(self, rota_test: Harness, admissions: LimitsClient) -> None:
        self.test, self.admissions = rota_test, admissions

    async def run(self) -> None:
        """What is due now, with what control does about those that were held."""
        for _ in range(3):
            await self.test.run_due()
            await (await app._core.client()).store.admit(SYSTEM, 1_000)
        await self.test.run_due()


@pytest.fixture(params=["sqlite", "postgres"])
async def stage(request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    order.clear()
    if request.param == "sqlite":
        async with harness(app) as rota_test:
            yield Stage(rota_test, await app.admissions())
        return
    with migrated_database() as url:
        async with harness(app, store=url) as rota_test:
            yield Stage(rota_test, await app.admissions())


async def state(job: rota.Job[Any]) -> State:
    return (await job.info()).state


# -- gates -----------------------------------------------------------------------------------------------------------
async def test_a_gate_holds_and_lets_go(stage: Stage) -> None:
    gate = await stage.admissions.pause(label="slow", reason=" smtp is down ")
    assert (gate.match, gate.effect, gate.reason, gate.author) == (
        Match(label="slow"), Effect.PAUSE, "smtp is down", "local",
    )  # fmt: skip
    held, free = await send.submit(), await note.submit(what=1)
    await stage.run()
    assert (await state(held), await state(free)) == (State.HELD, State.SUCCEEDED)
    assert [(one.id, one.held) for one in await stage.admissions.gates()] == [(gate.id, 1)]
    assert (await stage.admissions.open(gate.id[-8:])).id == gate.id
    await stage.run()
    assert await state(held) is State.SUCCEEDED
    assert await stage.admissions.gates() == []


async def test_a_gate_opens_by_itself(stage: Stage) -> None:
    until = stage.test.clock.now() + HOUR
    await stage.admissions.pause(everything=True, reason="lunch", until=iso(until))
    job = await send.submit()
    await stage.run()
    assert await state(job) is State.HELD
    stage.test.clock.advance(3601)
    await stage.run()
    assert await state(job) is State.SUCCEEDED


async def test_a_gate_drops_what_waits_and_what_comes(stage: Stage) -> None:
    waits, blocked = await send.options(delay="1h").submit(), await note.submit(what=2)
    child = await send.options(after=blocked).submit()
    await stage.admissions.drop(task="se*", queue="mail", reason="not needed")
    comes = await send.submit()
    await stage.run()
    assert [await state(job) for job in (waits, child, comes)] == [State.DROPPED] * 3
    assert (await comes.info()).reason == "not needed"
    assert [gate.dropped for gate in await stage.admissions.gates()] == [3]
    assert await state(blocked) is State.SUCCEEDED


async def test_jobs_that_are_not_ready_are_only_held_when_they_would_be(stage: Stage) -> None:
    later = await send.options(delay="1h").submit()
    await stage.admissions.pause(queue="mail", reason="x")
    await stage.run()
    assert await state(later) is State.SCHEDULED
    stage.test.clock.advance(3601)
    await stage.run()
    assert await state(later) is State.HELD


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "match: None is not valid; expected at least one of task, queue, user, label, or everything"),
        ({"everything": True, "queue": "q"}, "match: "),
        ({"everything": "yes"}, "everything: 'yes' is not valid; expected true or false"),
        ({"flavour": "x"}, "match: 'flavour' is not valid"),
        ({"task": ""}, "task: '' is not valid"),
        ({"label": "a b"}, "label: 'a b' is not valid"),
        ({"queue": "a b"}, "queue: 'a b' is not valid"),
        ({"user": "eve"}, "user: 'eve' is not valid; expected 'local': a gate concerns its author's own jobs"),
        ({"queue": "q", "reason": ""}, "reason: '' is not valid"),
        ({"queue": "q", "reason": None}, "reason: None is not valid"),
        ({"queue": "q", "reason": "x" * 1001}, "a text of up to 1000 printable characters"),
        ({"queue": "q", "reason": "a\nb"}, "reason: 'a\\nb' is not valid"),
        ({"queue": "q", "until": "2001-01-01T00:00:00Z"}, "expected a time to come"),
        ({"queue": "q", "until": "soon"}, "until: 'soon' is not valid"),
        ({"queue": "q", "until": 5}, "until: 5 is not valid"),
    ],
)
@pytest.mark.parametrize("effect", ["pause", "drop"])
async def test_gates_that_are_refused(given: dict[str, Any], said: str, effect: str) -> None:
    async with harness(app):
        admissions = await app.admissions()
        with pytest.raises(InvalidInput) as refused:
            await getattr(admissions, effect)(**{"reason": "x", **given})
        assert said in str(refused.value)
        assert await admissions.gates() == []


async def test_gates_that_nobody_can_open(stage: Stage) -> None:
    first = await stage.admissions.pause(queue="a", reason="x")
    await stage.admissions.pause(queue="b", reason="x")
    for part in ("", "zzz"):
        with pytest.raises(NotFound, match="no gate"):
            await stage.admissions.open(part)
    with pytest.raises(InvalidInput, match="an id that fits one only"):
        await stage.admissions.open(first.id[:2])
    with pytest.raises(InvalidInput, match="gate: 5 is not valid; expected a gate or its id"):
        await stage.admissions.open(5)  # type: ignore[arg-type]
    assert await stage.admissions.open(first.id.upper()) == first


async def test_the_gate_of_a_job_that_is_alone_opens_by_its_end_only(stage: Stage) -> None:
    client = await app._core.client()
    first = await send.submit()
    value = NewNode("n", "by-hand", ("worker",), {"mail": 1}, "0", 60 * SECOND)
    await client.store.register(SYSTEM, value, app._core.catalogue.infos(), [])
    await client.store.claim(SYSTEM, "by-hand", {"mail": 1}, [Kind.FUNCTION], {"mail": 1})
    lone = await note.submit(what=1, alone="queue:mail", drain="5m")
    await stage.run()
    (gate,) = await stage.admissions.gates()
    with pytest.raises(InvalidInput, match=f"this is of job {lone.id}, which wants to be alone: cancel that"):
        await stage.admissions.open(gate)
    (reason,) = [one for one in (await lone.explain()).reasons if one.kind == "alone"]
    said = "it wants to run with nothing else of queue mail; tries again later if that takes more than 5m"
    assert reason.text == f"{said}; still running: {first.id} (send)"
    assert reason.data == {"scope": "queue:mail", "drain": "5m", "drained": "yield", "running": [first.id]}
    assert JobView.of(await lone.info()).alone == AloneView("queue:mail", "5m", "yield")
    await lone.cancel()
    assert await stage.admissions.gates() == []


# -- limits ----------------------------------------------------------------------------------------------------------
async def test_keys_are_filled_in_from_arguments(stage: Stage) -> None:
    info = await (await work.submit(user=7, place={"region": "eu"})).info()
    assert [(key.name, key.concurrency, key.rate) for key in info.keys] == [
        ("api:eu", None, Rate(2, HOUR)), ("db", 2, None), ("user:7", 1, None),
    ]  # fmt: skip
    with pytest.raises(InvalidInput, match=r"field \{place.region\} of the key"):
        await work.submit(user=7, place={})


async def test_a_key_is_held_while_an_attempt_runs_and_no_longer(stage: Stage) -> None:
    jobs = [await probe.options(exclusive="k").submit(key="k") for _ in range(3)]
    await stage.run()
    assert [await job.result() for job in jobs] == [[job.id] for job in jobs]
    assert [info.holders for info in await stage.admissions.limits(["k"])] in ([], [()])


async def test_a_rate_is_kept(stage: Stage) -> None:
    jobs = [await ping.submit() for _ in range(5)]
    await stage.run()
    assert [await state(job) for job in jobs] == [State.SUCCEEDED] * 2 + [State.HELD] * 3
    (info,) = await stage.admissions.limits(["task:ping"])
    assert (info.waiting, info.rate) == (3, None)
    assert info.next_start is not None
    stage.test.clock.advance(9)
    await stage.run()
    assert await state(jobs[2]) is State.HELD
    for _ in range(2):
        stage.test.clock.advance(10.6)
        await stage.run()
    assert [await state(job) for job in jobs] == [State.SUCCEEDED] * 5
    starts = sorted([instant((await job.info()).attempts[0].started_at) for job in jobs])
    assert all(later - first >= 10 * SECOND for first, later in zip(starts, starts[2:], strict=False))


async def test_what_a_person_sets_wins(stage: Stage) -> None:
    limit = await stage.admissions.set_limit("db", starts="1/1h")
    assert (limit.concurrency, limit.rate) == (None, Rate(1, HOUR))
    jobs = [await note.submit(what=n, limits={"db": 5}) for n in range(2)]
    await stage.run()
    assert [await state(job) for job in jobs] == [State.SUCCEEDED, State.HELD]
    (info,) = await stage.admissions.limits(["db"])
    assert (info.rate, info.waiting) == (Rate(1, HOUR), 1)
    assert info.next_start is not None
    await stage.admissions.remove_limit("db")
    await stage.run()
    assert await state(jobs[1]) is State.SUCCEEDED


async def test_a_key_without_bounds_is_for_people_to_bound(stage: Stage) -> None:
    job = await note.submit(what=1, limits={"late": None})
    await stage.run()
    assert await state(job) is State.SUCCEEDED
    await stage.admissions.set_limit("late", starts="1/1d")
    jobs = [await note.submit(what=n, limits={"late": None}) for n in range(2)]
    await stage.run()
    assert [await state(one) for one in jobs].count(State.HELD) >= 1


async def test_a_full_key_skips_if_asked(stage: Stage) -> None:
    await stage.admissions.set_limit("x", starts="1/1d")
    first, second = [await note.submit(what=n, limits={"x": 1}, full="skip") for n in range(2)]
    await stage.run()
    assert (await state(first), await state(second)) == (State.SUCCEEDED, State.SKIPPED)
    assert (await second.info()).reason == "key x was taken"


async def test_limits_are_per_user(stage: Stage) -> None:
    await stage.admissions.set_limit("db", at_once=1)
    other = LimitsClient((await app._core.client()).store, Principal("eve"), app._core.chance)
    assert await other.limits() == []
    with pytest.raises(NotFound, match="no limit 'db'"):
        await other.remove_limit("db")
    assert [info.key for info in await stage.admissions.limits()] == ["db"]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda a: a.set_limit("db"), "how many at once, how many starts per window, or both"),
        (lambda a: a.set_limit("", at_once=1), "key: '' is not valid"),
        (lambda a: a.set_limit("db", at_once=0), "at_once: 0 is not valid"),
        (lambda a: a.set_limit("db", at_once=True), "at_once: True is not valid"),
        (lambda a: a.set_limit("db", at_once="5"), "at_once: '5' is not valid"),
        (lambda a: a.set_limit("db", starts="often"), "rate: 'often' is not valid"),
        (lambda a: a.set_limit("db", starts=5), "rate: 5 is not valid"),
        (lambda a: a.remove_limit(" db"), "key: ' db' is not valid"),
        (lambda a: a.pause_queue("a b"), "queue: 'a b' is not valid"),
        (lambda a: a.pause_queue("q", note=None), "note: None is not valid"),
        (lambda a: a.pause_queue("q", note="a\nb"), "note: 'a\\nb' is not valid"),
        (lambda a: a.resume_queue(""), "queue: '' is not valid"),
        (lambda a: a.set_feedback("q", "off"), "on: 'off' is not valid; expected True or False"),
        (lambda a: a.flows(0), "limit: 0 is not valid; expected a whole number from 1 to 1,000,000"),
        (lambda a: a.flows(10**30), "expected a whole number from 1 to 1,000,000"),
        (lambda a: a.flows("x"), "limit: 'x' is not valid"),
        (lambda a: a.limits("api"), "keys: 'api' is not valid; expected a list of keys"),
    ],
)
async def test_what_is_refused(call: Callable[[LimitsClient], Any], said: str) -> None:
    async with harness(app):
        admissions = await app.admissions()
        with pytest.raises(InvalidInput) as refused:
            await call(admissions)
        assert said in str(refused.value)
        assert await admissions.limits() == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"labels": "a b"}, "label: 'a b' is not valid"),
        ({"labels": 5}, "labels: 5 is not valid"),
        ({"exclusive": ""}, "exclusive: '' is not valid"),
        ({"exclusive": "user:{nobody}"}, "field {nobody} of the key"),
        ({"rate": "x"}, "rate: 'x' is not valid"),
        ({"limits": ["db"]}, "limits: ['db'] is not valid"),
        ({"limits": {"db": 0}}, "limit of key 'db': 0 is not valid"),
        ({"drain": "5s"}, "drain: '5s' is not valid; expected it together with alone="),
        ({"drained": "cancel"}, "drained: 'cancel' is not valid; expected it together with alone="),
        ({"full": "skip"}, "full: 'skip' is not valid; expected it together with exclusive=, rate= or limits="),
        ({"alone": "mail"}, "alone: 'mail' is not valid"),
        ({"limits": {"": 1}}, "limits: '' is not valid"),
        ({"full": "maybe"}, "full: 'maybe' is not valid; expected one of wait, skip, replace"),
    ],
)
async def test_orders_that_are_refused(options: dict[str, Any], said: str) -> None:
    async with harness(app):
        with pytest.raises(InvalidInput) as refused:
            await send.submit(**options)
        assert said in str(refused.value)
        assert await (await app._core.client()).store.counts(app._core.who) == {}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"exclusive": "user:{nobody}"}, "fields of task 'late': user"),
        ({"limits": {"a{b": 5}}, "key: 'a{b' is not valid"),
        ({"rate": 60}, "rate: 60 is not valid"),
    ],
)
def test_tasks_whose_keys_can_not_be(options: dict[str, Any], said: str) -> None:
    own = rota.App("sqlite:///never-made.db")
    with pytest.raises(InvalidInput) as refused:

        @own.task(**options)
        def late(user: int) -> None: ...

    assert said in str(refused.value)


# -- queues and priority ---------------------------------------------------------------------------------------------
async def test_nothing_of_a_paused_queue_starts(stage: Stage) -> None:
    await stage.admissions.pause_queue("mail", "no stamps")
    waits, runs = await send.submit(), await note.submit(what=1)
    await stage.run()
    assert (await state(waits), await state(runs)) == (State.READY, State.SUCCEEDED)
    (mail,) = [one for one in await stage.admissions.queues() if one.name == "mail"]
    assert (mail.ready, mail.paused_by, mail.note, mail.oldest) == (
        1,
        "local",
        "no stamps",
        (await waits.info()).run_at,
    )
    assert await stage.admissions.resume_queue("mail")
    assert not await stage.admissions.resume_queue("mail")
    await stage.run()
    assert await state(waits) is State.SUCCEEDED


async def test_the_lowest_rank_goes_first_and_nobody_waits_for_ever(stage: Stage) -> None:
    """A job of the least urgent kind is passed by those that come within nine steps, and by none that come later."""
    await note.submit(what="least urgent", priority=9)
    stage.test.clock.advance(9 * AGEING_STEP / SECOND - 1)
    await note.submit(what="just before", priority=0)
    stage.test.clock.advance(2)
    await note.submit(what="just after", priority=0)
    client = await app._core.client()
    claimed = await client.store.claim(SYSTEM, "harness", {"default": 3}, list(Kind), {"default": 3})
    assert [one.args for one in sorted(claimed, key=lambda one: one.rank)] == [
        '{"what":"just before"}', '{"what":"least urgent"}', '{"what":"just after"}',
    ]  # fmt: skip


async def test_a_job_that_becomes_urgent(stage: Stage) -> None:
    first, second = await note.submit(what=1, priority=3), await note.submit(what=2, priority=3)
    assert await second.reprioritise(0)
    explained = await first.explain()
    assert "1 ready job of yours goes first" in str(explained)
    await stage.run()
    assert not await second.reprioritise(0)
    for wrong in (10, -1, True, "0"):
        with pytest.raises(InvalidInput, match="priority"):
            await second.reprioritise(wrong)  # type: ignore[arg-type]
