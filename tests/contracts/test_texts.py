"""Texts: whatever Unicode holds is kept as it is; what no UTF-8 can carry is refused in rota's own words."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from rota.errors import RotaError
from rota.model import outcome
from rota.model.job import Claimed, Ref
from rota.model.lifecycle import JobEvent
from rota.model.outcome import Ending, Problem, Settlement
from rota.model.principal import LOCAL, SYSTEM, Principal
from rota.store.base import Store
from rota.store.values import JobFilter, Position
from tests.contracts.world import Actor, World

ODD = [
    "naïve ☃ 𝄞",
    "a\tb\nc",
    "quote ' \" \\ -- /* ;",
    "%_*?[",
    "\x7f\x01",
    "e\u0301",
    "\u202eright to left",
    "0",
    "null",
]


@pytest.mark.parametrize("text", ODD)
async def test_any_text_is_kept_as_it_is(world: World, text: str) -> None:
    actor = await world.node(text)
    owner = Principal(text)
    job_id = await world.one(owner, task=text, queue=text, key=text)
    (claimed,) = await actor.claim(queue=text)
    assert (claimed.owner, claimed.task, claimed.queue) == (text, text, text)
    await world.store.cancel(owner, [job_id], text)
    assert (await actor.renew()).cancels == ((claimed.ref, text),)
    await actor.finish(claimed, outcome.Failed(Problem(text, text, text), fatal=True))
    info = await world.info(job_id)
    assert (info.owner, info.task, info.queue, info.key, info.reason) == (text, text, text, text, text)
    assert info.error == Problem(text, text, text)
    assert info.attempts[0].node == text
    assert [found.id for found in await world.store.find(owner, JobFilter(queue=text, error=text))] == [job_id]
    (event,) = await world.store.events(owner, 0, 10)
    assert (event.owner, event.data["reason"]) == (text, text)


HALF = "\udcff"  # what Python makes of a byte that is no UTF-8, in a file name or an argument
Deed = Callable[[World, Actor, Claimed, Store], Awaitable[object]]
DEEDS: dict[str, Deed] = {
    "get": lambda w, a, c, s: s.get(LOCAL, HALF),
    "find ids": lambda w, a, c, s: s.find(LOCAL, JobFilter(ids=(HALF,))),
    "find task": lambda w, a, c, s: s.find(LOCAL, JobFilter(task=HALF)),
    "find queue": lambda w, a, c, s: s.find(LOCAL, JobFilter(queue=HALF)),
    "find error": lambda w, a, c, s: s.find(LOCAL, JobFilter(error=HALF)),
    "resolve": lambda w, a, c, s: s.resolve(LOCAL, HALF),
    "output": lambda w, a, c, s: s.output(LOCAL, HALF, Position(), 1),
    "cancel": lambda w, a, c, s: s.cancel(LOCAL, [HALF], "x"),
    "cancel for": lambda w, a, c, s: s.cancel(LOCAL, [c.job_id], HALF),
    "replay": lambda w, a, c, s: s.replay(LOCAL, [HALF]),
    "hurry": lambda w, a, c, s: s.hurry(LOCAL, [HALF]),
    "purge": lambda w, a, c, s: s.purge(LOCAL, [HALF]),
    "submit task": lambda w, a, c, s: s.submit(LOCAL, [[w.job(), w.job(task=HALF)]]),
    "submit key": lambda w, a, c, s: s.submit(LOCAL, [[w.job(), w.job(key=HALF)]]),
    "submit args": lambda w, a, c, s: s.submit(LOCAL, [[w.job(), w.job(args=f'"{HALF}"')]]),
    "submit by": lambda w, a, c, s: s.submit(Principal(HALF), [[w.job()]]),
    "start": lambda w, a, c, s: s.start(SYSTEM, [Ref(HALF, 1)]),
    "hand back": lambda w, a, c, s: s.hand_back(SYSTEM, [Ref(HALF, 1)]),
    "finish": lambda w, a, c, s: s.finish(
        SYSTEM, [Settlement(c.job_id, c.fence, JobEvent.FAIL, Ending.FAILED, error=Problem(HALF, HALF), reason=HALF)]
    ),
    "say": lambda w, a, c, s: s.append_output(SYSTEM, [a.chunk(c.ref, 0, b"x", HALF)]),
}


@pytest.mark.parametrize("deed", DEEDS)
async def test_what_no_store_can_keep_is_refused_and_changes_nothing(world: World, deed: str) -> None:
    """Or it is simply not found. Anything but an error of rota's own would reach the user as a traceback."""
    actor = await world.node()
    await world.one()
    claimed = await actor.take()
    async with world.unchanged():
        with suppress(RotaError):
            await DEEDS[deed](world, actor, claimed, world.store)
