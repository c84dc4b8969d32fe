"""`rota dead ...`: jobs that failed for good.

`--all` walks from the latest to the oldest and ignores jobs that ended after it began: a replayed job that fails again
is not replayed twice.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import AsyncIterator, Sequence

import msgspec

from rota.cli.job import report, show_job, show_jobs
from rota.cli.live import Bar
from rota.cli.relations import relations
from rota.cli.session import existing, resolve
from rota.cli.show import answer, safe
from rota.clients.jobs import JobsClient
from rota.errors import InvalidInput
from rota.model.job import JobInfo
from rota.model.lifecycle import State
from rota.model.times import Instant, duration
from rota.store.values import JobFilter

PAGE = 200
DEAD = (State.FAILED,)


async def list_(args: argparse.Namespace) -> int:
    async with existing(args) as client:
        found = await client.find(_query(args, None, args.limit))
        show_jobs(args, found, client.store.now())
    return 0


def _query(args: argparse.Namespace, before: Instant | None, limit: int = PAGE) -> JobFilter:
    return JobFilter(states=DEAD, queue=args.queue, task=args.task, error=args.error, ended_before=before, limit=limit)


async def show_(args: argparse.Namespace) -> int:
    async with existing(args) as client:
        info = await client.get(await client.resolve(args.id))
        if info.state not in DEAD:
            raise InvalidInput("dead letter", info.id, f"a job that failed; this one is {info.state}")
        show_job(args, info, await relations(client, info), client.store.now())
    return 0


async def replay_(args: argparse.Namespace) -> int:
    return await _change(args, "replay", "replayed", 0)


async def purge_(args: argparse.Namespace) -> int:
    age = 0 if args.older_than is None else duration(args.older_than, "--older-than")
    return await _change(args, "purge", "purged", age)


async def _change(args: argparse.Namespace, verb: str, done: str, age: int) -> int:
    if bool(args.ids) == args.all:
        args.parser.error(f"say which: `{args.parser.prog} ID...`, or --all with filters")
    if args.ids and any(getattr(args, name, None) is not None for name in ("queue", "task", "error", "older_than")):
        args.parser.error("filters go with --all, not with ids")
    async with existing(args) as client:
        if args.all:
            return await _change_all(args, client, verb, done, client.store.now() - age)
        return await _change_named(args, client, verb, done)


async def _act(client: JobsClient, verb: str, ids: Sequence[str]) -> list[bool]:
    return await (client.replay(ids) if verb == "replay" else client.purge(ids))


async def _change_named(args: argparse.Namespace, client: JobsClient, verb: str, done: str) -> int:
    ids = await resolve(client, args.ids)
    states = {job.id: job.state for job in await client.find(JobFilter(ids=tuple(ids), limit=len(ids)))}
    dead = [job for job in ids if states.get(job) in DEAD]
    answers = [True] * len(dead) if args.dry_run else await _act(client, verb, dead)
    changed = {job for job, ok in zip(dead, answers, strict=True) if ok}
    word = f"would be {done}" if args.dry_run else done
    texts = [word if job in changed else f"is not dead: it is {states.get(job, 'gone')}" for job in ids]
    words = [word if job in changed else "refused" for job in ids]
    return report(args, ids, [job in changed for job in ids], texts, words)


async def _change_all(args: argparse.Namespace, client: JobsClient, verb: str, done: str, before: Instant) -> int:
    query = _query(args, before)
    if not args.dry_run and not await _confirmed(args, client, verb, query):
        print("nothing was changed", file=sys.stderr)
        return 1
    count, line = 0, Bar(not args.dry_run)
    async for page in pages(client, query):
        ids = [job.id for job in page]
        count += len(ids) if args.dry_run else sum(await _act(client, verb, ids))
        if args.dry_run and not args.json:
            for job in page:
                print(f"{job.id} {safe(job.task)}")
        line.show(f"{count} so far")
    line.show("")
    wire = {done: 0 if args.dry_run else count, "matched": count, "dry_run": args.dry_run}
    return answer(args, wire, f"{_letters(count)} {'would be ' if args.dry_run else ''}{done}")


async def pages(client: JobsClient, query: JobFilter) -> AsyncIterator[list[JobInfo]]:
    """All matching jobs, latest first. The cursor is a time that jobs of one commit share. So each page begins with the
    last instant of the page before, and a page that holds only that instant is followed by a larger one."""
    seen: set[str] = set()
    while True:
        page = await client.find(query)
        fresh = [job for job in page if job.id not in seen]
        if fresh:
            yield fresh
        if len(page) < query.limit:
            return
        seen = {job.id for job in page}
        last = page[-1].finished_at or 0
        stuck = query.ended_before == last + 1
        query = msgspec.structs.replace(query, ended_before=last + 1, limit=query.limit * 2 if stuck else PAGE)


async def _confirmed(args: argparse.Namespace, client: JobsClient, verb: str, query: JobFilter) -> bool:
    if args.yes:
        return True
    if not sys.stdin.isatty() or not sys.stderr.isatty():
        raise InvalidInput(f"{verb} --all", "no terminal to ask on", "--yes, if you mean it; --dry-run shows which")
    found = len(await client.find(query))
    if not found:
        return True
    many = _letters(found) if found < PAGE else f"{PAGE} or more dead letters"
    print(f"{verb} {many}? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _letters(count: int) -> str:
    return "1 dead letter" if count == 1 else f"{count} dead letters"
