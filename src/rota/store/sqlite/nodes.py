"""Nodes, their leases and take-overs; due jobs; pruning of old rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rota.errors import InvalidInput
from rota.model.job import Ref
from rota.model.locks import KEPT_FREE
from rota.model.node import NewNode, News, NodeInfo
from rota.model.outcome import Settlement
from rota.model.principal import Principal
from rota.model.task import TaskInfo
from rota.model.times import Duration, Instant
from rota.store.carriers.error_groups import old_group
from rota.store.carriers.nodes import Departures, access_columns, taken
from rota.store.cells import is_id
from rota.store.rows import NodeRow, node_info
from rota.store.sqlite import gates, graph, orders, ranking, work
from rota.store.sqlite.database import Database, encode
from rota.store.sqlite.unit import SqliteUnit, at_once
from rota.store.values import Retention, Topic
from rota.store.walks import PIECE, Place

# Chunks of output (64 KiB at most) that one write deletes.
MOST_CHUNKS = 300
Gone = Callable[[str], bool]


def register(db: Database, node: NewNode, tasks: Sequence[TaskInfo], replaces: Sequence[str], gone: Gone) -> None:
    for incarnation in replaces:
        leave(db, incarnation)
    for row in map(NodeRow._make, db.rows("living_nodes", sees=None)):
        if row.id == node.id and row.incarnation != node.incarnation and not gone(row.incarnation):
            raise InvalidInput("node id", node.id, "an id that no living node uses")
    now = db.now()
    joined = db.run(
        "insert_node", incarnation=node.incarnation, id=node.id, roles=encode(node.roles).decode(),
        queues=encode(node.queues).decode(), tasks=encode([task.name for task in tasks]).decode(),
        version=node.version, now=now, lease=node.lease, **access_columns(node),
    )  # fmt: skip
    if not joined:
        raise taken(node)
    for task in tasks:
        db.run("upsert_task", name=task.name, info=encode(task).decode(), now=now)
    db.emit("node.joined", "rota", node.id, {"incarnation": node.incarnation})


def renew(db: Database, incarnation: str, stopping: bool = False, line: str | None = None) -> News:
    if not db.run("renew_node", incarnation=incarnation, now=db.now(), stopping=stopping, line=line):
        return News(known=False)
    rows = db.rows("holds_of", incarnation=incarnation)
    if db.value("any_ready"):
        db.topics.add(Topic.READY)
    if (due := db.value("next_instant")) is not None and due <= db.now():
        db.topics.add(Topic.DUE)
    if ((fires := db.value("next_schedule")) is not None and fires <= db.now()) or db.value("any_waiting"):
        db.topics.add(Topic.SCHEDULE)
    if db.value("any_settling"):
        db.topics.add(Topic.TIES)
    names = ("any_freed", "any_in_line", "any_alone")
    if any(map(db.value, names)) or gates.at_work(db) or ranking.any_to_put_forward(db):
        db.topics.add(Topic.GATE)
    holds = tuple((Ref(job, fence), reason) for job, fence, reason in rows)
    cancels = tuple((ref, reason) for ref, reason in holds if reason is not None)
    db.run("lead", incarnation=incarnation, now=db.now())
    term = db.value("term_of", incarnation=incarnation)
    feedback = tuple(name for name, *_ in db.rows("feedback_rules"))
    return News(True, tuple(ref for ref, _ in holds), cancels, term, feedback)


class SqliteDepartures(Departures[SqliteUnit]):
    async def hand_back(self, unit: SqliteUnit, refs: Sequence[Ref]) -> None:
        work.hand_back(unit.db, refs)

    async def finish(self, unit: SqliteUnit, settlements: Sequence[Settlement]) -> None:
        work.finish(unit.db, settlements)


departures = SqliteDepartures()
leave, take_over = at_once(departures.leave), at_once(departures.take_over)


def nodes(db: Database, who: Principal, past: bool, gone: Gone) -> list[NodeInfo]:
    rows = db.rows("all_nodes" if past else "living_nodes", sees=who.counts)
    return [_info(row, gone).seen_by(who) for row in rows]


def _info(values: tuple[Any, ...], gone: Gone) -> NodeInfo:
    row = NodeRow(*values)
    return node_info(row, gone=row.state in ("live", "stopping") and gone(row.incarnation))


def nothing_due(db: Database, limit: int, late: Duration = 0) -> tuple[int, Instant | None] | None:
    """The answer of `promote` if there is nothing to move now."""
    upcoming = _next_instant(db, late)
    return (0, upcoming) if upcoming is None or upcoming > db.now() else None


def promote(db: Database, limit: int, late: Duration = 0) -> tuple[int, Instant | None]:
    now = db.now() - late
    expired = [seq for (seq,) in db.rows("expired", now=now, limit=limit)]
    if expired:
        db.run("expire_jobs", seqs=encode(expired).decode(), now=now)
        db.topics.add(Topic.NEWS)
    moved = _make_ready(db, [seq for (seq,) in db.rows("due", now=now, limit=limit)])
    return len(expired) + moved, _next_instant(db, late)


def none_due(db: Database, ids: Sequence[str]) -> int | None:
    """The answer of `promote_jobs` if none of these jobs is to be moved now."""
    return None if _due_of(db, ids) else 0


def promote_jobs(db: Database, ids: Sequence[str]) -> int:
    return _make_ready(db, _due_of(db, ids))


def _due_of(db: Database, ids: Sequence[str]) -> list[int]:
    """Of these jobs. Texts that are no ids can't always be encoded."""
    wanted = encode([job for job in ids if is_id(job)]).decode()
    return [seq for (seq,) in db.rows("due_of", ids=wanted, now=db.now())]


def _make_ready(db: Database, due: Sequence[int]) -> int:
    if due:
        db.run("make_ready", seqs=encode(due).decode())
        db.topics.add(Topic.READY)
    return len(due)


def _next_instant(db: Database, late: Duration) -> Instant | None:
    at: Instant | None = db.value("next_instant")
    return None if at is None else at + late


def _light(db: Database, seqs: list[int]) -> list[int]:
    """As many of these jobs as can be deleted in a short write: output may be large. The rest follows next time."""
    chunks = dict(db.rows("output_counts", seqs=encode(seqs).decode()))
    total = 0
    for index, seq in enumerate(seqs):
        total += chunks.get(seq, 0)
        if total > MOST_CHUNKS:
            if index == 0:  # one job alone is too heavy: take a piece off it
                db.run("trim_output", seq=seq, limit=MOST_CHUNKS)
            return seqs[:index]
    return seqs


def _settled(db: Database, old: Mapping[int, str]) -> list[int]:
    """The old jobs that may be deleted. For the others, settles a piece of their edges."""
    if graph.unsettled(db, old.values()):
        graph.settle_piece(db)
    left = graph.unsettled(db, old.values())
    return [seq for seq, job in old.items() if job not in left]


def sweep_workflows(db: Database, place: Place, age: Duration) -> tuple[int, int, list[str]]:
    """A piece of a walk: how many it looked at, how many it deleted, and how far it came."""
    rows = db.rows("workflows_after", after=place[0], before=db.now() - age, most=PIECE)
    gone = [flow for flow, over in rows if over]
    if gone:
        db.run("delete_workflows", ids=encode(gone).decode())
    return len(rows), len(gone), [rows[-1][0]] if rows else []


def group_dead_letters(db: Database, place: Place) -> tuple[int, int, list[str]]:
    """A piece of a walk, which gives dead letters of earlier versions their groups of errors."""
    rows = db.rows("dead_after", at=int(place[0]), seq=int(place[1]), most=PIECE)
    groups = {seq: old_group(*texts) for _, seq, ungrouped, *texts in rows if ungrouped}
    if groups:
        db.run("set_groups", rows=encode([{"jobs": seq, "groups": group} for seq, group in groups.items()]).decode())
    return len(rows), len(groups), [str(rows[-1][0]), str(rows[-1][1])] if rows else []


def prune(db: Database, retention: Retention, limit: int) -> int:
    now = db.now()
    old = dict(db.rows("old_ended", before=now - retention.ended, limit=limit))
    old |= dict(db.rows("old_dead", before=now - retention.dead, limit=limit))
    seqs = _light(db, _settled(db, old))
    if seqs:
        orders.delete(db, seqs)
    return (
        (len(seqs) or int(bool(old)))  # 1: a part of the preparation was done
        + db.run("delete_old_keys", now=now, limit=limit)
        + db.run("delete_old_events", before=now - retention.events, limit=limit)
        + db.run("delete_old_nodes", now=now, age=retention.nodes, limit=limit)
        + db.run("delete_old_fires", before=now - retention.ended, limit=limit)
        + db.run("delete_old_skips", now=now, age=retention.ended, limit=limit)
        + db.run("delete_old_starts", before=now, limit=limit)
        + db.run("delete_old_audit", now=now, age=retention.audit, limit=limit)
        + db.run("delete_old_access_keys", now=now, age=retention.audit, limit=limit)
        + db.run("delete_old_repeats", now=now, limit=limit)
        + db.run("delete_free_locks", now=now, age=KEPT_FREE, limit=limit)
    )
