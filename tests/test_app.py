"""The app: its settings, its tasks, what it orders, and when it opens and closes its store."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import rota
from rota.callers import CallerClients
from rota.clock import Chance, ManualClock
from rota.connections import AppConnections
from rota.errors import InvalidInput, NotFound, SchemaMissing, StoreError
from rota.model.job import Kind
from rota.model.lifecycle import State
from rota.store.sqlite import SqliteStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rota.db"


@pytest.fixture
async def app(path: Path, clock: ManualClock, chance: Chance) -> AsyncIterator[rota.App]:
    app = rota.App(f"sqlite:///{path}", user="me", max_args=1_000)
    app._core.clock, app._core.chance = clock, chance
    yield app
    await app.close()


# -- settings ---------------------------------------------------------------------------------------------------------
def test_settings_are_checked_when_the_app_is_made() -> None:
    with pytest.raises(InvalidInput):
        rota.App("mysql://somewhere")
    with pytest.raises(InvalidInput):
        rota.App(grace="soon")


async def test_settings_may_be_changed_until_the_store_is_open(app: rota.App) -> None:
    app.configure(user="you", max_args=None)
    assert (app._core.who.user, app.settings.max_args) == ("you", 1_000), "None is: not given"
    await app._core.client()
    with pytest.raises(InvalidInput, match=r"configure: 'user' is not valid; .* before the store was opened"):
        app.configure(user="me", max_args=7)
    assert app.settings.max_args == 1_000
    app.configure(queues="mail:2", user="you")  # not of the store, and no change
    assert app.settings.queues == {"mail": 2}


async def test_another_set_of_parts_is_lent_for_a_while(app: rota.App, clock: ManualClock, chance: Chance) -> None:
    before = (app.settings, app._core.clock, app._core.bus)
    other = ManualClock()
    opened = AppConnections()
    with app._core.borrowed(
        opened, CallerClients(opened, inline=True), other, chance, store="sqlite:///:memory:", user="tester"
    ):
        assert (app._core.clock, app._core.who.user) == (other, "tester")
    assert (app.settings, app._core.clock, app._core.bus) == before


# -- tasks ------------------------------------------------------------------------------------------------------------
def test_a_task_has_the_name_of_its_function_or_the_one_it_is_given(app: rota.App) -> None:
    @app.task
    def one() -> None: ...

    @app.task(name="mail.send", queue="mail")
    def two() -> None: ...

    assert [info.name for info in app._core.catalogue.infos()] == ["one", "mail.send"]
    with pytest.raises(InvalidInput, match="no other task"):
        app.task(name="one")(lambda: None)


@pytest.mark.parametrize("wrong", [7, "text", dict, None])
def test_only_functions_are_tasks(app: rota.App, wrong: Any) -> None:
    with pytest.raises(InvalidInput):
        app.task(name="x")(wrong)


@pytest.mark.parametrize(
    "options",
    [{"queue": "a b"}, {"priority": 77}, {"timeout": "0s"}, {"isolation": "cellar"}, {"at": "now"}, {"unknown": 1},
     {"name": ""}],
)  # fmt: skip
def test_options_of_a_task_are_checked_where_it_is_declared(app: rota.App, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        app.task(**options)(lambda: None)
    assert len(app._core.catalogue) == 0


def test_a_task_is_not_made_one_twice(app: rota.App) -> None:
    task = app.task(name="t")(lambda: None)
    with pytest.raises(InvalidInput, match="stand above"):
        app.task(task)
    with pytest.raises(InvalidInput, match="a period"):
        app.every(lambda: None)  # type: ignore[arg-type]


# -- orders -----------------------------------------------------------------------------------------------------------
async def test_what_is_refused_makes_no_store(app: rota.App, path: Path) -> None:
    for argv in ([], "ls -l", [""], ["a\0b"]):
        with pytest.raises(InvalidInput):
            await app.submit_command(argv)
    with pytest.raises(InvalidInput):
        await app.submit_command(["ls"], priority=77)
    with pytest.raises(InvalidInput):
        await app.submit_http("GET", "ftp://example.org/")
    assert not path.exists()


async def test_commands_and_calls_are_ordered_with_their_options(app: rota.App) -> None:
    command = await app.submit_command(["ls", "-l"], name="listing", queue="slow", delay="1h")
    call = await app.submit_http("POST", "https://example.org/x", json={"a": 1}, priority=2)
    first, second = await command.info(), await call.info()
    assert (first.kind, first.task, first.queue, first.state) == (Kind.COMMAND, "listing", "slow", State.SCHEDULED)
    assert (second.kind, second.task, second.priority) == (Kind.HTTP, "example.org", 2)


async def test_a_job_is_found_again_by_a_part_of_its_id(app: rota.App) -> None:
    job = await app.submit_command(["true"])
    assert (await app.job(job.id[-12:])).id == job.id
    with pytest.raises(NotFound):
        await app.job("ffffffffffff")


async def test_its_tasks_are_known_to_others_with_the_first_order(app: rota.App, path: Path) -> None:
    @app.task
    def here() -> None: ...

    await here.submit()
    store = (await app._core.client()).store
    assert [task.name for task in await store.tasks(app._core.who)] == ["here"]

    @app.task
    def later() -> None: ...

    await later.submit()
    assert sorted(task.name for task in await store.tasks(app._core.who)) == ["here", "later"]


async def test_orders_within_a_transaction_need_postgresql(app: rota.App) -> None:
    with pytest.raises(InvalidInput, match="PostgreSQL"):
        await app.submit_command(["true"], within=object())
    with pytest.raises(InvalidInput, match="PostgreSQL"):
        app.submit_command_sync(["true"], within=object())
    with pytest.raises(InvalidInput, match="PostgreSQL"):
        app.submit_http_sync("GET", "https://example.org", within=object())


# -- the store --------------------------------------------------------------------------------------------------------
async def test_a_store_that_nobody_has_used_is_made_and_an_old_one_is_left_alone(
    app: rota.App, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def old(self: SqliteStore) -> None:
        raise SchemaMissing(1, 2)

    await app._core.client()
    assert path.exists()
    await app.close()
    monkeypatch.setattr(SqliteStore, "open", old)
    with pytest.raises(SchemaMissing):
        await app._core.client()


async def test_migrate_says_from_where_to_where(app: rota.App) -> None:
    before, after = await app._core.migrate()
    assert before == 0 < after
    assert await app._core.migrate() == (after, after)


async def test_it_closes_its_store_in_either_face_and_opens_it_again(path: Path) -> None:
    async with rota.App(f"sqlite:///{path}") as app:
        job = await app.submit_command(["true"])
    async with app:
        assert (await job.info()).state is State.READY

    def ordinary_code() -> None:
        with app:
            assert job.info_sync().state is State.READY
            app.wake_sync()

    await asyncio.to_thread(ordinary_code)


def test_postgresql_without_its_driver_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rota.store.postgres", None)
    app = rota.App("postgresql://localhost/x")
    with pytest.raises(StoreError, match=r"pip install 'rota\[postgres\]'"):
        app._core.make_store()
