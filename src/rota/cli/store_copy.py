"""`rota store copy`: all of one store to another, of any engine."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

from rota import opening
from rota.app_core import AppCore
from rota.cli.live import Bar
from rota.cli.session import check_exists, raw_store, store_exists
from rota.cli.show import complain, document, table
from rota.errors import InvalidInput, StoreError, StoreUnavailable
from rota.model.node import NodeState
from rota.model.outcome import CrashRule
from rota.model.principal import SYSTEM
from rota.store.base import Store
from rota.store.copy import Copy, Report, Side, preview
from rota.store.sqlite.dump import SqliteSide
from rota.views.nodes import shown_state

_FILE = "sqlite:///"


async def copy_(args: argparse.Namespace) -> int:
    source, target = AppCore(args.source), AppCore(args.target)
    _check(source, target)
    async with _side(source) as reading:
        before = await _rest(source, take_over=not args.dry_run)
        if args.dry_run:
            return await _preview(args, reading, target)
        await _prepare(target)
        async with _side(target) as writing:
            bar = Bar(not args.json)
            copy = Copy(
                reading,
                writing,
                lambda what, rows: bar.show(f"{what}: {rows:,} rows"),
                lambda: _refuse_since(source, before),
            )
            report = await copy.run()
            bar.show("")
    _show(args, report)
    return 0


def _check(source: AppCore, target: AppCore) -> None:
    for app in (source, target):
        if app.settings.store == f"{_FILE}:memory:":
            raise InvalidInput(
                "store", app.settings.store, "a file or a server; a store in memory ends with its process"
            )
    if _name(source) == _name(target):
        raise InvalidInput("TARGET", _name(target), "another store than SOURCE")
    check_exists(source)


async def _rest(app: AppCore, take_over: bool) -> set[str]:
    """Refuses a store with living nodes; returns the incarnations of all nodes that it has had. Jobs that dead nodes
    have left running are taken over, as any node would do."""
    async with raw_store(app) as store:
        await store.open()
        await _refuse_living(app, store)
        rule = CrashRule(limit=app.settings.crash_limit)
        for node in await store.nodes(SYSTEM) if take_over else ():
            await store.take_over(SYSTEM, node.incarnation, None if node.gone else node.beats, rule)
        if take_over:
            await store.rescue(SYSTEM, rule)
        return {node.incarnation for node in await store.nodes(SYSTEM, True)}


async def _refuse_since(app: AppCore, before: set[str]) -> None:
    """Refuses nodes that have come since the copy began, also those that have gone again."""
    async with raw_store(app) as store:
        await store.open()
        since = sorted(node.id for node in await store.nodes(SYSTEM, True) if node.incarnation not in before)
    if since:
        what = f"{_name(app)} was used by nodes while it was copied ({', '.join(since[:5])})"
        raise StoreUnavailable(f"{what}; stop them, and run the copy again")


async def _refuse_living(app: AppCore, store: Store) -> None:
    living = (NodeState.LIVE, NodeState.STOPPING)
    nodes = [node.id for node in await store.nodes(SYSTEM) if shown_state(node, store.now()) in living]
    if nodes:
        what = f"nodes use {_name(app)}: {', '.join(sorted(nodes)[:5])}"
        raise StoreError(f"{what}; stop them first (a killed node counts as living until its lease is over)")


async def _prepare(app: AppCore) -> None:
    async with raw_store(app) as store:
        await store.migrate(complain)
        await _refuse_living(app, store)


@asynccontextmanager
async def _side(app: AppCore) -> AsyncIterator[Side]:
    side: Side
    if app.settings.store.startswith(_FILE):
        side = SqliteSide(app.settings.store.removeprefix(_FILE), _name(app))
    else:
        side = opening.postgres().PostgresSide(app.settings.store, _name(app))
    try:
        yield side
    finally:
        await side.close()


def _name(app: AppCore) -> str:
    """The same for the same store, and without a password: an unfinished copy is known by it."""
    if app.settings.store.startswith(_FILE):
        return str(Path(app.settings.store.removeprefix(_FILE)).resolve())
    place = opening.postgres().address(app.settings.store)
    return f"{place.place}, schema {place.schema}"


async def _preview(args: argparse.Namespace, reading: Side, target: AppCore) -> int:
    async with _side(target) if store_exists(target) and await _is_migrated(target) else nullcontext() as there:
        report = await preview(reading, _name(target))
        if there is not None:
            await there.check_target(reading.name)
    _show(args, report, dry_run=True)
    return 0


async def _is_migrated(app: AppCore) -> bool:
    """An unfinished copy counts: what is said about it comes later."""
    async with raw_store(app) as store:
        findings = {finding.name: finding.ok for finding in await store.examine()}
    return findings.get("schema", False)


def _show(args: argparse.Namespace, report: Report, dry_run: bool = False) -> None:
    if args.json:
        tables: dict[str, Any] = {name: {"rows": one.rows} for name, one in report.tables.items()}
        if not dry_run:
            for name, one in report.tables.items():
                tables[name]["digest"] = f"{one.digest:032x}"
        document(
            {
                "source": report.source, "target": report.target, "tables": tables, "dry_run": dry_run,
                "resumed": report.resumed, "changed_texts": report.changed_texts, "verified": not dry_run,
            }
        )  # fmt: skip
        return
    full = [(name, f"{one.rows:,}", f"{one.digest:032x}") for name, one in report.tables.items() if one.rows]
    rows = [row[:2] if dry_run else row for row in full]
    table(("TABLE", "ROWS") if dry_run else ("TABLE", "ROWS", "DIGEST"), rows)
    if report.changed_texts:
        complain(f"{report.changed_texts:,} rows had texts with NUL characters, which PostgreSQL can't keep: replaced")
    total = sum(one.rows for one in report.tables.values())
    done = "to copy" if dry_run else "copied" + (" (an earlier copy was finished)" if report.resumed else "")
    same = "" if dry_run else "; both sides have the same rows"
    print(f"{total:,} rows {done}, from {report.source} to {report.target}{same}")
