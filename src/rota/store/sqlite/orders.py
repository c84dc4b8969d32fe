"""Verbs for orders: submit, replay, purge."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from rota.errors import KeyConflict, NotFound
from rota.model.job import NewJob, Submitted
from rota.model.keys import line, waits_for
from rota.model.lifecycle import JobEvent, State, sources
from rota.model.principal import Principal
from rota.model.rank import rank
from rota.model.requirements import NO_REQUIREMENTS
from rota.model.times import LATEST, Duration, Instant
from rota.store import columns
from rota.store.carriers import quotas, sealing
from rota.store.carriers.at_once import run_at_once
from rota.store.sqlite import graph
from rota.store.sqlite.database import Database, encode
from rota.store.sqlite.unit import SqliteUnit
from rota.store.values import Answer, Topic

_READY, _SCHEDULED, _BLOCKED = State.READY.value, State.SCHEDULED.value, State.BLOCKED.value
_HELD = State.HELD.value
_row = columns.row_maker(columns.LISTS["sqlite"]["jobs.inserted"])
_payload = columns.row_maker(columns.LISTS["sqlite"]["payloads.inserted"])
_TOPICS = {_READY: Topic.READY, _SCHEDULED: Topic.DUE, _HELD: Topic.GATE}


def submit(db: Database, who: Principal, orders: Sequence[Sequence[NewJob]], key_life: Duration) -> list[Answer]:
    async def accept(some: Sequence[Sequence[NewJob]]) -> list[Answer]:
        return _submit(db, who, some, key_life)

    if not who.key:
        return _submit(db, who, orders, key_life)
    return run_at_once(quotas.submit(SqliteUnit(db), who, orders, accept))


def _submit(db: Database, who: Principal, orders: Sequence[Sequence[NewJob]], key_life: Duration) -> list[Answer]:
    now = db.now()
    keys = _Keys(db, who, orders)
    answers: list[Answer] = []
    plain: list[NewJob] = []
    used: list[tuple[str, str, str, str, Instant]] = []
    for order in orders:
        tied = any(job.after or job.workflow for job in order)
        # Parents may belong to an earlier order of this call, which must be inserted first.
        if tied and plain:
            insert(db, who.user, plain, now)
            plain = []
        missing = graph.refusal(db, who.user, order) if tied else None
        answer = NotFound(*missing) if missing else keys.answer(order)
        answers.append(answer)
        if isinstance(answer, list):
            fresh = [job for job, submitted in zip(order, answer, strict=True) if submitted.created]
            if tied:
                _insert_tied(db, who.user, order, answer, fresh, now)
            else:
                plain += fresh
            used += [(who.user, key, content, job, now + key_life) for key, (content, job) in keys.taken(fresh)]
    if plain:
        insert(db, who.user, plain, now)
    db.insert("insert_key", used)
    return answers


def _insert_tied(
    db: Database,
    owner: str,
    order: Sequence[NewJob],
    answer: Sequence[Submitted],
    fresh: Sequence[NewJob],
    now: Instant,
) -> None:
    known = {job.id: given.id for job, given in zip(order, answer, strict=True) if not given.created}
    insert(db, owner, fresh, now, {job.id for job in fresh if job.after})
    graph.tie(db, owner, fresh, known, now)


class _Keys:
    """The idempotency keys of one call: keys in the store, and keys of its own earlier orders."""

    def __init__(self, db: Database, who: Principal, orders: Sequence[Sequence[NewJob]]) -> None:
        wanted = [job.key for order in orders for job in order if job.key is not None]
        rows = db.rows("known_keys", owner=who.user, keys=encode(wanted).decode()) if wanted else []
        self._known: dict[str, tuple[str, str]] = {key: (content, job_id) for key, content, job_id in rows}

    def answer(self, order: Sequence[NewJob]) -> list[Submitted] | KeyConflict:
        brought: dict[str, tuple[str, str]] = {}
        places = {job.id: place for place, job in enumerate(order)}
        answer: list[Submitted] = []
        for job in order:
            if job.key is None:
                answer.append(Submitted(job.id, True))
                continue
            known = self._known.get(job.key) or brought.get(job.key)
            content = job.content(places)
            if known is None:
                brought[job.key] = (content, job.id)
                answer.append(Submitted(job.id, True))
            elif known[0] == content:
                answer.append(Submitted(known[1], False))
            else:
                return KeyConflict(job.key, known[1])
        self._known |= brought
        return answer

    def taken(self, fresh: Sequence[NewJob]) -> list[tuple[str, tuple[str, str]]]:
        """The keys of these new jobs, each with its content and the job."""
        return [(job.key, self._known[job.key]) for job in fresh if job.key is not None]


def insert(db: Database, owner: str, jobs: Sequence[NewJob], now: Instant, blocked: Collection[str] = ()) -> None:
    """`blocked`: ids of jobs that wait for parents or earlier fires."""
    first: int = db.value("next_seq")
    rows: list[tuple[Any, ...]] = []
    payloads: list[tuple[Any, ...]] = []
    lines: set[str] = set()
    states: set[str] = set()
    step = db.ageing_step
    for seq, (job, text) in enumerate(zip(jobs, columns.texts(jobs), strict=True), first):
        run_at = now if job.at is None and not job.delay else _due(job, now)
        state = _BLOCKED if job.id in blocked else _READY if run_at <= now else _SCHEDULED
        expires_at = None if job.expires is None else run_at + job.expires
        held_by = reason = None
        if job.requirements is not NO_REQUIREMENTS and state is _READY and job.requirements.patient:
            key = job.requirements.keys[0].name  # it joins the line of its first key at once
            state, held_by, reason = _HELD, line(owner, key), waits_for(key)
            lines.add(held_by)
        states.add(state)
        if expires_at is not None:
            states.add(_SCHEDULED)  # an expiry is awaited like a due time
        rows.append(_row(
            job, seq=seq, requirements=text.requirements, special=text.special, owner=owner, state=state,
            rank=rank(run_at, job.priority, step), run_at=run_at, expires_at=expires_at, created_at=now,
            held_by=held_by, reason=reason,
        ))  # fmt: skip
        payloads.append(_payload(job, seq=seq, retry=text.retry))
    db.insert("insert_job", rows)
    db.insert("insert_payload", payloads)
    if db.value("is_watched", owner=owner, now=now):
        db.run("append_batch_events", kind="job.ordered", seqs=encode([row[0] for row in payloads]).decode(), at=now)
        db.topics.add(Topic.NEWS)
    if lines:
        db.run("look_at_lines", lines=encode(sorted(lines)).decode())
    db.topics |= {topic for state, topic in _TOPICS.items() if state in states}


def _due(job: NewJob, now: Instant) -> Instant:
    """A time in the past means now; a time beyond the calendar means its end."""
    at = job.at if job.at is not None else now + job.delay
    return min(max(at, now), LATEST)


def replay(db: Database, who: Principal, ids: Sequence[str], again: bool = False) -> list[bool]:
    takes = sources(JobEvent.RERUN if again else JobEvent.REPLAY)
    chosen = {job for job, state in _ended(db, who, ids) if state in takes}
    if chosen:
        graph.reopen(db, chosen)
        run_at_once(quotas.take_made(SqliteUnit(db), who, len(chosen)))
        db.emit_for_jobs("job.replayed", [(job, {"by": who.user}) for job in sorted(chosen)])
        db.topics.add(Topic.DUE)
    return [job in chosen for job in ids]


def purge(db: Database, who: Principal, ids: Sequence[str]) -> list[bool]:
    chosen = {job for job, _ in _ended(db, who, ids)}
    chosen -= graph.unsettled(db, chosen)
    if chosen:
        db.emit_for_jobs("job.purged", [(job, {"by": who.user}) for job in sorted(chosen)])
        delete(db, [seq for (seq,) in db.rows("seqs_of_ended", ids=encode(list(chosen)).decode())])
        run_at_once(sealing.list_purged(SqliteUnit(db), chosen))
    return [job in chosen for job in ids]


def delete(db: Database, seqs: Sequence[int]) -> None:
    """None of them may be unsettled."""
    text = encode(seqs).decode()
    for name in (
        "delete_output", "delete_attempts", "delete_progress", "forget_states", "delete_payloads", "delete_edges",
        "delete_members", "delete_jobs",
    ):  # fmt: skip
        db.run(name, seqs=text)


def _ended(db: Database, who: Principal, ids: Sequence[str]) -> list[tuple[str, str]]:
    rows = db.rows("lock_history", ids=encode(ids).decode(), sees=who.sees)
    return [(job, state) for job, state, *_ in rows]
