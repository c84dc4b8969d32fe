"""`rota.App` on a server: orders, reads, schedules and waits as on a store, sync and async."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import rota
from rota.clients.key_files import keep, key_file
from rota.clock import Chance, SystemClock
from rota.errors import InvalidInput, NotAllowed, StoreDenied, StoreError
from rota.model.access import Role
from rota.model.principal import Principal
from rota.store.sqlite import SqliteStore
from tests.docs.pages import blocks
from tests.remote.serving import Server, key_of, server_on


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server_on(tmp_path_factory.mktemp("server") / "rota.db") as server:
        yield server


def app_of(server: Server, role: Role = Role.ADMIN, user: str = "ann") -> rota.App:
    return rota.App(server=server.url, key=key_of(role, user), name="shop")


async def test_orders_belong_to_the_user_of_the_key(server: Server) -> None:
    async with app_of(server) as app:
        job = await app.submit_command(["true"], labels="mine")
        assert (await job.info()).owner == "ann"
        assert [info.id async for info in app.jobs(label="mine")] == [job.id]
        assert (await job.cancel()) == "cancelled"
        assert (await job.wait(timeout="5s")).state == "cancelled"
    store = SqliteStore(str(server.store), SystemClock(), Chance())
    assert await store.get(Principal("ann"), job.id) is not None
    await store.close()


def test_the_sync_face_works_without_a_loop(server: Server) -> None:
    with app_of(server) as app:
        job = app.submit_command_sync(["true"])
        assert job.info_sync().state == "ready"
        assert job.cancel_sync() == "cancelled"


async def test_tasks_are_made_known_and_can_be_ordered_by_their_names(server: Server) -> None:
    async with rota.App(server=server.url, key=key_of(Role.SUBMITTER, "ann"), name="shop") as app:

        @app.task
        def mail(to: str) -> str:
            return to

        job = await mail.submit("ann")
        assert (await job.info()).task == "mail"
        async with rota.App(server=server.url, key=key_of(Role.SUBMITTER), name="other") as other:
            known = await other.stub("mail").submit(to="bob")
            assert (await known.info()).owner == "local"


async def test_schedules_have_the_user_of_the_key_and_saving_again_changes_nothing(server: Server) -> None:
    async with app_of(server) as app:
        first = await app.schedule("nightly", ["true"], cron="0 3 * * *")
        before = await first.info()
        await app.schedule("nightly", ["true"], cron="0 3 * * *")
        assert (await first.info()).revision == before.revision
        assert before.owner == "ann"
        await first.pause("holiday")
        assert (await first.info()).paused
        await first.remove()


async def test_locks_are_held_through_a_server(server: Server) -> None:
    """Two programs; the wait of the second ends with the release by the first, whose lock was renewed meanwhile."""
    async with app_of(server, Role.SUBMITTER) as one, app_of(server) as two, app_of(server, user="local") as other:
        async with one.lock("report", ttl="1s") as first:
            with pytest.raises(rota.LockTaken):
                await two.lock("report", wait="1500ms").__aenter__()
            fence = first.fence
            async with other.lock("report", wait="0s"):  # of another user
                first.check()
        async with two.lock("report", wait="20s") as second:
            assert second.fence > fence
    store = SqliteStore(str(server.store), SystemClock(), Chance())
    assert [lock.held for lock in await store.locks(Principal("ann"))] == [False]
    await store.close()


async def test_a_key_without_the_permission_is_refused(server: Server) -> None:
    async with app_of(server, Role.SUBMITTER) as app:
        with pytest.raises(NotAllowed, match="order commands"):
            await app.submit_command(["true"])
    async with app_of(server, Role.VIEWER) as app:
        assert await app.jobs().count() >= 0
        with pytest.raises(NotAllowed, match="order or change jobs"):
            await rota.Job(app, "0198c0de-0000-7000-8000-000000000001").cancel()


async def test_without_a_key_it_says_what_to_do(server: Server) -> None:
    async with rota.App(server=server.url) as app:
        with pytest.raises(StoreDenied, match="none is set; set ROTA_KEY, or run `rota login`"):
            await app.submit_command(["true"])


async def test_on_loopback_the_first_admin_key_of_the_store_is_enough(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(server.store.parent)
    place = key_file("sqlite:///rota.db")
    assert place is not None
    keep(place, key_of(Role.ADMIN))
    try:
        async with rota.App(server=server.url) as app:
            assert (await (await app.submit_command(["true"])).info()).owner == "local"
    finally:
        place.unlink()


async def test_orders_in_a_transaction_need_the_store(server: Server) -> None:
    async with app_of(server) as app:
        with pytest.raises(InvalidInput, match="a server can't take part in your transaction"):
            await app.submit_command(["true"], within=object())


async def test_migrations_need_the_store(server: Server) -> None:
    async with app_of(server) as app:
        with pytest.raises(StoreError, match="needs the store itself"):
            await app._core.migrate()


def test_store_and_server_together_are_refused(server: Server) -> None:
    with pytest.raises(InvalidInput, match="store and server"):
        rota.App("sqlite:///rota.db", server=server.url)


def test_the_key_is_not_in_its_text(server: Server) -> None:
    with app_of(server) as app:
        assert repr(app).startswith(f"<App 'shop' on {server.url}")
        assert key_of(Role.ADMIN, "ann") not in repr(app) + repr(app.settings)


async def test_the_python_of_the_page_runs(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = blocks("docs/remote.md", "python")
    code = code.replace("https://rota.example.com:8787", server.url).replace("rota_...", key_of(Role.ADMIN))
    space: dict[str, object] = {}
    exec(compile(code, "remote.md", "exec"), space)
    await space["main"]()  # type: ignore[operator]
    assert capsys.readouterr().out == "ready\n"


async def test_queries_say_the_same_as_on_a_store(server: Server) -> None:
    async with app_of(server, user="local") as other:
        await other.submit_command(["true"], labels="searched")
    async with app_of(server) as app:
        jobs = [(await app.submit_command(["true"], labels="searched", priority=n)).id for n in (3, 1, 2)]
        found = app.jobs("label:searched created>-1h", sort="-priority")
        assert [info.priority async for info in found] == [3, 2, 1]
        assert [info.id for info in await app.jobs("searched").list(2)] == jobs[:0:-1]
        assert (await found.count(), await found.counted()) == (3, rota.JobCount(3))
        assert (await found.facets()).fields["user"] == [rota.Facet("ann", 3)]
        assert await app.jobs("priority<3", label="searched").cancel() == rota.Changes(2, 2)
        assert await app.jobs("searched").count() == 3
        with pytest.raises(rota.InvalidQuery, match="character 1"):
            app.jobs("stat:failed")
        with pytest.raises(rota.InvalidQuery, match="takes conditions on fields only"):
            await app.dead("searched").groups()


def test_the_sync_face_searches_too(server: Server) -> None:
    with app_of(server) as app:
        job = app.submit_command_sync(["true"], labels="sync-search")
        query = app.jobs("label:sync-search", sort="took")
        assert [info.id for info in query] == [job.id]
        assert query.counted_sync() == query.facets_sync().total == rota.JobCount(1)
