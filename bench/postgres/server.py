"""The server that is measured on, its databases, and a look into them from outside."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, LiteralString

import psycopg

from bench import processes
from rota.clock import Chance, SystemClock
from rota.store.postgres import PostgresStore
from tests.servers.postgres import Server, Setting, database

# Every commit waits for the disk. The rest is what anybody would set first, for rota, the floor and the peers alike.
SETTINGS: dict[str, Setting] = {"shared_buffers": "512MB", "max_wal_size": "4GB"}


AT_WORK = "SELECT EXISTS (SELECT FROM rota.jobs WHERE state IN ('ready', 'running'))"


@contextmanager
def server(folder: Path, **settings: Setting) -> Iterator[Server]:
    one = Server.create(folder / "postgres", durable=True, **{**SETTINGS, **settings})
    one.start()
    try:
        yield one
    finally:
        one.stop("immediate")


class Store:
    """A database with rota's tables. Looks at them through one connection: a new one each time would be noticed."""

    def __init__(self, url: str, folder: Path, **settings: object) -> None:
        """`settings`: of all programs that use it."""
        self.url, self.folder, self.settings = url, folder, settings
        self.connection = psycopg.connect(url, autocommit=True)

    @property
    def name(self) -> str:
        return self.url.rpartition("/")[2]

    def row(self, query: LiteralString, *values: object) -> tuple[Any, ...]:
        found = self.connection.execute(query, values or None).fetchone()
        assert found is not None
        return found

    def value(self, query: LiteralString, *values: object) -> Any:
        return self.row(query, *values)[0]

    def run(self, statement: LiteralString, *values: object) -> None:
        self.connection.execute(statement, values or None)

    def now(self) -> int:
        """The server's clock, which all stamps are taken from."""
        return int(self.value("SELECT rota.clock(NULL)"))

    def seconds_of(self, module: str, *arguments: object) -> float:
        return processes.seconds_of(module, *arguments, store=self.url, **self.settings)


@contextmanager
def store(server: Server, folder: Path, **settings: object) -> Iterator[Store]:
    """A new database with the project's own schema, for the length of the block."""
    with database(server) as url:
        asyncio.run(_migrate(url))
        one = Store(url, folder, **settings)
        try:
            yield one
        finally:
            one.connection.close()


async def _migrate(url: str) -> None:
    made = PostgresStore(url, SystemClock(), Chance())
    await made.migrate()
    await made.close()


@contextmanager
def nodes(
    store: Store,
    count: int = 1,
    slots: int | None = None,
    others: int = 0,
    app: str = processes.APP,
    **settings: object,
) -> Iterator[list[int]]:
    """So many times `rota up`; gives their pids once they have all joined. `others` are there already."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(_node(store, number, slots, app, settings)) for number in range(others, others + count)
        ]


@contextmanager
def _node(store: Store, number: int, slots: int | None, app: str, settings: Mapping[str, object]) -> Iterator[int]:
    def joined() -> bool:
        return int(store.value("SELECT count(*) FROM rota.nodes WHERE state = 'live'")) > number

    log, given = store.folder / f"{store.name}-{number}.log", {**store.settings, **settings}
    with processes.up(store.url, log, joined, slots, app, **given) as pid:
        yield pid


def work_off(store: Store, patience: float = processes.PATIENCE, at_work: LiteralString = AT_WORK) -> None:
    """Waits until all that is ready has ended, and `at_work` says no."""
    until_gone(store, "SELECT id FROM rota.jobs WHERE state = 'ready' ORDER BY rank DESC, id DESC LIMIT 1", patience)
    until_no(store, at_work)


def until_gone(store: Store, last: LiteralString, patience: float = processes.PATIENCE) -> None:
    """Asks for one row by its key, of the job that comes last: to look for any that is left would mean to read over all
    that are gone."""
    found = store.connection.execute(last).fetchone()
    if found:
        last_lives: LiteralString = "SELECT EXISTS (SELECT FROM rota.jobs WHERE id = %s)"
        processes.until(lambda: not store.value(last_lives, found[0]), patience)


def until_no(store: Store, question: LiteralString) -> None:
    processes.until(lambda: not store.value(question))
