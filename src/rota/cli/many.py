"""Changes of many jobs: by ids, or `--all` with a query or filters, which shows what it would change and asks first."""

from __future__ import annotations

import argparse
import re
import sys
from typing import NamedTuple

import msgspec

from rota.cli.live import Bar
from rota.cli.query_words import query_text
from rota.cli.session import utf8
from rota.cli.show import answer, safe
from rota.clients import job_queries
from rota.clients.job_queries import Change, Changes
from rota.clients.jobs import JobsClient
from rota.clients.searching import where_of
from rota.clock import SystemClock
from rota.errors import InvalidInput
from rota.model.error_groups import group_id
from rota.model.job import JobInfo
from rota.model.lifecycle import State
from rota.model.times import Instant, duration
from rota.store.values import JobFilter

FILTERS = ("state", "queue", "task", "error", "group", "label", "workflow", "schedule", "older_than")
PREVIEW = 5
_ID = re.compile("[0-9A-Fa-f-]+")
_OPERATOR = re.compile("[:=<>~]")  # in no id


class Wording(NamedTuple):
    noun: str  # of one of them
    done: str


def check_filters(args: argparse.Namespace) -> None:
    """Refuses wrong filters, and what is no query, before a store is looked for."""
    where_of(query_text(args.query or ()), SystemClock().now())
    if getattr(args, "state", None) is not None:
        _states(args.state)
    if getattr(args, "group", None) is not None:
        group_id(args.group, "--group")
    if getattr(args, "older_than", None) is not None:
        duration(args.older_than, "--older-than")


async def filter_of(
    args: argparse.Namespace, client: JobsClient, states: tuple[State, ...] | None = None, at: Instant | None = None
) -> JobFilter:
    """The filter that the query and the flags describe. `states`: if there is no `--state`; `at`: now, unless a list
    goes on that began then."""
    now = client.store.now() if at is None else at
    given = {name: getattr(args, name, None) for name in FILTERS}
    texts = {name: utf8(text, f"--{name}") for name, text in given.items() if text is not None}
    query = JobFilter(
        states=_states(texts["state"]) if "state" in texts else states,
        workflow=await client.workflow(texts["workflow"]) if "workflow" in texts else None,
        where=where_of(query_text(args.query or ()), now),
        limit=getattr(args, "limit", None) or JobFilter().limit,
    )
    if "older_than" in texts:
        query = msgspec.structs.replace(query, ended_before=now - duration(texts["older_than"], "--older-than"))
    plain = {name: texts[name] for name in ("queue", "task", "error", "group", "label", "schedule") if name in texts}
    return msgspec.structs.replace(query, **plain)


def _states(given: str) -> tuple[State, ...]:
    try:
        return tuple(State(part.strip().lower()) for part in given.split(","))
    except ValueError:
        raise InvalidInput("--state", given, f"some of {', '.join(State)}") from None


def check_choice(args: argparse.Namespace) -> None:
    """Ids, or `--all`: then the words are a query."""
    both = args.all and args.ids and all(map(_ID.fullmatch, args.ids))  # more likely a slip than a search for `abc`
    if both or not (args.ids or args.all):
        args.parser.error(f"say which: `{args.parser.prog} ID...`, or --all with filters or a query")
    if args.all:
        args.query, args.ids = args.ids, []
    elif any(map(_OPERATOR.search, args.ids)):
        args.parser.error(f"a query goes with --all: {args.parser.prog} --all {args.ids[0]}")
    elif any(getattr(args, name, None) is not None for name in FILTERS):
        args.parser.error("filters go with --all, not with ids")
    check_filters(args)


async def change_all(
    args: argparse.Namespace, client: JobsClient, query: JobFilter, change: Change, words: Wording
) -> int:
    query = change.filter(query)
    if args.dry_run:
        return await _show_all(args, client, query, words)
    if not await _confirmed(args, client, query, change.name, words):
        print("nothing was changed", file=sys.stderr)
        return 1
    so_far, line = Changes(), Bar(wanted=True)
    async for so_far in job_queries.changes(client, query, change):
        line.show(f"{so_far.changed} so far")
    line.show("")
    part = "" if so_far.changed == so_far.matched else f"{so_far.changed} of "
    wire = {words.done: so_far.changed, "matched": so_far.matched, "dry_run": False}
    return answer(args, wire, f"{part}{counted(so_far.matched, words.noun)} {words.done}")


async def _show_all(args: argparse.Namespace, client: JobsClient, query: JobFilter, words: Wording) -> int:
    count = 0
    async for page in job_queries.pages(client, query):
        count += len(page)
        if not args.json:
            for job in page:
                print(_line(job, words))
    wire = {words.done: 0, "matched": count, "dry_run": True}
    return answer(args, wire, f"{counted(count, words.noun)} would be {words.done}")


def _line(job: JobInfo, words: Wording) -> str:
    return f"{job.id} {safe(job.task)}" + (f" {job.state}" if words.noun == "job" else "")


async def _confirmed(args: argparse.Namespace, client: JobsClient, query: JobFilter, verb: str, words: Wording) -> bool:
    """Shows the number and the first few, and asks."""
    if args.yes:
        return True
    if not sys.stdin.isatty() or not sys.stderr.isatty():
        raise InvalidInput(
            f"{args.parser.prog} --all", "no terminal to ask on", "--yes, if you mean it; --dry-run shows which"
        )
    count = await client.count(query)
    if not count:
        return True
    for job in await client.find(msgspec.structs.replace(query, limit=PREVIEW)):
        print(f"  {_line(job, words)}", file=sys.stderr)
    if count > PREVIEW:
        print(f"  ... and {count - PREVIEW} more", file=sys.stderr)
    print(f"{verb} {counted(count, words.noun)}? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def counted(count: int, noun: str) -> str:
    return f"1 {noun}" if count == 1 else f"{count} {noun}s"
