"""Keys that jobs need: loads them for `model.keys`, and releases jobs when there is room.

There is one writer at a time, so counts are exact until the write ends. Code and triggers put lines that may have room
on a list (`freed`), and before a write commits it releases the jobs at the heads of these lines.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import msgspec

from rota.model.keys import KeyId, KeyState, Line, Reservation, going_on, looks_back
from rota.model.limits import LONGEST_GROWN_SLACK, Key, Limit, Rate, effective
from rota.model.times import Duration, Instant
from rota.store.sqlite.database import Database, encode
from rota.store.values import Topic

# Waiters, and lines, that any write handles before it ends; admission handles the rest.
AT_ONCE = 500
LINES_AT_ONCE = 500
Asked = tuple[str, str, Duration | None]  # owner, key, the window that a job brings along


def asked(owner: str, key: Key) -> Asked:
    return owner, key.name, key.rate.window if key.rate else None


def key_states(db: Database, wanted: Collection[Asked], now: Instant) -> dict[KeyId, KeyState]:
    found: dict[KeyId, KeyState] = {}
    for owner, key, was_set, concurrency, starts, set_span, span, numbers, tokens, kept, reserved in db.rows(
        "key_states", keys=encode(list(wanted)).decode(), now=now, latest=LONGEST_GROWN_SLACK
    ):
        if (owner, key) not in found:
            limit = Limit(key, concurrency, _rate(starts, set_span)) if was_set else None
            places = msgspec.json.decode(reserved, type=list[Reservation])
            found[owner, key] = KeyState(limit, msgspec.json.decode(numbers, type=list[int]), kept, places)
        found[owner, key].count(span, tokens)
    return found


def _rate(starts: int | None, span: Duration | None) -> Rate | None:
    return None if starts is None or span is None else Rate(starts, span)


# -- lines ------------------------------------------------------------------------------------------------------------
class Plan(NamedTuple):
    goes: list[tuple[str, int, bool]]  # lines, how many of each go on, and whether there is room for more
    looked_at: list[str]
    next_at: Instant | None  # when an awaited token comes back
    more: bool
    far: list[tuple[KeyId, Duration]]  # keys whose starts are to be kept for longer, as the first in line looks back


class Handed(NamedTuple):
    moved: int
    more: bool
    next_at: Instant | None


def plan(db: Database, every: bool, most: int) -> Plan:
    """Which jobs may go on, of the lines on the list or of all lines. As many as there is room for, less jobs that were
    released and not claimed yet; a look at all lines ignores these, as perhaps no node claims them."""
    now = db.now()
    rows = db.rows("all_lines") if every else db.rows("freed_lines", limit=LINES_AT_ONCE)
    lines = [(one := Line(*row), one.key) for row in rows if row[2] is not None]
    known = key_states(db, {asked(one.owner, key) for one, key in lines}, now) if lines else {}
    goes: list[tuple[str, int, bool]] = []
    looked_at = [] if every else [row[0] for row in rows]
    instants: list[Instant] = []
    far: list[tuple[KeyId, Duration]] = []
    more = not every and len(rows) == LINES_AT_ONCE
    for one, key in lines:
        state = known[one.owner, key.name]
        room = going_on(one, key, state)
        if room > 0 and most <= 0:
            looked_at, more = looked_at[: looked_at.index(one.name)] if looked_at else [], True
            break
        if room > 0:
            goes.append((one.name, min(room, most), room > most))
            most -= min(room, most)
        else:
            instants += _token_back(db, one.owner, effective(key, state.limit), now)
        if one.needs_key and state.started and (window := looks_back(key, state)) is not None:
            far.append(((one.owner, key.name), window))
    return Plan(goes, looked_at, min(instants, default=None), more, far)


def _token_back(db: Database, owner: str, key: Key, now: Instant) -> list[Instant]:
    if key.rate is None:
        return []
    count, span = key.rate.count, key.rate.window
    rows = db.rows(
        "token_back", owner=owner, key=key.name, now=now, span=span, count=count, latest=LONGEST_GROWN_SLACK
    )  # fmt: skip
    return [at for (at,) in rows]


def hand_on(db: Database, every: bool = False, most: int = AT_ONCE) -> Handed:
    """Releases jobs that wait for keys with room."""
    planned = plan(db, every, most)
    singles = [at for at, count, _ in planned.goes if count == 1]
    found = db.rows("first_in_lines", lines=encode(singles).decode()) if singles else []
    seqs: list[int] = [seq for (seq,) in found if seq is not None]
    unfinished = {at for at, count, cut in planned.goes if count == 1 and cut}
    for at, count, cut in planned.goes:
        if count > 1:
            following = [seq for (seq,) in db.rows("next_in_line", line=at, limit=count)]
            seqs += following
            unfinished |= {at} if cut and len(following) == count else set()
    done = [at for at in planned.looked_at if at not in unfinished]
    for (owner, key), window in planned.far:
        db.run("stretch_tokens", owner=owner, key=key, span=window)
    if done:
        db.run("looked_at_lines", lines=encode(done).decode())
    if seqs:
        db.run("let_go", seqs=encode(seqs).decode())
        db.topics.add(Topic.READY)
    more = planned.more or bool(unfinished)
    if not every and (more or planned.next_at is not None):
        db.topics.add(Topic.GATE)
    return Handed(len(seqs), more, planned.next_at)
