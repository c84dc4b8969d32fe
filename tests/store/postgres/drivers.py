"""Transactions of callers, by each driver that rota takes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from typing import Any

import asyncpg
import django
import psycopg
import psycopg2
from django.conf import settings
from django.db import connections, transaction
from psycopg2.extras import RealDictCursor
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from tests.servers.postgres import shared_server


def alchemy(driver: str) -> str:
    return shared_server().url().replace("postgresql:", f"postgresql+{driver}:")


@asynccontextmanager
async def by_asyncpg() -> AsyncIterator[Any]:
    connection = await asyncpg.connect(shared_server().url())
    try:
        async with connection.transaction():
            yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def by_asyncpg_pool() -> AsyncIterator[Any]:
    async with (
        asyncpg.create_pool(shared_server().url(), min_size=1, max_size=1) as pool,
        pool.acquire() as connection,
        connection.transaction(),
    ):
        yield connection


@asynccontextmanager
async def by_psycopg() -> AsyncIterator[Any]:
    async with await psycopg.AsyncConnection.connect(shared_server().url()) as connection:
        yield connection


@asynccontextmanager
async def by_psycopg_dicts() -> AsyncIterator[Any]:
    rows = psycopg.rows.dict_row
    async with await psycopg.AsyncConnection.connect(shared_server().url(), row_factory=rows) as connection:
        yield connection


@asynccontextmanager
async def by_psycopg_autocommit() -> AsyncIterator[Any]:
    async with (
        await psycopg.AsyncConnection.connect(shared_server().url(), autocommit=True) as connection,
        connection.transaction(),
    ):
        yield connection


@asynccontextmanager
async def by_alchemy_session() -> AsyncIterator[Any]:
    engine = create_async_engine(alchemy("asyncpg"))
    try:
        async with AsyncSession(engine) as session, session.begin():
            yield session
    finally:
        await engine.dispose()


@asynccontextmanager
async def by_alchemy_connection() -> AsyncIterator[Any]:
    engine = create_async_engine(alchemy("psycopg"))
    try:
        async with engine.begin() as connection:
            yield connection
    finally:
        await engine.dispose()


ASYNC: dict[str, Callable[[], AbstractAsyncContextManager[Any]]] = {
    "asyncpg": by_asyncpg,
    "asyncpg pool": by_asyncpg_pool,
    "psycopg": by_psycopg,
    "psycopg with rows as dicts": by_psycopg_dicts,
    "psycopg autocommit": by_psycopg_autocommit,
    "sqlalchemy session on asyncpg": by_alchemy_session,
    "sqlalchemy connection on psycopg": by_alchemy_connection,
}


@contextmanager
def by_psycopg_sync() -> Any:
    with psycopg.connect(shared_server().url()) as connection:
        yield connection


@contextmanager
def by_alchemy_sync() -> Any:
    engine = create_engine(alchemy("psycopg"))
    try:
        with Session(engine) as session, session.begin():
            yield session
    finally:
        engine.dispose()


@contextmanager
def by_alchemy_connection_sync() -> Any:
    engine = create_engine(alchemy("psycopg"))
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


@contextmanager
def by_psycopg2() -> Any:
    connection = psycopg2.connect(shared_server().url(), cursor_factory=RealDictCursor)
    try:
        with connection:
            yield connection
    finally:
        connection.close()


@contextmanager
def by_alchemy_psycopg2() -> Any:
    engine = create_engine(alchemy("psycopg2"))
    sessions = scoped_session(sessionmaker(engine))
    try:
        with sessions.begin():
            yield sessions
    finally:
        sessions.remove()
        engine.dispose()


def django_connection() -> Any:
    """Django's own object for a connection of this thread."""
    if not settings.configured:
        settings.configure(DATABASES={}, USE_TZ=True)
        django.setup()
    connections.settings["rota"] = connections.configure_settings(
        {
            "default": {},
            "rota": {
                "ENGINE": "django.db.backends.postgresql", "HOST": "127.0.0.1", "PORT": shared_server().port,
                "USER": "postgres", "NAME": "postgres",
            },
        }
    )["rota"]  # fmt: skip
    return connections["rota"]


@contextmanager
def by_django() -> Any:
    connection = django_connection()
    try:
        with transaction.atomic(using="rota"):
            yield connection
    finally:
        connection.close()


SYNC: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "psycopg": by_psycopg_sync,
    "sqlalchemy session": by_alchemy_sync,
    "sqlalchemy connection": by_alchemy_connection_sync,
    "psycopg2 with rows as dicts": by_psycopg2,
    "sqlalchemy scoped session on psycopg2": by_alchemy_psycopg2,
    "django": by_django,
}
