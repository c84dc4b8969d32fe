"""Jobs that wait for others. There is one writer at a time, so nothing needs a lock of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from rota.model.graph import Child, EdgeState, Need, ParentInfo, after_parents, edge_state, why_skipped
from rota.model.job import NewJob
from rota.model.lifecycle import TERMINAL, State
from rota.model.principal import Principal
from rota.model.times import Instant
from rota.store.graph import Settled, WorkflowFilter, WorkflowInfo, WorkflowJob
from rota.store.rows import edge, parent_info, workflow_infos, workflow_job
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
        edges = [(job.id, known.get(one.parent, one.parent), one.need.value) for job in children for one in job.after]
        db.many("insert_edge", edges)
        db.run("count_parents", ids=_text([job.id for job in children]))
        mine = {job.id for job in jobs}
        parents = {parent for _, parent, _ in edges}
        db.run("tie", ids=_text(sorted(parents & mine)))
        db.run("look_after", ids=_text(sorted(parents - mine)))
        db.topics.add(Topic.TIES)
    members = [(job.workflow, job.id) for job in jobs if job.workflow is not None]
    for workflow in {one.id: one for one, _ in members if one.new}.values():
        db.run("insert_workflow", id=workflow.id, owner=owner, name=workflow.name, now=now)
    db.many("insert_member", [(workflow.id, job, now + place) for place, (workflow, job) in enumerate(members)])


# -- settling ---------------------------------------------------------------------------------------------------------
def settle(db: Database, most: int = AT_ONCE) -> Settled:
    moved = 0
    while most > 0 and (work := db.rows("settling")):
        living = [job for job, state in work if state is not None and State(state) not in TERMINAL]
        if living:
            db.run("tie", ids=_text(living))
            db.run("looked_after", ids=_text(living))
        ended = {job: None if state is None else State(state) for job, state in work if job not in set(living)}
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


def _mark(db: Database, edges: Sequence[tuple[str, str, str]], ended: Mapping[str, State | None]) -> int:
    marks = [(child, parent, edge_state(Need(need), ended[parent])) for child, parent, need in edges]
    db.run("mark_edges", rows=_text(marks))
    # Of several broken edges the first gives the reason.
    broken = {child: parent for child, parent, mark in sorted(marks, reverse=True) if mark is EdgeState.BROKEN}
    met = Counter(child for child, _, mark in marks if mark is EdgeState.MET and child not in broken)
    moved = _go_on(db, met) if met else 0
    if broken:
        known = {job: (task, state) for job, task, state in db.rows("tasks_of", ids=_text(set(broken.values())))}
        needs = {(child, parent): need for child, parent, need in edges}
        rows = [
            (child, why_skipped(parent, Need(needs[child, parent]), *known.get(parent, (None, None))))
            for child, parent in broken.items()
        ]
        moved += db.run("skip_jobs", rows=_text(rows), now=db.now())
        db.topics.add(Topic.NEWS)
    return moved


def _go_on(db: Database, met: Mapping[str, int]) -> int:
    """Counts parents that have ended as needed; children without open parents go on."""
    now, rings = db.now(), {State.READY: Topic.READY, State.SCHEDULED: Topic.DUE}
    rows = []
    for seq, job, state, *rest in db.rows("children", ids=_text(met)):
        child = after_parents(Child(State(state), *rest), met[job], now, db.ageing_step)
        rows.append((seq, child.state, child.waits, child.run_at, child.rank))
        db.topics |= {rings[child.state]} if not child.waits and child.state in rings else set()
    db.run("move_children", rows=_text(rows))
    return len(met)


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


# -- reads ------------------------------------------------------------------------------------------------------------
def parents(db: Database, who: Principal, job_id: str) -> list[ParentInfo]:
    if db.value("job_by_id", id=job_id, sees=who.sees) is None:
        return []
    return [parent_info(row) for row in db.rows("parent_rows", id=job_id)]


def workflows(db: Database, who: Principal, query: WorkflowFilter) -> list[WorkflowInfo]:
    ids = None if query.ids is None else _text(query.ids)
    rows = db.rows("workflow_rows", sees=who.sees, name=query.name, ids=ids, limit=query.limit)
    return workflow_infos(rows, db.rows("workflow_counts", ids=_text([row[0] for row in rows])))


def workflow(db: Database, who: Principal, workflow_id: str) -> list[WorkflowJob]:
    if not workflows(db, who, WorkflowFilter(ids=(workflow_id,))):
        return []
    edges: dict[str, list[tuple[str, str]]] = {}
    for child, parent, need in db.rows("workflow_edges", id=workflow_id):
        edges.setdefault(child, []).append((parent, need))
    rows = db.rows("workflow_jobs", id=workflow_id)
    return [workflow_job(row, tuple(edge(*one) for one in edges.get(row[0], ()))) for row in rows]


def resolve_workflow(db: Database, who: Principal, part: str) -> list[str]:
    return [one for (one,) in db.rows("resolve_workflow", sees=who.sees, part=part)]


def of_jobs(db: Database, ids: Collection[str]) -> dict[str, str]:
    """The workflows that these jobs belong to."""
    return dict(db.rows("workflows_of_jobs", ids=_text(ids)))
