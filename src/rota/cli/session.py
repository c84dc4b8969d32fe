"""The app of a verb, and a client on its store."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from rota import opening
from rota.app_core import AppCore
from rota.cli import login_file
from rota.clients.jobs import JobsClient
from rota.clients.limits import LimitsClient
from rota.clients.locks import LocksClient
from rota.clients.people import PeopleClient
from rota.clients.schedules import SchedulesClient
from rota.clock import Chance
from rota.errors import InvalidInput, StoreError
from rota.store.base import Store


def make_app(args: argparse.Namespace, **settings: Any) -> AppCore:
    """The app that `--app` names, or one without tasks; options of the command line win over its own settings."""
    place = {"store": args.store} if args.module == "up" else client_place(args)
    given = {name: value for name, value in {**place, **settings}.items() if value is not None}
    if getattr(args, "app", None) is None:
        bare = AppCore(**given)
        bare.home = ""  # made here, by no module of a user
        return bare
    app: AppCore = args.loaded._core  # before the loop ran (`cli/main.py`)
    if given:
        app.configure(**given)
    return app


def client_place(args: argparse.Namespace) -> dict[str, Any]:
    """The store or server of a verb: the option, or what `rota login` has kept if nothing else names one."""
    if getattr(args, "app", None) is not None:  # it names its own
        return {"store": args.store}
    return dict(login_file.chosen(args.store))


def store_exists(app: AppCore) -> bool:
    """A file can be checked; a server is asked when it is opened."""
    if app.settings.server or not app.settings.store.startswith("sqlite:///"):
        return True
    return os.path.exists(_path(app))  # noqa: PTH110 - a folder we may not look into has no store for us


def _path(app: AppCore) -> str:
    return app.settings.store.removeprefix("sqlite:///")


def check_exists(app: AppCore) -> None:
    if not store_exists(app):
        raise StoreError(f"no store at {_path(app)}; start one with `rota up`")


def unopened(args: argparse.Namespace) -> tuple[AppCore, Store]:
    """An existing store. To make it imports all that it needs, such as the driver of a database."""
    app = AppCore(**client_place(args))
    check_exists(app)
    return app, app.make_store()


@asynccontextmanager
async def existing(args: argparse.Namespace) -> AsyncIterator[JobsClient]:
    """A client on an existing store, for verbs that must not create one or change its schema."""
    app, store = unopened(args)
    try:
        await store.open()
        yield JobsClient(store, opening.principal(store, app.settings), app.chance)
    finally:
        await store.close()


class Present(AppCore):
    """On an existing store, for verbs that use handles and must not create one or change its schema."""

    async def client(self) -> JobsClient:
        if self._opened.client is None:
            check_exists(self)
        return await super().client()

    async def _open(self, store: Store) -> None:
        await store.open()


def planning_of(client: JobsClient) -> SchedulesClient:
    return SchedulesClient(client.store, client.who, Chance())


def admissions_of(client: JobsClient) -> LimitsClient:
    return LimitsClient(client.store, client.who, Chance())


def locks_of(client: JobsClient) -> LocksClient:
    return LocksClient(client.store, client.who, Chance())


def people_of(client: JobsClient) -> PeopleClient:
    return PeopleClient(client.store, client.who, Chance())


def utf8(given: str, what: str) -> str:
    """Arguments of a shell may be any bytes; a store keeps text."""
    try:
        given.encode()
    except UnicodeEncodeError:
        raise InvalidInput(what, given, "a text in UTF-8") from None
    return given


def read_input(path: str, what: str, expected: str, most: int) -> bytes:
    """The content of a file, or of standard input (`-`). `most`: bytes to read, since a file may be without end."""
    try:
        if path == "-":
            return sys.stdin.buffer.read(most)
        with Path(path).open("rb") as file:
            return file.read(most)
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", None) or error
        raise InvalidInput(what, path, f"{expected} ({problem})") from None


@asynccontextmanager
async def raw_store(app: AppCore) -> AsyncIterator[Store]:
    """The store with any schema."""
    store = app.make_store()
    try:
        yield store
    finally:
        await store.close()


async def resolve(client: JobsClient, given: Sequence[str]) -> list[str]:
    """All ids, each once, resolved before the first is acted on."""
    return list(dict.fromkeys([await client.resolve(one) for one in given]))
