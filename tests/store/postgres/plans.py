"""What the server did with a statement, told by itself: plans with the rows and pages that they touched.

The extension auto_explain reports every statement that runs on a connection, so it is rota's own calls that are looked
at, as they are: prepared by the driver, with the settings and the values of the store.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from rota.store.postgres import nodes
from rota.store.postgres.database import Database, Unit
from rota.store.postgres.pool import ConnectionPool
from rota.store.values import Retention

# Below this they are the rows of a table that stays small, or a partition that is empty.
FEW_PAGES = 30
GROWING = re.compile(
    r"^(jobs|history|attempts|output|keys|outbox|progress|checkpoints|repeats|segments|purged|locks)(?:_(?:\d{8}|other|lasting|dated))?$"
)
LOAD = "LOAD 'auto_explain'"  # before the transaction: it takes a snapshot
WATCH = """
SET auto_explain.log_min_duration = 0; SET auto_explain.log_analyze = on; SET auto_explain.log_buffers = on;
SET auto_explain.log_timing = off; SET auto_explain.log_format = json; SET auto_explain.log_nested_statements = on;
SET client_min_messages = log;
"""


class Scan(NamedTuple):
    kind: str
    table: str  # of a partition: the table it is part of
    relation: str
    by: str | None  # the index
    visited: int  # rows that were looked at, also in vain


class Seen(NamedTuple):
    """One statement."""

    name: str  # of the query, or its text
    pages: int  # of tables and indexes, each time that they were looked at
    scans: list[Scan]
    plan: dict[str, Any]

    @property
    def visited(self) -> int:
        return sum(scan.visited for scan in self.scans)

    @property
    def indexes(self) -> set[str]:
        return {scan.by for scan in self.scans if scan.by}

    def indexes_of_full(self, sizes: dict[str, int]) -> set[str]:
        """Those of tables that are not empty: for the others the server may take any."""
        return {scan.by for scan in self.scans if scan.by and sizes.get(scan.relation) != 0} or self.indexes

    def whole(self, sizes: dict[str, int]) -> list[str]:
        """Tables of some size that were read from one end to the other."""
        return [s.relation for s in self.scans if s.kind == "Seq Scan" and sizes.get(s.relation, 0) > FEW_PAGES]

    def __str__(self) -> str:
        return "\n".join((f"{self.name}: {self.visited} rows, {self.pages} pages", *lines(self.plan)))


class Undo(Exception):
    pass


@asynccontextmanager
async def listening(unit: Unit) -> AsyncIterator[list[Seen]]:
    """All statements of this connection, until the end of the block."""
    names = {text: name for name, (text, _) in unit.database.queries.items()}
    seen: list[Seen] = []

    def hear(_: object, message: Any) -> None:
        _, found, text = message.message.partition("plan:\n")
        if found:
            one = read(json.loads(text), names)
            if one.scans or one.name in unit.database.queries:  # not what the driver asks for itself
                seen.append(one)

    connection = unit.connection
    connection.add_log_listener(hear)
    if not connection.is_in_transaction():
        await connection.execute(LOAD)
    await connection.execute(WATCH)
    try:
        yield seen
        await connection.execute("SELECT 1")  # what comes before has been told when this is answered,
        await asyncio.sleep(0)  # by the loop
    finally:
        connection.remove_log_listener(hear)
        if not connection.is_in_transaction():  # else the roll-back does it
            await connection.execute("RESET client_min_messages; SET auto_explain.log_min_duration = -1")


async def observe(
    database: Database, pool: ConnectionPool, deed: Callable[[Unit], Awaitable[object]], settings: dict[str, str]
) -> list[Seen]:
    """Carries it out, and takes it back."""
    heard: list[Seen] = []
    try:
        async with database.unit(pool) as unit:
            await unit.connection.execute(LOAD)
            await unit.begin()
            for name, value in settings.items():
                await unit.connection.execute(f"SET LOCAL {name} = {value}")
            async with listening(unit) as heard:
                await deed(unit)
            raise Undo
    except Undo:
        return heard


def read(report: dict[str, Any], names: dict[str, str]) -> Seen:
    text, plan = report["Query Text"], report["Plan"]
    return Seen(names.get(text, text), pages(plan), list(scans(plan)), plan)


def scans(node: dict[str, Any]) -> Iterator[Scan]:
    relation = node.get("Relation Name") or ""
    table = GROWING.match(relation)
    if table and node["Node Type"].endswith(("Scan", "Scan Backward")):
        index = node.get("Index Name")
        met = node["Actual Rows"] + node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
        yield Scan(node["Node Type"], table[1], relation, index and plain(index), round(met * node["Actual Loops"]))
    elif node["Node Type"] == "Bitmap Index Scan" and not node["Index Name"].startswith("pg_"):
        yield Scan("Bitmap Index Scan", "", "", plain(node["Index Name"]), 0)
    for child in node.get("Plans", ()):
        yield from scans(child)


def lines(node: dict[str, Any], depth: int = 1) -> Iterator[str]:
    """A plan in short."""
    what = " ".join(filter(None, (node.get("Relation Name"), node.get("Index Name"), node.get("Index Cond"))))
    yield f"{'  ' * depth}{node['Node Type']} {what} {node['Actual Rows']}x{node['Actual Loops']} {pages(node)} pages"
    for child in node.get("Plans", ()):
        yield from lines(child, depth + 1)


def pages(node: dict[str, Any]) -> int:
    return int(node.get("Shared Hit Blocks", 0) + node.get("Shared Read Blocks", 0))


def plain(index: str) -> str:
    """Without the day of its partition."""
    return re.sub(r"_(?:\d{8}|other|lasting|dated)(?=_)", "", index)


async def pruned(unit: Unit, retention: Retention, limit: int) -> int:
    """All that a prune deletes, in one unit."""
    return sum([await pruning(unit, retention, limit) for pruning in nodes.PRUNINGS])
