"""`rota job list` and `rota dead list`: jobs as a table, as JSON, as CSV, or only counted."""

from __future__ import annotations

import argparse
import asyncio
import csv
import sys
from collections.abc import Sequence
from typing import Protocol

from rota.cli import watching
from rota.cli.columns import Column, columns_of, fields, names_for
from rota.cli.job_rows import headers, rows
from rota.cli.many import check_filters
from rota.cli.searching import Search
from rota.cli.session import existing
from rota.cli.show import Table, complain, document, on_terminal, safe, table
from rota.clients.jobs import JobsClient
from rota.model.job import JobInfo
from rota.model.lifecycle import State
from rota.model.query.fields import sort
from rota.store.values import Facet, Facets, JobCount
from rota.views.jobs import JobView

IN_CSV = (
    "id,task,name,state,queue,user,priority,label,workflow,schedule,node,tries,created,due,started,finished,waited,took,"
    "exit,reason,error_type,error"
)
# Options that would be ignored, by the option that names a form.
_FORMS = {
    "count": ("columns", "sort", "after", "limit"), "facets": ("columns", "sort", "after", "limit"),
    "groups": ("columns", "sort", "after"), "watch": ("after",), "json": ("columns",),
}  # fmt: skip


async def list_(args: argparse.Namespace) -> int:
    return await listed(args)


async def listed(args: argparse.Namespace, states: tuple[State, ...] | None = None) -> int:
    """`states`: those of all jobs of the list, unless it has `--state`."""
    check_list(args)
    columns = columns_of(args.columns) if args.columns is not None else ()
    async with existing(args) as client:
        if args.watch:
            return await watching.watch(args, client, states, columns)
        search = Search(args, client, states)
        await search.begin()
        if args.count:
            _show_count(args, await client.counted(search.query))
        elif args.facets:
            _show_facets(args, await client.facets(search.query))
        else:
            await _show(args, client, search, columns)
    return 0


def check_list(args: argparse.Namespace) -> None:
    """Refuses what goes wrong, or would be ignored, before a store is looked for."""
    check_filters(args)
    if args.sort is not None:
        sort(args.sort)
    if args.json and args.csv:
        args.parser.error("--json and --csv are two forms: give one")
    for form, others in _FORMS.items():
        for other in others:
            if getattr(args, form, False) and getattr(args, other) is not None:
                args.parser.error(f"--{other} does not go with --{form}")


async def _show(args: argparse.Namespace, client: JobsClient, search: Search, columns: Sequence[Column]) -> None:
    form: _Form = _Json() if args.json else _Csv(client, columns) if args.csv else _Rows(client, columns)
    shown = 0
    try:
        async for jobs in search.pages():
            await form.add(jobs)
            shown += len(jobs)
    except asyncio.CancelledError:  # Ctrl-C
        if search.place is not None and not args.json:
            complain(f"stopped; it goes on with --after {search.place}")
        raise
    form.end()
    if search.place is not None and on_terminal() and not args.json and not args.csv:
        print(f"({shown} shown; there may be more: --limit N, or --after {search.place})")


class _Form(Protocol):
    async def add(self, jobs: Sequence[JobInfo]) -> None: ...

    def end(self) -> None: ...


class _Json:
    """One document, so it is printed at the end."""

    def __init__(self) -> None:
        self._found: list[JobView] = []

    async def add(self, jobs: Sequence[JobInfo]) -> None:
        self._found += map(JobView.of, jobs)

    def end(self) -> None:
        document(self._found)


class _Rows:
    def __init__(self, client: JobsClient, columns: Sequence[Column]) -> None:
        self._client, self._columns = client, columns
        self._table = Table(headers(columns))

    async def add(self, jobs: Sequence[JobInfo]) -> None:
        self._table.add(await rows(self._client, self._columns, jobs))

    def end(self) -> None:
        self._table.end()


class _Csv:
    """RFC 4180: CRLF, and quotes where a cell needs them."""

    def __init__(self, client: JobsClient, columns: Sequence[Column]) -> None:
        self._client, self._columns = client, columns or columns_of(IN_CSV)
        self._write = csv.writer(sys.stdout, lineterminator="\r\n").writerow
        self._write([column.name for column in self._columns])

    async def add(self, jobs: Sequence[JobInfo]) -> None:
        names = await names_for(self._client, self._columns, jobs)
        for job in jobs:
            texts = fields(self._columns, job, names)
            self._write(map(safe, texts) if on_terminal() else texts)
        sys.stdout.flush()

    def end(self) -> None:
        sys.stdout.flush()


# -- counts ----------------------------------------------------------------------------------------------------------
def _show_count(args: argparse.Namespace, count: JobCount) -> None:
    if args.json:
        document(count)
    else:
        print(_number(count.number, count.exact))


def _number(number: int, exact: bool) -> str:
    return f"{number:,}" if exact else f"about {number:,}"


def _facet(one: Facet) -> list[str]:
    return [one.value, _number(one.number, one.exact), *([one.title] if one.title is not None else [])]


def _show_facets(args: argparse.Namespace, found: Facets) -> None:
    if args.json:
        document(found)
        return
    total = found.total
    print(f"{_number(total.number, total.exact)} {'job' if total.number == 1 else 'jobs'}")
    for name, values in found.fields.items():
        if values:
            print()
            headers = (name.upper(), "JOBS", *(["ERROR"] if name == "group" else []))
            table(headers, [_facet(one) for one in values])
    if not found.complete:
        print("\n(other values may be there)")
