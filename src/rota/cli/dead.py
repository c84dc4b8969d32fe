"""`rota dead ...`: jobs that failed for good."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

from rota.cli.job import report, show_job
from rota.cli.listing import check_list, listed
from rota.cli.many import Wording, change_all, check_choice, filter_of
from rota.cli.relations import relations
from rota.cli.session import existing, resolve
from rota.cli.show import ago, document, on_terminal, table
from rota.clients import job_queries
from rota.clients.job_queries import Change
from rota.clients.jobs import JobsClient
from rota.errors import InvalidInput
from rota.model.error_groups import ErrorGroup
from rota.model.lifecycle import State
from rota.model.times import Instant
from rota.store.values import JobFilter
from rota.views.error_groups import ErrorGroupView

DEAD = (State.FAILED,)


async def list_(args: argparse.Namespace) -> int:
    if not args.groups:
        return await listed(args, DEAD)
    check_list(args)
    async with existing(args) as client:
        query = await filter_of(args, client, DEAD)
        show_groups(args, await client.error_groups(query), client.store.now(), query.limit)
    return 0


def show_groups(args: argparse.Namespace, groups: Sequence[ErrorGroup], now: Instant, limit: int) -> None:
    if args.json:
        document([ErrorGroupView.of(group) for group in groups])
        return
    table(
        ("GROUP", "TASK", "COUNT", "FIRST", "LAST", "ERROR"),
        (
            (one.id, one.task, str(one.count), ago(one.first_at, now), ago(one.last_at, now), one.title)
            for one in groups
        ),
    )
    if len(groups) == limit and on_terminal():
        print(f"({limit} shown; there may be more: --limit N)")


async def show_(args: argparse.Namespace) -> int:
    async with existing(args) as client:
        info = await client.get(await client.resolve(args.id))
        if info.state not in DEAD:
            raise InvalidInput("dead letter", info.id, f"a job that failed; this one is {info.state}")
        show_job(args, info, await relations(client, info), client.store.now())
    return 0


async def replay_(args: argparse.Namespace) -> int:
    return await _change(args, job_queries.replaying, "replayed")


async def purge_(args: argparse.Namespace) -> int:
    return await _change(args, job_queries.purging, "purged")


async def _change(args: argparse.Namespace, make: Callable[[JobsClient], Change], done: str) -> int:
    args.all = args.all or (args.group is not None and not args.ids)
    check_choice(args)
    async with existing(args) as client:
        if args.all:
            words = Wording("dead letter", done)
            return await change_all(args, client, await filter_of(args, client, DEAD), make(client), words)
        return await _change_named(args, client, make(client), done)


async def _change_named(args: argparse.Namespace, client: JobsClient, change: Change, done: str) -> int:
    ids = await resolve(client, args.ids)
    states = {job.id: job.state for job in await client.find(JobFilter(ids=tuple(ids), limit=len(ids)))}
    dead = [job for job in ids if states.get(job) in DEAD]
    answers = [True] * len(dead) if args.dry_run else await change.act(dead)
    changed = {job for job, ok in zip(dead, answers, strict=True) if ok}
    word = f"would be {done}" if args.dry_run else done
    texts = [word if job in changed else f"is not dead: it is {states.get(job, 'gone')}" for job in ids]
    words = [word if job in changed else "refused" for job in ids]
    return report(args, ids, [job in changed for job in ids], texts, words)
