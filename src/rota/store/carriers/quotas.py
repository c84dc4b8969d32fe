"""Quotas of users: what is ordered by an access key is counted, and refused if it is too much.

A user with quotas has its row held by each of its orders, so orders of several nodes count one after the other. Waiting
jobs are not counted with every order: that would read all jobs that wait. The row keeps a number instead: as counted up
to a minute ago, plus all that was ordered by keys since. When it reaches the quota, the jobs are counted again, at most
once a second.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import msgspec

from rota.errors import QuotaExceeded
from rota.model.job import NewJob
from rota.model.limits import RUNNING_QUOTA
from rota.model.principal import Principal
from rota.model.quotas import NO_QUOTAS, Quotas, submit_more, submitted
from rota.model.times import MINUTE, SECOND, Duration, Instant
from rota.store.carriers import limits
from rota.store.carriers.unit import Unit
from rota.store.people import QuotaUse
from rota.store.values import Answer

COUNT_AGAIN: Duration = SECOND  # if the quota seems to be used up
COUNT_ANYWAY: Duration = MINUTE
Orders = Sequence[Sequence[NewJob]]


def read_quotas(text: str) -> Quotas:
    """Quotas that don't decode count as none: they may have been written by hand."""
    with suppress(msgspec.MsgspecError):
        return msgspec.json.decode(text, type=Quotas)
    return NO_QUOTAS


class _Use(msgspec.Struct):
    """The row of a user, held until the unit is committed."""

    quotas: Quotas
    full_until: Instant
    waiting: int
    counted_at: Instant
    now: Instant


async def submit(
    unit: Unit, who: Principal, orders: Orders, accept: Callable[[Orders], Awaitable[list[Answer]]]
) -> list[Answer]:
    """Passes on to `accept` what the quotas of the user allow, and refuses the other orders."""
    if not who.key:
        return await accept(orders)
    await unit.begin()
    rows = await unit.rows("hold_quotas", name=who.user, now=unit.now)
    if not rows:
        return await accept(orders)
    quotas, *rest = rows[0]
    use = _Use(read_quotas(quotas), *rest)
    refused: dict[int, QuotaExceeded] = {}
    for place, order in enumerate(orders):
        try:
            await _take(unit, who.user, use, len(order))
        except QuotaExceeded as problem:
            if not await _known(unit, who.user, order):
                refused[place] = problem
    answers = iter(await accept([order for place, order in enumerate(orders) if place not in refused]))
    await _save(unit, who.user, use)
    return [refused[place] if place in refused else next(answers) for place in range(len(orders))]


async def hold(unit: Unit, who: Principal) -> None:
    """For verbs that lock jobs before they count them: orders hold the quotas first, then the jobs before them."""
    if who.key:
        await unit.rows("hold_quotas", name=who.user, now=unit.now)


async def take_made(unit: Unit, who: Principal, made: int) -> None:
    """Counts jobs that another verb than `submit` has just made to wait. QuotaExceeded undoes the unit."""
    if not who.key or not made:
        return
    for quotas, *rest in await unit.rows("hold_quotas", name=who.user, now=unit.now):
        use = _Use(read_quotas(quotas), *rest)
        await _take(unit, who.user, use, made, there=made)
        await _save(unit, who.user, use)


async def _save(unit: Unit, user: str, use: _Use) -> None:
    await unit.run("save_use", name=user, full_until=use.full_until, waiting=use.waiting, counted_at=use.counted_at)


async def _take(unit: Unit, user: str, use: _Use, more: int, there: int = 0) -> None:
    """`there`: as many of them are in the table already."""
    quotas, full_until = use.quotas, use.full_until
    if quotas.submissions is not None:
        full_until = submit_more(user, quotas.submissions, use.full_until, use.now, more)
    if quotas.waiting is not None:
        used_up = use.waiting + more > quotas.waiting
        if use.now >= use.counted_at + (COUNT_AGAIN if used_up else COUNT_ANYWAY):
            use.waiting, use.counted_at = await unit.value("waiting_jobs_of", owner=user) - there, use.now
        if use.waiting + more > quotas.waiting:
            raise QuotaExceeded(user, "waiting", use.waiting, str(quotas.waiting), more)
    use.full_until, use.waiting = full_until, use.waiting + more


async def _known(unit: Unit, user: str, order: Sequence[NewJob]) -> bool:
    """A repeat of an order that was accepted before makes nothing."""
    keys = {job.key for job in order}
    return None not in keys and await unit.value("keys_known_of", owner=user, keys=list(keys)) == len(keys)


async def check_schedules(unit: Unit, who: Principal) -> None:
    """Before a schedule is added; raises QuotaExceeded."""
    if not who.key:
        return
    for quotas, *_ in await unit.rows("hold_quotas", name=who.user, now=unit.now):
        bound = read_quotas(quotas).schedules
        used: int = await unit.value("count_schedules_of", owner=who.user) if bound is not None else 0
        if bound is not None and used >= bound:
            raise QuotaExceeded(who.user, "schedules", used, str(bound))


async def quota_use(unit: Unit, who: Principal) -> QuotaUse:
    rows = await unit.rows("quotas_of", name=who.user, now=unit.now)
    rate, full_until, now, output = (read_quotas(rows[0][0]).submissions, *rows[0][1:]) if rows else (None, 0, 0, 0)
    return QuotaUse(
        0 if rate is None else submitted(rate, full_until, now),
        await unit.value("waiting_jobs_of", owner=who.user),
        await unit.value("count_schedules_of", owner=who.user),
        await unit.value("running_jobs_of", owner=who.user),
        output,
    )


# -- running jobs ----------------------------------------------------------------------------------------------------
async def put_bounds(unit: Unit, user: str, quotas: Quotas) -> None:
    """The quotas that other verbs than orders keep to have rows and columns of their own: claims and appends of output
    find them there. For running jobs it is the limit of a key that all jobs of the user need, so claims count holders
    exactly, and the end of any attempt hands its place on."""
    await unit.run("bound_output", name=user, allowed=quotas.output)
    if quotas.running is not None:
        key = {"owner": user, "key": RUNNING_QUOTA, "concurrency": quotas.running}
        await unit.run("put_limit", **key, starts=None, span=None)
        await adopt(unit)
    elif not await unit.run("remove_limit", owner=user, key=RUNNING_QUOTA):
        return
    await limits.look_again(unit, user, RUNNING_QUOTA)


async def adopt(unit: Unit) -> None:
    """Jobs that were claimed before their user had the quota hold no place in it: gives them one, beyond the bound if
    need be. A claim may have been under way when the quota was set, so admission does this too."""
    if not await unit.value("any_unadopted"):
        return
    await unit.begin()
    await unit.rows("hold_admission")
    found = [job for (job,) in await unit.rows("mark_unadopted")]
    await unit.run("adopt_running", ids=found, now=unit.now)
