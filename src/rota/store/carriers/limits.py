"""Keys with the bounds that people have set, their holders and their waiters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rota.model.keys import KeyId, line
from rota.model.limits import RUNNING_QUOTA, Key, Limit, Rate, effective
from rota.model.principal import Principal
from rota.model.requirements import read_requirements
from rota.model.times import Duration, aware, aware_or_none
from rota.model.versions import limit_version
from rota.store.admission import Holder, LimitInfo
from rota.store.carriers.edits import begin_edit, check_version
from rota.store.carriers.unit import Columns, Unit
from rota.store.values import Topic


async def set_limit(unit: Unit, who: Principal, limit: Limit, version: str | None = None) -> None:
    await _begin(unit, who, limit.key, version)
    starts, span = (None, None) if limit.rate is None else (limit.rate.count, limit.rate.window)
    await unit.run("put_limit", owner=who.user, key=limit.key, concurrency=limit.concurrency, starts=starts, span=span)
    if span is not None:
        await unit.run("stretch_tokens", owner=who.user, key=limit.key, span=span)
    await unit.emit("limit.set", who.user, limit.key, {"by": who.user})
    await look_again(unit, who.user, limit.key)


async def remove_limit(unit: Unit, who: Principal, key: str, version: str | None = None) -> bool:
    await _begin(unit, who, key, version)
    if not await unit.run("remove_limit", owner=who.user, key=key):
        return False
    await unit.emit("limit.removed", who.user, key, {"by": who.user})
    await look_again(unit, who.user, key)
    return True


async def _begin(unit: Unit, who: Principal, key: str, version: str | None) -> None:
    await begin_edit(unit, "limit", who.user, key)
    if version is not None:
        check_version("limit", key, version, limit_version((await _set(unit, who.user, [key])).get(key)))


async def _set(unit: Unit, owner: str, keys: Sequence[str]) -> dict[str, Limit]:
    """The bounds that a person has set, by key."""
    rows = await unit.rows("limits_of", owner=owner, keys=list(keys)) if keys else []
    return {name: Limit(name, concurrency, _rate(starts, span)) for name, concurrency, starts, span in rows}


async def look_again(unit: Unit, owner: str, key: str) -> None:
    """Jobs that wait for the key go on, if there is room by now."""
    await unit.run("look_at_line", line=line(owner, key))
    await unit.hand_on()
    unit.topics.add(Topic.GATE)


async def limits(unit: Unit, who: Principal, keys: Sequence[str] | None = None) -> list[LimitInfo]:
    rows = await unit.rows("limit_rows", now=unit.now, sees=who.sees, keys=None if keys is None else list(keys))
    shown: dict[KeyId, Key] = {}
    counts: dict[KeyId, Key] = {}
    for owner, name, was_set, concurrency, starts, span, requirements in rows:
        # Shown are the bounds that were set; those that count may be brought along by the first waiter.
        shown[owner, name] = counts[owner, name] = Key(name, concurrency, _rate(starts, span))
        brought = [key for key in read_requirements(requirements).keys if key.name == name]
        if brought and not was_set:
            counts[owner, name] = brought[0]
    return await _infos(unit, counts, shown)


async def of_job(unit: Unit, owner: str, requirements: str | None) -> tuple[LimitInfo, ...]:
    """The keys that a job needs, with their effective bounds; the quota of its user for running jobs is the last."""
    needed = [key for key in read_requirements(requirements).keys if key.name != RUNNING_QUOTA]
    limits = await _set(unit, owner, [*(key.name for key in needed), RUNNING_QUOTA])
    needed += [Key(RUNNING_QUOTA)] if RUNNING_QUOTA in limits else []
    counts = {(owner, key.name): effective(key, limits.get(key.name)) for key in needed}
    return tuple(await _infos(unit, counts, counts))


def _rate(starts: int | None, span: Duration | None) -> Rate | None:
    return None if starts is None or span is None else Rate(starts, span)


async def _infos(unit: Unit, counts: Mapping[KeyId, Key], shown: Mapping[KeyId, Key]) -> list[LimitInfo]:
    """`counts`: the keys with the bounds that count; `shown`: the bounds to show."""
    if not counts:
        return []
    names: Columns = {"owners": [owner for owner, _ in counts], "keys": [key for _, key in counts]}
    rates: Columns = {
        "starts": [key.rate and key.rate.count for key in counts.values()],
        "spans": [key.rate and key.rate.window for key in counts.values()],
    }
    holders: dict[KeyId, list[Holder]] = {}
    for owner, name, job, fence, since, node in await unit.rows("holder_rows", names):
        holders.setdefault((owner, name), []).append(Holder(job, fence, aware(since), node))
    lines = {
        (owner, name): (waiting, aware_or_none(next_start))
        for owner, name, waiting, next_start in await unit.rows("line_rows", {**names, **rates}, now=unit.now)
    }
    return [
        LimitInfo(*name, key.concurrency, key.rate, tuple(holders.get(name, ())), *lines[name])
        for name, key in shown.items()
    ]
