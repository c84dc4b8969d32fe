"""Verbs of nodes for jobs: claim, start, hand back, finish; output, progress and states of attempts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

import asyncpg
import msgspec

from rota.model.job import Claimed, Kind, Ref, Verdict
from rota.model.lifecycle import JobEvent, State
from rota.model.outcome import Ending, Settlement
from rota.model.times import SECOND, as_instant
from rota.store.carriers import output, output_quotas
from rota.store.postgres import admission
from rota.store.postgres.database import Unit
from rota.store.postgres.encoding import clean, ids_only, is_id
from rota.store.postgres.scan_floor import Place, ScanFloor
from rota.store.settlement import Move, failed, move
from rota.store.values import Chunk, Note, Start, Topic

_NO_JOB = "00000000-0000-0000-0000-000000000000"
_LARGEST = (1 << 63) - 1
MOST = 1 << 30
# Rounds of one claim, when jobs at the front of the line are moved aside.
MOST_LOOKS = 8
# Extra functions that a claim reads in the order of rank, offered by its node or not. Mostly all are offered; otherwise
# the claim goes on task by task, which costs an index look-up per task of the node.
REACH = 100


async def claim(
    unit: Unit,
    incarnation: str,
    wants: Mapping[str, int],
    kinds: Sequence[Kind],
    start: Mapping[str, int],
    low_end: ScanFloor,
) -> list[Claimed]:
    """Takes several rounds if jobs are moved aside: they make room for others."""
    claimed: list[Claimed] = []
    for look in range(MOST_LOOKS):
        taken = Counter(one.queue for one in claimed)
        left = {queue: want - taken[queue] for queue, want in wants.items()}
        free = {queue: want - taken[queue] for queue, want in start.items()}
        full = low_end.full
        try:
            found, stopped, fallen = await _look(unit, incarnation, left, kinds, free, low_end)
            claimed += found
            if fallen:
                await admission.put_right(unit, fallen)
            admitted = await _admit(unit, incarnation, stopped) if stopped else []
            claimed += admitted
            if stopped and not admitted:  # all were moved aside: many more like them may follow
                queues = [queue for queue in left if left[queue] > 0]
                await admission.clear_front(unit, incarnation, queues, kinds, keys=look > 0)
        except asyncpg.PostgresError:
            # Return the jobs claimed so far: the node would not run jobs that it does not hear of. The rest can wait.
            if not claimed or unit.in_transaction:
                raise
            break
        complete = len(admitted) == len(stopped) and not fallen  # none was moved aside: no new room
        if complete and (full or len(claimed) >= sum(wants.values())):
            break
        if any(one.slack is not None for one in claimed):
            unit.topics.add(Topic.READY)  # these must start soon: another claim looks for the rest
            break
        if complete:
            low_end.read_all_next()  # there are free slots: jobs below the floor must not wait
    else:
        unit.topics.add(Topic.READY)  # there may be more behind
    return sorted(claimed, key=lambda one: (one.rank, one.job_id))


async def _admit(unit: Unit, incarnation: str, stopped: Sequence[str]) -> list[Claimed]:
    """Claims the admissible ones of jobs that a gate fits or that need keys; the others are moved aside."""
    step = unit.database.ageing_step
    about = {"incarnation": incarnation, "now": unit.now, "step": step}
    rows = await unit.rows("admit_claim", ids=stopped, only_gates=False, **about)
    admitted = [Claimed(*row) for row in rows]
    if len(admitted) < len(stopped) or any(one.slack is not None for one in admitted):
        unit.topics.add(Topic.GATE)  # a token is used up: its return is a new time to wait for
    if len(admitted) < len(stopped):
        unit.topics |= {Topic.NEWS, Topic.CANCEL}  # some jobs may have ended
    return admitted


async def _look(
    unit: Unit,
    incarnation: str,
    wants: Mapping[str, int],
    kinds: Sequence[Kind],
    start: Mapping[str, int],
    low_end: ScanFloor,
) -> tuple[list[Claimed], list[str], list[str]]:
    """Claims plain jobs. Returns them, the ids of jobs that need admission, and the ids of jobs to be ranked anew."""
    lanes = [(queue, kind.value) for queue, want in wants.items() if want > 0 for kind in kinds]
    if not lanes:
        return [], [], []
    full = low_end.full
    floors = [low_end.floor(lane) for lane in lanes]
    rows = await unit.rows(
        "claim", incarnation=incarnation, now=unit.now, queues=[queue for queue, _ in lanes],
        kinds=[kind for _, kind in lanes], wants=[min(wants[queue], MOST) for queue, _ in lanes],
        starts=[min(start.get(queue, 0), MOST) for queue, _ in lanes], floors=[rank for rank, _ in floors],
        floor_ids=[job for _, job in floors], reach=REACH,
    )  # fmt: skip
    took = sum(row[1] for row in rows if row[0] is None) / SECOND
    stopped = [row[0] for row in rows if row[1] is None]
    fallen = [row[0] for row in rows if row[1] == 0 and row[0] is not None]
    claimed = sorted((Claimed(*row) for row in rows if row[0] and row[1]), key=lambda one: (one.rank, one.job_id))
    if not stopped and not fallen:  # otherwise the read was not complete
        lowest: dict[Hashable, Place] = {(one.queue, one.kind): (one.rank, one.job_id) for one in reversed(claimed)}
        low_end.read(full, took, len(claimed), lowest)
    return claimed, stopped, fallen


async def start(unit: Unit, refs: Sequence[Ref]) -> list[Start]:
    await unit.begin()
    ids, fences = _columns(refs)
    rows = {place: rest for place, *rest in await unit.rows("start_states", ids=ids, fences=fences, now=unit.now)}
    waiting = {
        job: paused for job, started_at, cancel, paused in rows.values() if started_at is None and cancel is None
    }
    back = {job for job, paused in waiting.items() if paused}  # its queue was paused since the claim,
    chosen = sorted(waiting.keys() - back)
    if back:
        await unit.run("hand_back_jobs", ids=sorted(back))
    if chosen:  # or a gate was closed
        back |= {job for (job,) in await unit.rows("hold_gated", ids=chosen, now=unit.now)}
        chosen = [job for job in chosen if job not in back]
    now = await unit.value("start_jobs", ids=chosen, now=unit.now) if chosen else None
    answers: list[Start] = []
    seen: set[str] = set()
    for place in range(len(refs)):
        job, started_at, cancel, _ = rows.get(place, (None, None, None, None))
        if job is None or job in back:
            answers.append(Start(Verdict.STALE))
        elif started_at is not None:
            answers.append(Start(Verdict.ALREADY, started_at, cancel))
        elif cancel is not None:
            answers.append(Start(Verdict.STALE, None, cancel))
        else:
            answers.append(Start(Verdict.ALREADY if job in seen else Verdict.APPLIED, now))
            seen.add(job)
    return answers


async def hand_back(unit: Unit, refs: Sequence[Ref]) -> list[Verdict]:
    await unit.begin()
    ids, fences = _columns(refs)
    verdicts = [Verdict.STALE] * len(refs)
    chosen: dict[str, str | None] = {}
    for place, job, unstarted, before, cancel in sorted(await unit.rows("hand_back_states", ids=ids, fences=fences)):
        if unstarted and job not in chosen:
            chosen[job] = cancel
            verdicts[place] = Verdict.APPLIED
        elif unstarted or before:
            verdicts[place] = Verdict.ALREADY
    for (place,) in await unit.rows("handed_back_before", ids=ids, fences=fences):
        verdicts[place] = Verdict.ALREADY
    back = [job for job, cancel in chosen.items() if cancel is None]
    over = [job for job, cancel in chosen.items() if cancel is not None]
    if back:
        await unit.run("hand_back_jobs", ids=back)
    if over:
        await unit.run("end_unstarted", ids=over, now=unit.now)
        await unit.settle(over)
    if chosen:
        unit.topics |= {Topic.READY, Topic.NEWS}
    return verdicts


async def finish(unit: Unit, settlements: Sequence[Settlement]) -> list[Verdict]:
    """Also used by the reaper."""
    verdicts: list[Verdict | None] = [None] * len(settlements)
    plain = _plain_successes(settlements)
    saved = any(one.saved for one in settlements)
    if len(plain) < len(settlements) or unit.database.ties_lately or saved:
        await unit.begin()
    if plain:
        await _succeed(unit, settlements, plain, verdicts)
    rest = [index for index, verdict in enumerate(verdicts) if verdict is None]
    if rest:
        await unit.begin()
        for index, verdict in zip(rest, await _end_attempts(unit, [settlements[i] for i in rest]), strict=True):
            verdicts[index] = verdict
    if saved:
        await _forget_states(unit, settlements, verdicts)
    return [verdict or Verdict.STALE for verdict in verdicts]


async def _forget_states(unit: Unit, settlements: Sequence[Settlement], verdicts: Sequence[Verdict | None]) -> None:
    """Deletes the saved states of jobs that succeeded."""
    needless = [
        one.job_id
        for one, verdict in zip(settlements, verdicts, strict=True)
        if one.saved and one.event is JobEvent.SUCCEED and verdict is Verdict.APPLIED
    ]
    if needless:
        await unit.run("forget_states", ids=ids_only(needless))


def _plain_successes(settlements: Sequence[Settlement]) -> list[int]:
    """The places of plain successes, each attempt once: a batch may name one twice."""
    chosen: dict[tuple[str, int], int] = {}
    for index, one in enumerate(settlements):
        if one.event is JobEvent.SUCCEED and is_id(one.job_id):
            chosen.setdefault((one.job_id, one.fence), index)
    named = [one for one in settlements if (one.job_id, one.fence) in chosen]
    return list(chosen.values()) if len(named) == len(chosen) else []


async def _succeed(
    unit: Unit, settlements: Sequence[Settlement], plain: list[int], verdicts: list[Verdict | None]
) -> None:
    plain.sort(key=lambda index: settlements[index].job_id)  # rows are locked in the order of ids
    chosen = [settlements[index] for index in plain]
    done = await unit.rows(
        "succeed", ids=[one.job_id for one in chosen], fences=[min(one.fence, _LARGEST) for one in chosen],
        codes=[one.exit_code for one in chosen], results=[one.result for one in chosen],
        usages=[_usage(one) for one in chosen], now=unit.now,
    )  # fmt: skip
    applied = {job for job, _, _ in done}
    # The children and keys of ended jobs are on lists by now, so another transaction may settle them without loss. If
    # the last call had such jobs, this call is one transaction and settles its own.
    tied, special = [job for job, ties, _ in done if ties], any(held for _, _, held in done)
    unit.database.ties_lately = bool(tied or special)
    if tied:
        await unit.settle(tied)
    if special:
        await unit.hand_on()
    for index in plain:
        if settlements[index].job_id in applied:
            verdicts[index] = Verdict.APPLIED
    if applied:
        unit.topics.add(Topic.NEWS)


def _usage(one: Settlement) -> str | None:
    return None if one.usage is None else msgspec.json.encode(one.usage).decode()


async def _end_attempts(unit: Unit, settlements: Sequence[Settlement]) -> list[Verdict]:
    ids, fences = _columns([Ref(one.job_id, one.fence) for one in settlements])
    await unit.rows("lock_jobs", ids=ids_only(ids), sees=None)
    found = {place: rest for place, *rest in await unit.rows("attempt_states", ids=ids, fences=fences)}
    verdicts: list[Verdict] = []
    moves: dict[str, Move] = {}
    done: dict[str, Ending] = {}
    ended: dict[State, list[tuple[str, str, dict[str, object]]]] = {}
    found_tied: dict[str, bool] = {}  # it has children
    special = False  # some of them hold keys
    for index, one in enumerate(settlements):
        running, cancel, owner, outcome, tied_now, special_now, queue, task = found[index]
        found_tied[one.job_id] = tied_now
        special |= bool(special_now)
        if running and one.job_id not in done:
            moved = move(one, cancel)
            moved = moves[one.job_id] = failed(moved, one, task) if moved.state is State.FAILED else moved
            done[one.job_id] = one.ending
            unit.topics |= moved.topics
            if moved.terminal:
                about = {"queue": queue, "task": task, "reason": moved.reason, "fence": one.fence}
                ended.setdefault(moved.state, []).append((one.job_id, owner, about))
            verdicts.append(Verdict.APPLIED)
        else:
            before = done.get(one.job_id, outcome)
            verdicts.append(Verdict.ALREADY if before == one.ending else Verdict.STALE)
    await _carry_out(unit, moves)
    if tied := [job for job, one in moves.items() if one.terminal and found_tied[job]]:
        await unit.settle(tied)
    if special:
        await unit.hand_on()
    for state, told in ended.items():
        await unit.emit_for_jobs(f"job.{state.value}", told)
    return verdicts


async def _carry_out(unit: Unit, moves: Mapping[str, Move]) -> None:
    ended = {job: one for job, one in moves.items() if one.terminal}
    going_on = {job: one for job, one in moves.items() if not one.terminal}
    if ended:
        await unit.run(
            "end_jobs", now=unit.now, states=[one.state.value for one in ended.values()],
            groups=[one.error_group for one in ended.values()], **_common(ended),
        )  # fmt: skip
    if going_on:
        common = _common(going_on)
        attempts = {name: common[name] for name in ("ids", "outcomes", "codes", "errors", "results", "usages")}
        await unit.run("record_attempts", now=unit.now, **attempts)
        counts = {name: common[name] for name in ("ids", "failures", "crashes", "interruptions", "reasons")}
        await unit.run(
            "move_jobs", now=unit.now, step=unit.database.ageing_step, **counts,
            states=[one.state.value for one in going_on.values()], delays=[one.delay for one in going_on.values()],
        )  # fmt: skip


def _common(moves: Mapping[str, Move]) -> dict[str, list[object]]:
    return {
        "ids": list(moves),
        "outcomes": [str(one.ending) for one in moves.values()],
        "codes": [one.exit_code for one in moves.values()],
        "errors": [one.error for one in moves.values()],
        "results": [one.result for one in moves.values()],
        "failures": [one.failures for one in moves.values()],
        "crashes": [one.crashes for one in moves.values()],
        "interruptions": [one.interruptions for one in moves.values()],
        "usages": [one.usage for one in moves.values()],
        "reasons": [clean(one.reason) for one in moves.values()],
    }


async def append_output(unit: Unit, chunks: Sequence[Chunk], late: bool = False) -> list[Verdict]:
    if not late:
        return await _append_all(unit, chunks)
    early = await _too_early(unit, chunks)
    rest = [chunk for chunk in chunks if Ref(chunk.job_id, chunk.fence) not in early]
    found = await output.late(unit, rest)
    done = iter(found.verdicts(await _append_all(unit, found.chunks, late=True) if found.chunks else ()))
    return [Verdict.EARLY if Ref(chunk.job_id, chunk.fence) in early else next(done) for chunk in chunks]


async def _too_early(unit: Unit, chunks: Sequence[Chunk]) -> set[Ref]:
    """Attempts with a mark that still run. One that ended between the two statements below would have its mark refused
    and the chunks behind it kept."""
    refs = list({Ref(chunk.job_id, chunk.fence): None for chunk in chunks if chunk.since is not None})
    if not refs:
        return set()
    ids, fences = _columns(refs)
    return {refs[place] for (place,) in await unit.rows("still_running", jobs=ids, fences=fences)}


async def _append_all(unit: Unit, chunks: Sequence[Chunk], late: bool = False) -> list[Verdict]:
    verdicts, bounded, kept, cut = await _append(unit, chunks, late=late)
    if bounded:
        await unit.begin()
        places = sorted(bounded)
        some, owners = [chunks[place] for place in places], [bounded[place] for place in places]
        known = {at for at, place in enumerate(places) if place in kept}
        judged = await output_quotas.judge(unit, some, owners, known, cut)
        appended = (await _append(unit, judged.chunks, judged=True, late=late)).verdicts if judged.chunks else []
        for place, at in zip(places, judged.places, strict=True):
            verdicts[place] = Verdict.ALREADY if at is None else appended[at]
    return verdicts


class _Appended(NamedTuple):
    verdicts: list[Verdict]
    bounded: dict[int, str]  # places of chunks that were not appended: their users have a quota for output
    kept: set[int]  # places of those that were there
    cut: dict[str, int]  # bytes that marks have replaced, by user


async def _append(unit: Unit, chunks: Sequence[Chunk], judged: bool = False, late: bool = False) -> _Appended:
    cut_output, append_output = ("cut_late", "append_late") if late else ("cut_output", "append_output")
    cut: dict[str, int] = {}
    if marks := [chunk for chunk in chunks if chunk.since is not None]:
        await unit.begin()  # what marks replace goes with their coming, or not at all
        ids, fences = _columns([Ref(mark.job_id, mark.fence) for mark in marks])
        firsts, lasts = [mark.since for mark in marks], [mark.number for mark in marks]
        cut = dict(await unit.rows(cut_output, jobs=ids, fences=fences, firsts=firsts, lasts=lasts))
    ids, fences = _columns([Ref(chunk.job_id, chunk.fence) for chunk in chunks])
    rows = await unit.rows(
        append_output, jobs=ids, fences=fences, numbers=[chunk.number for chunk in chunks],
        times=[chunk.written_at for chunk in chunks], streams=[chunk.stream for chunk in chunks],
        bodies=[chunk.body for chunk in chunks], judged=judged, now=unit.now,
    )  # fmt: skip
    verdicts = [Verdict.STALE] * len(chunks)
    bounded = {row[0]: row[4] for row in rows if row[4] is not None}
    for place, kept, fresh, still_open, _, *runs in rows:
        if any(runs):
            verdicts[place] = Verdict.EARLY
        elif fresh:
            verdicts[place] = Verdict.APPLIED
            unit.topics.add(Topic.NEWS)
        elif kept or still_open:  # kept before, or twice in this call
            verdicts[place] = Verdict.ALREADY
    return _Appended(verdicts, bounded, {row[0] for row in rows if row[1]}, cut)


async def note(unit: Unit, notes: Sequence[Note]) -> list[Verdict]:
    verdicts = [Verdict.STALE] * len(notes)
    rounds = _each_once(notes)
    if len(rounds) > 1:
        await unit.begin()
    for places in rounds:
        chosen = [notes[place] for place in places]
        ids, fences = _columns([Ref(one.job_id, one.fence) for one in chosen])
        told = [one.progress for one in chosen]
        rows = await unit.rows(
            "note", jobs=ids, fences=fences, numbers=[one.number for one in chosen],
            fractions=[one and one.fraction for one in told], texts=[one and one.text for one in told],
            times=[one and as_instant(one.at) for one in told], states=[one.state for one in chosen],
        )  # fmt: skip
        for place, applied, known in rows:
            if applied:
                verdicts[places[place]] = Verdict.APPLIED
                unit.topics.add(Topic.NEWS)
            elif known:
                verdicts[places[place]] = Verdict.ALREADY
    return verdicts


def _each_once(notes: Sequence[Note]) -> list[list[int]]:
    """The places of notes, in rounds that name each job once: one statement can't write a row twice."""
    rounds: list[list[int]] = []
    count: Counter[str] = Counter()
    for place, one in enumerate(notes):
        if count[one.job_id] == len(rounds):
            rounds.append([])
        rounds[count[one.job_id]].append(place)
        count[one.job_id] += 1
    return rounds


def _columns(refs: Sequence[Ref]) -> tuple[list[str], list[int]]:
    return [ref.job_id if is_id(ref.job_id) else _NO_JOB for ref in refs], [min(ref.fence, _LARGEST) for ref in refs]
