"""Verbs of nodes for jobs: claim, start, hand back, finish; output, progress and states of attempts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import apsw
import msgspec

from rota.model.error_groups import group_of, set_aside
from rota.model.gates import ClosedGate, Effect, fitting
from rota.model.job import Claimed, Kind, Ref, Verdict
from rota.model.lifecycle import State
from rota.model.outcome import Ending, Settlement
from rota.model.requirements import subject
from rota.model.times import Duration, as_instant
from rota.store.carriers import output, output_quotas
from rota.store.carriers.at_once import run_at_once
from rota.store.settlement import Move, failed, move
from rota.store.sqlite import gates, ranking
from rota.store.sqlite.claim_scan import ClaimScan
from rota.store.sqlite.database import Database, encode
from rota.store.sqlite.unit import SqliteUnit
from rota.store.values import Chunk, Note, Start, Topic

_claimed = msgspec.json.Decoder(list[Claimed])
_attempt_states = msgspec.json.Decoder(list[tuple[int, int, bool, str | None, str | None]], strict=False)
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, apsw.TooBigError)
_NOTHING: Sequence[Any] = (None, False, None, None)
_PLAIN_SUCCESS = (State.SUCCEEDED, None, 0, 0, 0, None, True)
_MOVE = slice(5, 12)  # of a row: the change of the job


def claim(
    db: Database, incarnation: str, wants: Mapping[str, int], kinds: Sequence[Kind], start: Mapping[str, int]
) -> list[Claimed]:
    now = db.now()
    claimer = db.rows("claimer", incarnation=incarnation, now=now)
    if not claimer or claimer[0][0] not in ("live", "stopping"):
        return []
    _, gated, ruled, watched, bounded = claimer[0]
    paused = {name for (name,) in db.rows("paused_queues")} if ruled else set()
    rules = ranking.rules(db) if ruled else {}
    scan = ClaimScan(db, incarnation, gates.closed(db, now) if gated else (), now, bool(bounded))
    for queue, limit in wants.items():
        if queue in rules and queue not in paused and limit > 0:
            ranking.put_right(db, rules[queue], partial(scan.front, queue, kinds))
        if queue not in paused:
            scan.pick(queue, kinds, limit, start.get(queue, 0))
    for seqs, at in ((scan.started, now), (scan.ahead, None)):
        if seqs:
            db.run("take", seqs=encode(seqs).decode(), incarnation=incarnation, started_at=at)
    if watched:
        _tell_starts(db, [*scan.keyed, *scan.started])
    chosen = [*scan.keyed, *scan.started, *scan.ahead]
    found = _taken(db, chosen) if chosen else []
    return [_with_slack(one, scan.slacks) for one in found] if scan.slacks else found


def _tell_starts(db: Database, seqs: Sequence[int]) -> None:
    if seqs and db.run("append_started", at=db.now(), seqs=encode(seqs).decode()):
        db.topics.add(Topic.NEWS)


def _with_slack(one: Claimed, slacks: Mapping[str, Duration]) -> Claimed:
    return msgspec.structs.replace(one, slack=slacks[one.job_id]) if one.job_id in slacks else one


def _taken(db: Database, seqs: list[int]) -> list[Claimed]:
    try:
        return _claimed.decode(db.value("taken", seqs=encode(seqs).decode()))
    except _UNREADABLE:
        return [one for seq in seqs for one in _taken_singly(db, seq)]


def _taken_singly(db: Database, seq: int) -> list[Claimed]:
    """Sets the job aside if its row doesn't decode: it must not hold up the others."""
    try:
        return _claimed.decode(db.value("taken", seqs=encode([seq]).decode()))
    except _UNREADABLE as error:
        reason = f"broken row: {error}"
        db.run("set_aside", seq=seq, now=db.now(), reason=reason, error_group=group_of("", set_aside(reason)))
        db.run("append_set_aside", at=db.now(), seq=seq)
        db.topics.add(Topic.NEWS)
        return []


def start(db: Database, refs: Sequence[Ref]) -> list[Start]:
    now = db.now()
    rows = {key: rest for key, *rest in db.rows("start_states", refs=_refs(refs), now=now)}
    closed = gates.closed(db, now)
    paused = {name for (name,) in db.rows("paused_queues")}
    answers: list[Start] = []
    chosen: list[int] = []
    back: list[int] = []
    barred: dict[int, ClosedGate] = {}
    for index in range(len(refs)):
        seq, started_at, cancel, *about = rows.get(index, (None, None, None))
        if seq is None:
            answers.append(Start(Verdict.STALE))
        elif started_at is not None:
            answers.append(Start(Verdict.ALREADY, started_at, cancel))
        elif cancel is not None:
            answers.append(Start(Verdict.STALE, None, cancel))
        elif seq in chosen:
            answers.append(Start(Verdict.ALREADY, now))
        elif closed and (gate := fitting(closed, subject(*_four(about)), None)):  # the gate was closed since the claim
            barred[seq] = gate
            answers.append(Start(Verdict.STALE))
        elif _four(about)[2] in paused:
            back.append(seq)
            answers.append(Start(Verdict.STALE))
        else:
            chosen.append(seq)
            answers.append(Start(Verdict.APPLIED, now))
    gates.bar(db, [(seq, gate) for seq, gate in barred.items() if gate.effect is Effect.PAUSE])
    back += [seq for seq, gate in barred.items() if gate.effect is Effect.DROP]  # for the next claim to drop
    if back:
        db.run("hand_back_jobs", seqs=encode(back).decode(), now=now)
    if chosen:
        db.run("start_jobs", seqs=encode(chosen).decode(), now=now)
        if db.value("is_watched", owner=None, now=now):
            _tell_starts(db, chosen)
    return answers


def _four(about: Sequence[Any]) -> tuple[str, str, str, str | None]:
    owner, task, queue, requirements = about
    return owner, task, queue, requirements


def hand_back(db: Database, refs: Sequence[Ref]) -> list[Verdict]:
    chosen: list[int] = []
    verdicts = [Verdict.STALE] * len(refs)
    for key, seq, unstarted, before in db.rows("hand_back_states", refs=_refs(refs)):
        if unstarted and seq not in chosen:
            chosen.append(seq)
            verdicts[key] = Verdict.APPLIED
        elif unstarted or before:
            verdicts[key] = Verdict.ALREADY
    if chosen:
        db.run("hand_back_jobs", seqs=encode(chosen).decode(), now=db.now())
        db.topics |= {Topic.READY, Topic.NEWS}
    return verdicts


def finish(db: Database, settlements: Sequence[Settlement]) -> list[Verdict]:
    """Also used by the reaper."""
    refs = encode([(s.job_id, s.fence) for s in settlements]).decode()
    found: dict[int, Sequence[Any]] = {
        key: rest for key, *rest in _attempt_states.decode(db.value("attempt_states", refs=refs))
    }
    verdicts: list[Verdict] = []
    rows: list[tuple[Any, ...]] = []
    done: dict[int, Ending] = {}  # a batch may name the same attempt twice
    saved: set[int] = set()
    for index, settlement in enumerate(settlements):
        seq, running, cancel, outcome = found.get(index, _NOTHING)
        if running and seq not in done:
            rows.append((seq, *_moved(db, settlement, cancel)))
            verdicts.append(Verdict.APPLIED)
            done[seq] = settlement.ending
            if settlement.saved:
                saved.add(seq)
        else:
            before = done.get(seq, outcome)
            verdicts.append(Verdict.ALREADY if before == settlement.ending else Verdict.STALE)
    if rows:
        now = db.now()
        db.run("record_attempts", rows=encode(rows).decode(), now=now)
        plain = [row[0] for row in rows if row[_MOVE] == _PLAIN_SUCCESS]
        if plain:
            db.run("succeed_jobs", seqs=encode(plain).decode(), now=now)
        if len(plain) < len(rows):
            others = [row for row in rows if row[_MOVE] != _PLAIN_SUCCESS]
            db.run("move_jobs", rows=encode(others).decode(), now=now, step=db.ageing_step)
        if succeeded := [row[0] for row in rows if row[5] is State.SUCCEEDED]:
            db.run("append_batch_events", kind="job.succeeded", seqs=encode(succeeded).decode(), at=now)
        if needless := [row[0] for row in rows if row[0] in saved and row[5] is State.SUCCEEDED]:
            db.run("forget_states", seqs=encode(needless).decode())
    return verdicts


def _moved(db: Database, settlement: Settlement, cancel: str | None) -> Move:
    moved = move(settlement, cancel)
    if moved.state is State.FAILED:
        task = bytes(db.value("task_of", id=settlement.job_id)).decode("utf-8", "replace")
        moved = failed(moved, settlement, task)
        db.emit_for_jobs("job.failed", [(settlement.job_id, {"reason": moved.reason, "fence": settlement.fence})])
    db.topics |= moved.topics
    return moved


def append_output(db: Database, chunks: Sequence[Chunk], late: bool = False) -> list[Verdict]:
    if not late:
        return _append_all(db, chunks)
    found = run_at_once(output.late(SqliteUnit(db), chunks))
    return found.verdicts(_append_all(db, found.chunks, late=True) if found.chunks else ())


def _append_all(db: Database, chunks: Sequence[Chunk], late: bool = False) -> list[Verdict]:
    rows = db.rows("late_attempts" if late else "open_attempts", refs=_chunks(chunks))
    live = {key: seq for key, seq, _ in rows}
    owners = {key: owner for key, _, owner in rows if owner is not None}
    verdicts = _append_bounded(db, chunks, live, owners) if owners else _append(db, chunks, live)
    if late and Verdict.STALE in verdicts:
        running = {key for key, _, _ in db.rows("open_attempts", refs=_chunks(chunks))}
        verdicts = [Verdict.EARLY if key in running else verdict for key, verdict in enumerate(verdicts)]
    return verdicts


def _append_bounded(
    db: Database, chunks: Sequence[Chunk], live: Mapping[int, int], owners: Mapping[int, str]
) -> list[Verdict]:
    """Some of them are of users with a quota for output."""
    cuts = _cuts([(live[key], chunks[key]) for key in owners])
    cut = dict(db.rows("cut_sizes", cuts=encode(cuts).decode())) if cuts else {}
    places = list(owners)
    some = [chunks[key] for key in places]
    kept = {key for (key,) in db.rows("kept_chunks", chunks=_chunks(some))}
    judged = run_at_once(output_quotas.judge(SqliteUnit(db), some, list(owners.values()), kept, cut))
    seqs = {chunks[key].job_id: live[key] for key in places}
    appended = _append(db, judged.chunks, {at: seqs[one.job_id] for at, one in enumerate(judged.chunks)})
    others = [key for key in range(len(chunks)) if key not in owners]
    alive = {at: live[key] for at, key in enumerate(others) if key in live}
    verdicts = dict(zip(others, _append(db, [chunks[key] for key in others], alive), strict=True))
    for key, at in zip(places, judged.places, strict=True):
        verdicts[key] = Verdict.ALREADY if at is None else appended[at]
    return [verdicts[key] for key in range(len(chunks))]


def _cuts(chunks: Iterable[tuple[int, Chunk]]) -> list[tuple[int, int, int, int]]:
    return [(seq, one.fence, one.since, one.number) for seq, one in chunks if one.since is not None]


def _chunks(chunks: Sequence[Chunk]) -> str:
    return encode([(one.job_id, one.fence, one.number) for one in chunks]).decode()


def _append(db: Database, chunks: Sequence[Chunk], live: Mapping[int, int]) -> list[Verdict]:
    """`live`: the jobs of those whose attempts run, by their places."""
    cuts = _cuts([(seq, chunks[key]) for key, seq in live.items()])
    if cuts:
        db.many("cut_output", cuts)
    kept = {key for (key,) in db.rows("kept_chunks", chunks=_chunks(chunks))}
    fresh = [index for index in live if index not in kept]
    if fresh:
        now = db.now()
        rows = [(live[i], (c := chunks[i]).fence, c.number, c.written_at, now, c.stream, c.body) for i in fresh]
        db.many("insert_output", rows)
        db.topics.add(Topic.NEWS)
    verdicts = [Verdict.ALREADY if index in kept else Verdict.STALE for index in range(len(chunks))]
    for index in fresh:
        verdicts[index] = Verdict.APPLIED
    return verdicts


def note(db: Database, notes: Sequence[Note]) -> list[Verdict]:
    refs = encode([(one.job_id, one.fence) for one in notes]).decode()
    found: dict[int, Sequence[Any]] = {key: rest for key, *rest in db.rows("note_states", refs=refs)}
    told: dict[tuple[int, int], int] = {}  # by (job, fence), the last number of each; a batch may name an attempt twice
    saved: dict[tuple[int, int], int] = {}
    verdicts: list[Verdict] = []
    for index, one in enumerate(notes):
        seq, runs, last_told, last_saved = found.get(index, (None, False, -1, -1))
        attempt = (seq, one.fence)
        last_told, last_saved = told.get(attempt, last_told), saved.get(attempt, last_saved)
        tells = one.progress is not None and one.number > last_told
        saves = one.state is not None and one.number > last_saved
        if not runs or not (tells or saves):
            known = runs or max(last_told, last_saved) >= one.number
            verdicts.append(Verdict.ALREADY if known else Verdict.STALE)
            continue
        if one.progress is not None and tells:
            told[attempt] = one.number
            report = one.progress.fraction, one.progress.text, as_instant(one.progress.at)
            db.many("keep_progress", [(seq, one.fence, one.number, *report)])
        if saves:
            saved[attempt] = one.number
            db.many("keep_state", [(seq, one.fence, one.number, one.state)])
        verdicts.append(Verdict.APPLIED)
        db.topics.add(Topic.NEWS)
    return verdicts


def _refs(refs: Sequence[Ref]) -> str:
    return encode([(ref.job_id, ref.fence) for ref in refs]).decode()
