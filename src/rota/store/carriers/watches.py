"""Watches: orders and starts of a user's jobs are told as events while somebody listens.

An entry of the outbox for each order and start would make drains slower by more than 2 %, and mostly nobody would read
it. So a reader that wants these events asks for them first. The store remembers it for `LIFE`, readers renew it, and
the statements that insert and start jobs look whether the owner is watched.

Nothing is missing silently: the first event of a watch is `watch.began`, which says since when orders and starts were
not told. It is written once all transactions have ended that may not have seen the watch (`begin`, a wait of the store,
`settle`). A watch that was not settled, because its process died, is settled by the next one.
"""

from __future__ import annotations

from rota.model.events import BEGAN, WATCHED
from rota.model.principal import Principal
from rota.model.times import SECOND, Duration, iso
from rota.store.carriers.unit import Unit

LIFE: Duration = 60 * SECOND


async def begin(unit: Unit, who: Principal) -> bool:
    """Renews the watch, or begins one. Returns whether it must be settled."""
    await unit.begin()
    found = await unit.rows("watch_state", owner=who.user, now=unit.now)
    until, lapsed, since, lives = found[0] if found else (None, None, None, False)
    renewed = lives and since is not None
    if not renewed:
        lapsed, since = lapsed if since is None else until, None
    await unit.run("keep_watch", owner=who.user, life=LIFE, lapsed=lapsed, since=since, now=unit.now)
    return not renewed


async def settle(unit: Unit, who: Principal) -> None:
    """From now on all orders and starts are told: says since when they were not."""
    await unit.begin()
    for _, lapsed, since, _ in await unit.rows("watch_state", owner=who.user, now=unit.now):
        if since is None:
            missing = {"since": None if lapsed is None else iso(lapsed), "kinds": list(WATCHED)}
            await unit.emit(BEGAN, who.user, who.user, missing)
            await unit.run("confirm_watch", owner=who.user, now=unit.now)
