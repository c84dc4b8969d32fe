"""Jobs that wait for others. There is one writer at a time, so nothing needs a lock of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from rota.model.graph import (
    NOTHING_FAILED,
    Child,
    EdgeState,
    Need,
    ParentEnd,
    SkipCause,
    after_parents,
    edge_state,
    is_unneeded,
    skip_cause,
    why_skipped,
)
from rota.model.job import NewJob
from rota.model.lifecycle import TERMINAL, State
from rota.model.times import Instant
from rota.store.graph import Settled
from rota.store.rows import parent_end
from rota.store.sqlite.database import Database, encode
from rota.store.values import Topic

# Edges that any write settles before it ends; the resolver settles the rest.
AT_ONCE = 500
# Edges of jobs to be deleted that one write settles: about fifty milliseconds.
PIECE = 2_000


def _text(ids: Collection[object]) -> str:
    return encode(list(ids)).decode()


# -- orders -----------------------------------------------------------------------------------------------------------
def refusal(db: Database, owner: str, order: Sequence[NewJob]) -> tuple[str, str] | None:
    """The missing parent job or workflow that an order names, with its id."""
    mine = {job.id for job in order}
    outside = sorted({edge.parent for job in order for edge in job.after} - mine)
    there = {job for (job,) in db.rows("jobs_of_owner", ids=_text(outside), owner=owner)} if outside else set()
    for parent in outside:
        if parent not in there:
            return "parent job", parent
    named = {job.workflow.id: job.workflow for job in order if job.workflow is not None}
    for workflow in named.values():
        if db.value("workflow_owner", id=workflow.id) not in ((owner, None) if workflow.new else (owner,)):
            return "workflow", workflow.id
    return None


def tie(db: Database, owner: str, jobs: Sequence[NewJob], known: Mapping[str, str], now: Instant) -> None:
    """Ties new jobs to their parents and workflows. `known`: jobs of the order that were made before, and their ids."""
    children = [job for job in jobs if job.after]
    if children:
        edges = [
            (job.id, known.get(one.parent, one.parent), one.need.value, _text(one.fills) if one.fills else None)
            for job in children
            for one in job.after
        ]
        db.many("insert_edge", edges)
        db.run("count_parents", ids=_text([job.id for job in children]))
        mine = {job.id for job in jobs}
        parents = {parent for _, parent, *_ in edges}
        db.run("tie", ids=_text(sorted(parents & mine)))
        db.run("look_after", ids=_text(sorted(parents - mine)))
        db.topics.add(Topic.TIES)
    members = [(job.workflow, job) for job in jobs if job.workflow is not None]
    for workflow in {one.id: one for one, _ in members if one.new}.values():
        db.run("insert_workflow", id=workflow.id, owner=owner, name=workflow.name, now=now)
    rows = [(workflow.id, job.id, now + place, job.job_name) for place, (workflow, job) in enumerate(members)]
    db.many("insert_member", rows)


# -- settling ---------------------------------------------------------------------------------------------------------
def settle(db: Database, most: int = AT_ONCE) -> Settled:
    moved = 0
    while most > 0 and (work := db.rows("settling")):
        ends = {job: parent_end(state, cause) for job, state, cause in work}
        living = [job for job, end in ends.items() if end.state is not None and end.state not in TERMINAL]
        if living:
            db.run("tie", ids=_text(living))
            db.run("looked_after", ids=_text(living))
        ended = {job: end for job, end in ends.items() if job not in set(living)}
        edges = db.rows("open_edges", ids=_text(ended), limit=most)
        if edges:
            moved += _mark(db, edges, ended)
        if len(edges) < most:
            db.run("looked_after", ids=_text(ended))
        most -= len(edges)
    unsettled = bool(db.value("any_settling"))
    if unsettled:
        db.topics.add(Topic.TIES)
    return Settled(moved, unsettled, bool(db.value("anyone_waits")))


def settle_any(db: Database, limit: int) -> Settled:
    return settle(db, limit)


def unsettled(db: Database, ids: Collection[str]) -> set[str]:
    """The unsettled jobs among these. They may not be deleted: their children still need their state."""
    return {job for (job,) in db.rows("unsettled_of", ids=_text(ids))}


def settle_piece(db: Database) -> None:
    settle(db, PIECE)


def _mark(db: Database, edges: Sequence[tuple[str, str, str]], ended: Mapping[str, ParentEnd]) -> int:
    marks = [(child, parent, edge_state(Need(need), ended[parent])) for child, parent, need in edges]
    db.run("mark_edges", rows=_text(marks))
    broken = {child for child, _, mark in marks if mark is EdgeState.BROKEN}
    counts = Counter(child for child, *_ in marks if child not in broken)
    unneeded = _go_on(db, counts) if counts else []
    skips = [(child, NOTHING_FAILED, SkipCause.UNNEEDED) for child in unneeded]
    skips += _breaks(db, broken) if broken else []
    skipped = db.run("skip_jobs", rows=_text(skips), now=db.now()) if skips else 0
    db.topics |= {Topic.NEWS} if skips else set()
    return len(counts) - len(unneeded) + skipped


def _breaks(db: Database, broken: Collection[str]) -> list[tuple[str, str, SkipCause]]:
    """Children to be skipped, with reason and cause. Of several broken edges the first gives the reason."""
    rows: dict[str, list[tuple[str, Need, str | None, ParentEnd]]] = {}
    for child, parent, need, called, state, cause in db.rows("broken_edges", ids=_text(broken)):
        rows.setdefault(child, []).append((parent, Need(need), called, parent_end(state, cause)))
    found = []
    for child, edges in rows.items():
        parent, need, called, end = edges[0]
        cause = skip_cause([(need, end) for _, need, _, end in edges])
        found.append((child, why_skipped(parent, need, called, end.state), cause))
    return found


def _go_on(db: Database, ended: Mapping[str, int]) -> list[str]:
    """Counts parents that have ended. Children without open parents go on; returns those that have nothing to do."""
    now, rings = db.now(), {State.READY: Topic.READY, State.SCHEDULED: Topic.DUE}
    children = {
        job: (seq, Child(State(state), *rest)) for seq, job, state, *rest in db.rows("children", ids=_text(ended))
    }
    # Only of those whose last parent has ended: the query reads all edges of a child.
    last = [job for job, (_, child) in children.items() if child.waits <= ended[job]]
    marks: dict[str, list[tuple[Need, EdgeState]]] = {}
    for job, need, state in db.rows("edge_marks", ids=_text(last)) if last else ():
        marks.setdefault(job, []).append((Need(need), EdgeState(state)))
    rows, unneeded = [], []
    for job, (seq, before) in children.items():
        child = after_parents(before, ended[job], now, db.ageing_step, is_unneeded(marks.get(job, ())))
        if child.state is State.SKIPPED:
            unneeded.append(job)
            continue
        rows.append((seq, child.state, child.waits, child.run_at, child.rank))
        db.topics |= {rings[child.state]} if not child.waits and child.state in rings else set()
    db.run("move_children", rows=_text(rows))
    return unneeded


def reopen(db: Database, ids: Collection[str]) -> None:
    """Reopens ended jobs, and jobs that were skipped because of them."""
    every = {*ids, *(job for (job,) in db.rows("skipped_below", ids=_text(ids)))}
    text = _text(sorted(every))
    db.run("reopen_edges", ids=text)
    db.run("reopen_jobs", ids=text, replayed=_text(ids), now=db.now(), step=db.ageing_step)
    db.run("count_parents", ids=text)
    # Includes parents that reopen too: a parent that had ended before the edge was made is not marked as tied.
    db.run("look_after", ids=_text([parent for (parent,) in db.rows("parents_of", ids=text)]))
    db.run("reopen_replayed", ids=text)
