"""Nodes, their leases and take-overs; due jobs; pruning of old rows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from rota.errors import InvalidInput
from rota.model.job import Kind, Ref
from rota.model.locks import KEPT_FREE
from rota.model.node import NewNode, News, NodeInfo
from rota.model.outcome import CrashRule, Settlement
from rota.model.principal import Principal
from rota.model.task import TaskInfo
from rota.model.times import SECOND, Duration, Instant
from rota.store.carriers.error_groups import old_group
from rota.store.carriers.nodes import Departures, access_columns, taken
from rota.store.postgres import graph, orders, partitions, reads, work
from rota.store.postgres.database import Unit, encode
from rota.store.postgres.scan_floor import BEGINNING, ScanFloor
from rota.store.postgres.session import GRACE, lock_number
from rota.store.rows import NodeRow, node_info
from rota.store.values import Retention, Topic
from rota.store.walks import PIECE, Place

_holds = msgspec.json.Decoder(list[tuple[str, int, str | None]])
_KINDS = [kind.value for kind in Kind]
# Chunks of output (64 KiB at most) that one write deletes.
MOST_CHUNKS = 300
_NOBODY = "00000000-0000-0000-0000-000000000000"
Pruning = Callable[[Unit, Retention, int], Awaitable[int]]


async def register(
    unit: Unit, node: NewNode, tasks: Sequence[TaskInfo], replaces: Sequence[str], lock: int, server: str | None
) -> None:
    await unit.begin()
    await unit.value("lock_number", number=lock_number(unit.database.schema, f"id/{node.id}"))
    for incarnation in replaces:
        await departures.leave(unit, incarnation)
    for row in await unit.rows("living_with_id", id=node.id, now=unit.now):
        if row[0] != node.incarnation and not await unit.value(
            "really_gone", incarnation=row[0], now=unit.now, grace=GRACE
        ):
            raise InvalidInput("node id", node.id, "an id that no living node uses")
    joined = await unit.run(
        "insert_node", incarnation=node.incarnation, id=node.id, roles=encode(node.roles).decode(),
        queues=encode(node.queues).decode(), tasks=[task.name for task in tasks], version=node.version, now=unit.now,
        lease=node.lease, lock=lock, server=server, **access_columns(node),
    )  # fmt: skip
    if not joined:
        raise taken(node)
    if tasks:
        infos = [encode(task).decode() for task in tasks]
        await unit.run("upsert_tasks", names=[task.name for task in tasks], infos=infos, now=unit.now)
    await unit.emit("node.joined", "rota", node.id, {"incarnation": node.incarnation})


async def renew(
    unit: Unit,
    incarnation: str,
    stopping: bool,
    server: str | None,
    claims: ScanFloor,
    due: ScanFloor,
    line: str | None = None,
) -> News:
    asked = unit.database.clock.monotonic()
    row = await unit.row(
        "renew", incarnation=incarnation, stopping=stopping, server=server, line=line, now=unit.now, kinds=_KINDS,
        floor=claims.lowest[0], floor_id=claims.lowest[1], due_floor=due.lowest[0],
    )  # fmt: skip
    assert row is not None
    unit.database.server_clock.heard(row["now"], asked)
    if not row["known"]:
        return News(known=False)
    if row["ready"]:
        unit.topics.add(Topic.READY)
    if row["due"]:
        unit.topics.add(Topic.DUE)
    if row["fires"]:
        unit.topics.add(Topic.SCHEDULE)
    if row["ties"]:
        unit.topics.add(Topic.TIES)
    if row["gates"]:
        unit.topics.add(Topic.GATE)
    holds = tuple((Ref(job, fence), reason) for job, fence, reason in _holds.decode(row["holds"]))
    cancels = tuple((ref, reason) for ref, reason in holds if reason is not None)
    return News(True, tuple(ref for ref, _ in holds), cancels, row["term"], tuple(row["feedback"]))


class PostgresDepartures(Departures[Unit]):
    async def hand_back(self, unit: Unit, refs: Sequence[Ref]) -> None:
        await work.hand_back(unit, refs)

    async def finish(self, unit: Unit, settlements: Sequence[Settlement]) -> None:
        await work.finish(unit, settlements)

    async def take_over(self, unit: Unit, incarnation: str, beats: int | None, rule: CrashRule) -> list[str] | None:
        await unit.begin()
        if beats is None and not await unit.value("really_gone", incarnation=incarnation, now=unit.now, grace=GRACE):
            return None
        return await super().take_over(unit, incarnation, beats, rule)


departures = PostgresDepartures()


async def nodes(unit: Unit, who: Principal, past: bool, own: Sequence[str]) -> list[NodeInfo]:
    found: list[NodeInfo] = []
    for row in await unit.rows("node_rows", past=past, own=list(own), sees=who.counts, now=unit.now):
        *columns, free, now = row
        node = NodeRow(*columns)
        left = max(0, node.seen_at + GRACE - now) if free else None
        found.append(node_info(node, gone=left == 0, fading=left or None).seen_by(who))
    return found


async def promote(unit: Unit, limit: int, late: Duration, due: ScanFloor) -> tuple[int, Instant | None]:
    full, asked = due.full, unit.database.clock.monotonic()
    row = await unit.row("promote", now=unit.now, late=late, limit=limit, floor=due.floor("due")[0])
    assert row is not None
    now, moved, earliest, expired, tied, next_due, next_expiry, took = row
    unit.database.server_clock.heard(now, asked)
    due.read(full, took / SECOND, moved, {} if earliest is None else {"due": (earliest, BEGINNING[1])})
    if moved:
        unit.topics.add(Topic.READY)
    if expired:
        unit.topics.add(Topic.NEWS)
    if tied:
        unit.topics.add(Topic.TIES)
    if not moved and not full:
        due.read_all_next()  # jobs may lie below the floor
        more, upcoming = await promote(unit, limit, late, due)
        return expired + more, upcoming
    if expired == limit:
        next_expiry = now - late
    upcoming = min((at for at in (next_due, next_expiry) if at is not None), default=None)
    return moved + expired, None if upcoming is None else upcoming + late


async def promote_jobs(unit: Unit, ids: Sequence[str]) -> int:
    asked = unit.database.clock.monotonic()
    row = await unit.row("promote_jobs", now=unit.now, ids=unit.ids(ids))
    assert row is not None
    now, moved = row
    unit.database.server_clock.heard(now, asked)
    if moved:
        unit.topics.add(Topic.READY)
    return int(moved)


async def old_jobs(unit: Unit, retention: Retention, limit: int) -> int:
    """Deletes old jobs row by row. Partitions that are old as a whole were dropped before (`partitions.sweep`)."""
    await unit.begin()
    ids: list[str] = []
    old = "old_ended" if retention.ended < partitions.WORTH_WAITING else "old_strays"
    ids += [job for (job,) in await unit.rows(old, now=unit.now, age=retention.ended, limit=limit)]
    ids += [job for (job,) in await unit.rows("old_dead", now=unit.now, age=retention.dead, limit=limit)]
    if not ids:
        return 0
    ids = await _light(unit, await graph.settled(unit, ids))
    await orders.delete(unit, ids)
    return len(ids) or 1  # 1: a part of the preparation was done


async def group_errors(unit: Unit, retention: Retention, limit: int) -> int:
    """Gives groups of errors to dead letters that nodes of an earlier version have left."""
    await unit.begin()
    groups = {job: old_group(*texts) for job, *texts in await unit.rows("ungrouped", limit=limit)}
    if groups:
        await unit.run("set_groups", ids=[*groups], groups=[*groups.values()])
    return len(groups)


def _old(query: str, age: Callable[[Retention], Duration]) -> Pruning:
    async def old_rows(unit: Unit, retention: Retention, limit: int) -> int:
        return await unit.run(query, now=unit.now, age=age(retention), limit=limit)

    return old_rows


async def old_events(unit: Unit, retention: Retention, limit: int) -> int:
    if await unit.value("unread_events_are_old", age=retention.events, now=unit.now):
        await reads.number_events(unit)
    return await unit.run("delete_old_events", age=retention.events, limit=limit, now=unit.now)


# Each is a write of its own.
PRUNINGS: tuple[Pruning, ...] = (
    old_jobs,
    _old("delete_old_keys", lambda _: 0),
    old_events,
    _old("delete_old_nodes", lambda keep: keep.nodes),
    _old("delete_old_fires", lambda keep: keep.ended),
    _old("delete_old_skips", lambda keep: keep.ended),
    _old("delete_old_starts", lambda _: 0),
    _old("delete_old_audit", lambda keep: keep.audit),
    _old("delete_old_access_keys", lambda keep: keep.audit),
    _old("delete_old_repeats", lambda _: 0),
    _old("delete_free_locks", lambda _: KEPT_FREE),
    group_errors,
)
# The walks: the query of each, and the key where it begins.
WALKS: dict[str, Place] = {
    "sweep_edges": (_NOBODY, _NOBODY),
    "sweep_members": (_NOBODY,),
    "sweep_workflows": (_NOBODY,),
}


async def sweep(unit: Unit, query: str, place: Place, age: Duration) -> tuple[int, int, list[str]]:
    """A piece of a walk: how many rows it looked at, how many it deleted, and how far it came."""
    after = dict(zip(("first", "second"), place, strict=False))
    row = await unit.row(query, now=unit.now, age=age, most=PIECE, **after)
    return (row[0], row[1], list(row)[2:]) if row else (0, 0, [])


async def _light(unit: Unit, ids: list[str]) -> list[str]:
    """As many of these jobs as can be deleted in a short write: output may be large. The rest follows next time."""
    chunks: dict[str, int] = dict(await unit.rows("output_counts", ids=ids))
    total = 0
    for index, job in enumerate(ids):
        total += chunks.get(job, 0)
        if total > MOST_CHUNKS:
            if index == 0:  # one job alone is too heavy: take a piece off it
                await unit.run("trim_output", id=job, limit=MOST_CHUNKS)
            return ids[:index]
    return ids
