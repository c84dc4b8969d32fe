"""`rota job ...`: shows and changes jobs."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Container, Iterator, Sequence
from contextlib import nullcontext

import msgspec

from rota.cli import calls, commands
from rota.cli.grammar import Parser, whole
from rota.cli.live import Bar, bar, used
from rota.cli.many import Wording, change_all, check_choice, filter_of
from rota.cli.relations import Relations, relations
from rota.cli.session import existing, resolve, utf8
from rota.cli.show import Cell, ago, block, complain, document, facts, safe, shortened, state, table, when
from rota.cli.waiting import hinting
from rota.clients import job_queries
from rota.clients.jobs import JobsClient
from rota.errors import WaitTimeout
from rota.model.job import AttemptInfo, JobInfo, Kind
from rota.model.lifecycle import State
from rota.model.outcome import Problem
from rota.model.rank import priority
from rota.model.secrets import declared
from rota.model.times import SECOND, Duration, Instant, as_instant, duration, short
from rota.store.values import Cancelling, JobFilter
from rota.views.jobs import JobDetailView, JobView, WaitReason, done_views, job_fields

TIMED_OUT = 124
LONGEST_VALUE = 2_000
LONGEST_REASON = 100
ALL = tuple(State)


HEADERS = ("ID", "TASK", "STATE", "QUEUE", "PRI", "TRIES", "WHEN", "TOOK", "REASON")


def row(job: JobInfo, now: Instant) -> tuple[Cell, ...]:
    """Of a list; under HEADERS."""
    moment = job.finished_at if job.ended else job.started_at if job.state is State.RUNNING else job.run_at
    shown = ("cancelling", "yellow") if job.cancelling and not job.ended else state(job.state)
    tries = str(len(job.attempts))
    reason = shortened(job.reason or "", LONGEST_REASON)
    task = f"{job.name} ({job.task})" if job.name and job.name != job.task else job.task
    return job.id, task, shown, job.queue, str(job.priority), tries, ago(moment, now), _took(job, now), reason


def _took(job: JobInfo, now: Instant) -> str:
    last = job.attempts[-1] if job.attempts else None
    return _span(last, now) if last else ""


def _span(attempt: AttemptInfo, now: Instant) -> str:
    end = as_instant(attempt.finished_at) if attempt.finished_at is not None else now
    return _rounded(max(end - as_instant(attempt.started_at), 0))


def _rounded(span: Duration) -> str:
    """Milliseconds matter below a minute, seconds above."""
    return short(round(span, -3) if span < 60 * SECOND else round(span, -6))


async def show_(args: argparse.Namespace) -> int:
    async with existing(args) as client:
        read = client.get if args.fresh else client.glance
        info = await read(await client.resolve(args.id))
        show_job(args, info, await relations(client, info), client.store.now(), await _holding(client, info))
    return 0


async def _holding(client: JobsClient, job: JobInfo) -> list[WaitReason]:
    """The gate or key that holds a held job."""
    if job.state is not State.HELD:
        return []
    reasons = (await client.explain(job.id)).reasons
    return [reason for reason in reasons if reason.kind in ("gate", "key", "alone", "held")]


def show_job(
    args: argparse.Namespace, job: JobInfo, related: Relations, now: Instant, holding: Sequence[WaitReason] = ()
) -> None:
    if args.json:
        document(JobDetailView(**job_fields(job) | related.fields(), held_by=list(holding)))
        return
    held: list[tuple[str, Cell]] = [("" if place else "held by", one.text) for place, one in enumerate(holding)]
    facts([*_identity(job), *held, *related.facts(), *_order(job), *_course(job, now)])
    if job.attempts:
        print()
        headers = ("ATTEMPT", "NODE", "STARTED", "TOOK", "OUTCOME", "EXIT", "ERROR")
        table(headers, (_attempt_row(attempt, now) for attempt in job.attempts))
    if job.error and job.error.trace:
        block("trace of the last error", job.error.trace)


def _identity(job: JobInfo) -> Iterator[tuple[str, Cell]]:
    yield "id", job.id
    yield "name", job.name
    yield "task", f"{job.task} ({job.kind})"
    yield "state", state(job.state)
    yield "reason", job.reason or ""
    yield "cancelling", "yes, its node was told" if job.cancelling and not job.ended else ""
    yield "progress", bar(job.progress) if job.progress else ""


def _order(job: JobInfo) -> Iterator[tuple[str, Cell]]:
    if job.kind is Kind.COMMAND:
        yield from ((name, brief(text)) for name, text in commands.facts_of(job.spec))
    elif job.kind is Kind.HTTP:
        yield from ((name, brief(text)) for name, text in calls.facts_of(job.spec))
    else:
        yield "arguments", brief(as_json(job.args))
    yield "secrets", ", ".join(declared(as_json(job.spec)))
    yield "queue", f"{job.queue}, priority {job.priority}, owner {job.owner}"
    yield "retries", f"{job.retry.retries}, backoff {job.retry.backoff}" if job.retry.retries else "none"
    yield "timeout", short(job.timeout) if job.timeout is not None else ""
    yield "key", job.key or ""
    yield from job.requirements.facts()
    yield "schedule", job.schedule or ""


def _course(job: JobInfo, now: Instant) -> Iterator[tuple[str, Cell]]:
    yield "fire time", when(job.fire_time, now)
    yield "created", when(job.created_at, now)
    yield "due", when(job.run_at, now)
    yield "expires", when(job.expires_at, now) if job.started_at is None else ""
    yield "started", when(job.started_at, now)
    yield "finished", when(job.finished_at, now)
    last = next((attempt.usage for attempt in reversed(job.attempts) if attempt.usage), None)
    yield "used", used(last) if last else ""
    counts = {"failure": job.failures, "crash": job.crashes, "interruption": job.interruptions, "replay": job.replays}
    yield "so far", ", ".join(_counted(count, what) for what, count in counts.items() if count)
    yield "result", brief(as_json(job.result)) if job.result is not None else ""
    yield "error", brief(f"{job.error.type}: {job.error.message}") if job.error else ""


def _counted(count: int, what: str) -> str:
    ending = "" if count == 1 else "es" if what.endswith("sh") else "s"
    return f"{count} {what}{ending}"


def as_json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def brief(text: str) -> str:
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}... ({len(text)} characters; see --json)"


def _attempt_row(attempt: AttemptInfo, now: Instant) -> tuple[Cell, ...]:
    outcome = state(attempt.outcome or "running")
    code = "" if attempt.exit_code is None else str(attempt.exit_code)
    error = shortened(_problem(attempt.error), LONGEST_REASON) if attempt.error else ""
    return str(attempt.number), attempt.node, when(attempt.started_at, now), _span(attempt, now), outcome, code, error


def _problem(error: Problem) -> str:
    """Errors of rota have a sentence as message; an exception needs its class too, since `3` or `'key'` says little."""
    kind = error.type.rpartition(".")[2]
    if error.type.startswith("rota.") or error.message in ("", kind):
        return error.message
    return f"{kind}: {error.message}"


_CANCELLING = {
    Cancelling.CANCELLED: "cancelled",
    Cancelling.REQUESTED: "is running; its node was told to stop it",
    Cancelling.ENDED: "had ended before",
    Cancelling.UNKNOWN: "is not there any more",
}


async def cancel_(args: argparse.Namespace) -> int:
    check_choice(args)
    reason = "cancelled by its user" if args.reason is None else utf8(args.reason, "--reason")
    async with existing(args) as client:
        change = job_queries.cancelling(client, reason)
        if args.all:
            query = await filter_of(args, client, ALL)
            return await change_all(args, client, query, change, Wording("job", "cancelled"))
        ids = await resolve(client, args.ids)
        if args.dry_run:
            return await _would(args, client, ids, change.states, "cancelled")
        answers = await client.cancel(ids, reason)
    done = [answer in (Cancelling.CANCELLED, Cancelling.REQUESTED) for answer in answers]
    return report(args, ids, done, [_CANCELLING[answer] for answer in answers], [answer.value for answer in answers])


async def _would(
    args: argparse.Namespace, client: JobsClient, ids: Sequence[str], states: Container[State], done: str
) -> int:
    """What a change would do, for `--dry-run`."""
    now = {job.id: job.state for job in await client.find(JobFilter(ids=tuple(ids), limit=len(ids)))}
    fits = [now.get(job) in states for job in ids]
    texts = [
        f"would be {done}" if ok else f"would not be {done}: it is {now.get(job, 'gone')}"
        for job, ok in zip(ids, fits, strict=True)
    ]
    return report(args, ids, fits, texts, [f"would be {done}" if ok else "refused" for ok in fits])


async def retry_(args: argparse.Namespace) -> int:
    check_choice(args)
    async with existing(args) as client:
        change = job_queries.retrying(client)
        if args.all:
            return await change_all(args, client, await filter_of(args, client, ALL), change, Wording("job", "retried"))
        ids = await resolve(client, args.ids)
        if args.dry_run:
            return await _would(args, client, ids, change.states, "retried")
        before = {job.id: job.state for job in await client.find(JobFilter(ids=tuple(ids), limit=len(ids)))}
        done = await client.retry(ids)
    answers = [
        "runs again" if ok else f"can't be retried: it is {before.get(job)}" for job, ok in zip(ids, done, strict=True)
    ]
    return report(args, ids, done, answers, ["retried" if ok else "refused" for ok in done])


async def priority_(args: argparse.Namespace) -> int:
    to = _priority(args)
    check_choice(args)
    async with existing(args) as client:
        change = job_queries.reprioritising(client, to)
        if args.all:
            query = await filter_of(args, client, ALL)
            return await change_all(args, client, query, change, Wording("job", "reprioritised"))
        ids = await resolve(client, args.ids)
        if args.dry_run:
            return await _would(args, client, ids, change.states, "reprioritised")
        done = await client.reprioritise(ids, to)
        now = {job.id: job.state for job in await client.find(JobFilter(ids=tuple(ids), limit=len(ids)))}
    answers = [
        f"has priority {to}" if ok else f"does not wait any more: it is {now.get(job, 'gone')}"
        for job, ok in zip(ids, done, strict=True)
    ]
    return report(args, ids, done, answers, ["changed" if ok else "refused" for ok in done])


def _priority(args: argparse.Namespace) -> int:
    """The last word, which argparse takes for one more id unless an option stands before it."""
    parser: Parser = args.parser
    if args.priority is None and len(args.ids) > (0 if args.all else 1):
        args.priority = args.ids.pop()
    if args.priority is None:
        parser.error("the following arguments are required: PRIORITY")
    try:
        return priority(whole(args.priority))
    except argparse.ArgumentTypeError as error:
        parser.error(f"PRIORITY: {error}")


async def explain_(args: argparse.Namespace) -> int:
    async with existing(args) as client:
        found = await client.explain(await client.resolve(args.id))
    if args.json:
        document(found)
    else:
        for reason in found.reasons:
            print(safe(reason.text))
    return 0


def report(
    args: argparse.Namespace, ids: Sequence[str], done: Sequence[bool], texts: Sequence[str], words: Sequence[str]
) -> int:
    """One line per job. Failures go to stderr and make the exit code 1."""
    if args.json:
        document(done_views(ids, done, words))
        return 0 if all(done) else 1
    for job, ok, text in zip(ids, done, texts, strict=True):
        if ok:
            print(f"{job} {text}")
        else:
            complain(f"job {job} {text}")
    return 0 if all(done) else 1


async def wait_(args: argparse.Namespace) -> int:
    limit = None if args.timeout is None else duration(args.timeout, "--timeout") / SECOND
    async with existing(args) as client:
        ids = await resolve(client, args.ids)
        line = Bar(not args.json)
        with line.of(client, ids[0]) if len(ids) == 1 else nullcontext():
            ends = await asyncio.gather(*(_end(args, client, job, limit) for job in ids))
        if args.json:
            document([JobView.of(await client.get(job)) for job in ids])
    if None in ends:
        return TIMED_OUT
    return 0 if all(end is State.SUCCEEDED for end in ends) else 1


async def _end(args: argparse.Namespace, client: JobsClient, job_id: str, limit: float | None) -> State | None:
    """The state in which a job ended; None if it has not ended in time."""
    try:
        with hinting(client, job_id):
            info = await client.wait(job_id, limit)
    except WaitTimeout as error:
        complain(str(error))
        return None
    if not args.json:
        print(f"{job_id} {info.state}", flush=True)
    return info.state
