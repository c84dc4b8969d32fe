"""Files that are no store of ours, that can't be written, or that have no room left."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import apsw
import pytest

from rota.clock import Chance, ManualClock
from rota.errors import SchemaTooNew, StoreError, StoreFull, StoreReadOnly
from rota.model import outcome
from rota.model.principal import LOCAL, SYSTEM
from rota.store.sqlite import SqliteStore
from rota.store.sqlite.database import BEFORE_VERSION_1
from rota.store.values import JobFilter
from tests.contracts.world import World, settled
from tests.store.sqlite.backends import SqliteFile
from tests.store.sqlite.children import child


def store_at(path: Path) -> SqliteStore:
    return SqliteStore(str(path), ManualClock(), Chance(1))


async def refused(path: Path, error: type[StoreError]) -> str:
    """Neither opens nor migrates; returns what the person is told."""
    said = set()
    store = store_at(path)
    for verb in (store.open, store.migrate, store.open):
        with pytest.raises(error) as caught:
            await verb()
        said.add(str(caught.value))
    await store.close()
    assert len(said) == 1
    return said.pop()


@pytest.fixture(scope="module")
def mounts() -> tuple[str, ...]:
    """The beginning of a command that may mount, seen by nobody else."""
    for command in (("unshare", "--mount"), ("unshare", "--user", "--map-root-user", "--mount")):
        if shutil.which("unshare"):
            test = [*command, "mount", "-t", "tmpfs", "-o", "size=1m", "none", tempfile.gettempdir()]
            if subprocess.run(test, capture_output=True, check=False).returncode == 0:
                return command
    raise AssertionError(
        "the tests need to mount a small file system of their own; allow user namespaces, or run as root"
    )


# -- not ours ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"hello, I am a text\n" * 100, b"\0" * 4096, b"SQLite format 2\0" + b"\1" * 4096])
async def test_what_is_no_database_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    assert str(path) in await refused(path, StoreError)
    assert path.read_bytes() == content
    assert [entry.name for entry in tmp_path.iterdir()] == ["notes.txt"]


async def test_a_store_from_before_version_1_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "rota.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE jobs (id TEXT)")
    connection.execute(f"PRAGMA application_id = {BEFORE_VERSION_1}")
    connection.execute("PRAGMA user_version = 9")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    told = await refused(path, StoreError)
    assert "was made by a rota from before schema version 1" in told
    assert "move the file away" in told
    assert path.read_bytes() == before


async def test_a_database_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "bookmarks.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE bookmarks (url TEXT)")
    connection.execute("INSERT INTO bookmarks VALUES ('https://example.org')")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    assert "another program" in await refused(path, StoreError)
    assert path.read_bytes() == before, "not even its journal mode"
    assert [entry.name for entry in tmp_path.iterdir()] == ["bookmarks.db"]


async def test_a_newer_schema_is_left_alone_to_the_byte(backend: SqliteFile, store: SqliteStore, path: str) -> None:
    await store.close()
    backend.stamp(99)
    before = Path(path).read_bytes()
    await refused(Path(path), SchemaTooNew)
    assert Path(path).read_bytes() == before


async def test_an_empty_file_is_a_new_store(tmp_path: Path) -> None:
    path = tmp_path / "rota.db"
    path.touch()
    store = store_at(path)
    before, after = await store.migrate()
    assert (before, after >= 1) == (0, True)
    await store.open()
    await store.close()


@pytest.mark.parametrize("moment", ["application_id", "sqlite_schema", "user_version"])
async def test_a_migrator_may_be_overtaken_at_any_moment(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """It looks at the owner, the contents and the version of the file; another process may migrate in between."""
    slow, fast = (SqliteStore(str(tmp_path / "rota.db"), clock, Chance(seed), inline=True) for seed in (1, 2))
    overtaken = False

    def watch(connection: apsw.Connection) -> None:
        connection.exec_trace = trace

    def trace(_: object, text: str, __: object) -> bool:
        nonlocal overtaken
        if moment in text and not overtaken:
            overtaken = True
            _inline(fast)
        return True

    monkeypatch.setattr(apsw, "connection_hooks", [watch])
    before, after = await slow.migrate()
    assert overtaken
    assert before in (0, after)
    await slow.open()
    for store in (slow, fast):
        await store.close()


def _inline(store: SqliteStore) -> None:
    """An inline store never waits, so its coroutines run to their end in one go."""
    coroutine = store.migrate()
    with pytest.raises(StopIteration):
        coroutine.send(None)


async def test_a_new_file_that_another_process_is_just_making_is_waited_for(tmp_path: Path) -> None:
    """SQLite itself does not wait when the journal mode of a file is changed under its hands."""
    path = tmp_path / "rota.db"
    maker = apsw.Connection(str(path))
    maker.execute("BEGIN IMMEDIATE")
    store = store_at(path)
    migration = asyncio.create_task(store.migrate())
    await asyncio.wait({migration}, timeout=0.2)
    maker.execute("COMMIT")
    before, after = await migration
    assert (before, after >= 1) == (0, True)
    maker.close()
    await store.close()


# -- can't be written -------------------------------------------------------------------------------------------------


async def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    said = await refused(tmp_path / "nowhere" / "rota.db", StoreReadOnly)
    assert "nowhere" in said
    assert "does not exist" in said
    assert list(tmp_path.iterdir()) == []


async def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    await refused(tmp_path / "file" / "rota.db", StoreReadOnly)


async def test_a_file_that_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "rota.db").mkdir()
    await refused(tmp_path / "rota.db", StoreReadOnly)


async def test_a_folder_for_locks_that_can_not_be_made(tmp_path: Path) -> None:
    path = tmp_path / "rota.db"
    Path(f"{path}-rota").write_text("somebody else's file")
    assert "rota.db-rota" in await refused(path, StoreReadOnly)
    assert Path(f"{path}-rota").read_text() == "somebody else's file"


async def test_a_new_file_is_its_owners_alone(tmp_path: Path) -> None:
    """Arguments and results are nobody else's business."""
    path = tmp_path / "rota.db"
    store = store_at(path)
    await store.migrate()
    assert {entry.name: oct(entry.stat().st_mode & 0o077) for entry in tmp_path.iterdir() if entry.is_file()} == {
        "rota.db": "0o0",
        "rota.db-wal": "0o0",
        "rota.db-shm": "0o0",
    }
    await store.close()


@pytest.mark.parametrize("existing", [True, False], ids=["existing", "new"])
async def test_a_folder_that_is_read_only(tmp_path: Path, existing: bool, mounts: tuple[str, ...]) -> None:
    """By its mount, which stops even root."""
    folder = tmp_path / "locked"
    folder.mkdir()
    path = folder / "rota.db"
    if existing:
        store = store_at(path)
        await store.migrate()
        await store.close()
    script = f'mount --bind "{folder}" "{folder}" && mount -o remount,bind,ro "{folder}" && exec "$@"'
    async with child("attempt", str(path), before=(*mounts, "sh", "-c", script, "sh")) as stranger:
        said = await stranger.rest()
    assert [error for error, _ in said] == ["StoreReadOnly", "StoreReadOnly"]
    assert all(str(path) in text for _, text in said)


# -- no room left -----------------------------------------------------------------------------------------------------


def limit(store: SqliteStore, spare: int | None) -> None:
    """Lets the file grow by so many pages and no more: SQLite then says that the disk is full."""
    connection = store._write_side().connection
    pages = int(connection.pragma("page_count"))
    connection.pragma("max_page_count", pages + spare if spare is not None else 1 << 30)


@pytest.fixture
def inline(path: str, clock: ManualClock) -> SqliteStore:
    return SqliteStore(path, clock, Chance(2), inline=True)


@pytest.fixture
async def tight(inline: SqliteStore, backend: SqliteFile, clock: ManualClock, chance: Chance) -> World:
    await inline.migrate()
    return World(inline, backend, clock, chance)


async def test_a_full_disk_is_told_and_nothing_is_half_written(tight: World, inline: SqliteStore) -> None:
    padding = '{"text": "%s"}' % ("x" * 2_000)
    accepted: list[str] = []
    limit(inline, 200)
    told = ""
    while not told and len(accepted) < 10_000:
        order = [tight.job(args=padding, key=f"{len(accepted)}-{n}") for n in range(5)]
        try:
            accepted += await tight.submit(*order)
        except StoreFull as error:
            told = str(error)
    assert "nothing was written" in told
    contents = tight.backend.contents()
    assert len(accepted) >= 5
    assert len(contents["jobs"]) == len(contents["payloads"]) == len(contents["keys"]) == len(accepted)
    assert {info.id for info in await inline.find(SYSTEM, JobFilter(limit=5_000))} == set(accepted)
    with pytest.raises(StoreFull):
        await tight.submit(*order)
    limit(inline, None)
    assert await tight.submit(*order) == [job.id for job in order], "when there is room again, work goes on"
    await inline.close()


async def test_no_verb_leaves_half_of_its_work_on_a_full_disk(tight: World, inline: SqliteStore) -> None:
    """Each verb, with no page to spare and then with one more at a time, until it succeeds."""
    actor = await tight.node()
    big = '"' + "r" * 3_000 + '"'
    await tight.several(400, args=f'{{"a": {big}}}')
    claimed = await actor.claim(100)
    verbs: list[Callable[[], Awaitable[object]]] = [
        lambda: inline.append_output(SYSTEM, [actor.chunk(c.ref, 0, b"o" * 5_000) for c in claimed[:20]]),
        lambda: inline.finish(SYSTEM, [settled(c, outcome.Succeeded(big)) for c in claimed]),
        lambda: actor.claim(100),
        lambda: inline.cancel(LOCAL, [c.job_id for c in claimed], "r" * 3_000),
        lambda: tight.several(50, args=f'{{"a": {big}}}'),
        lambda: tight.node(),
        lambda: actor.leave(),
    ]
    failed = 0
    for verb in verbs:
        for spare in range(0, 400, 8):
            limit(inline, spare)
            before = tight.backend.contents()
            try:
                await verb()
            except StoreFull:
                failed += 1
                assert tight.backend.contents() == before
            else:
                break
    assert failed >= 5
    limit(inline, None)
    assert all(finding.ok for finding in await inline.examine())
    await inline.close()


async def test_a_disk_that_is_really_full(tmp_path: Path, mounts: tuple[str, ...]) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    script = f'mount -t tmpfs -o size=2m none "{folder}" && exec "$@"'
    async with child("fill", str(folder / "rota.db"), before=(*mounts, "sh", "-c", script, "sh")) as filler:
        said = await filler.rest()
    accepted = [ids for word, ids in said if word == "accepted"]
    assert accepted
    assert said[-2][0] == "StoreFull"
    assert said[-1] == ["count", 3 * len(accepted)], "whole orders, or nothing of them"


# -- damaged ----------------------------------------------------------------------------------------------------------


async def test_a_damaged_file_is_told(world: World, store: SqliteStore, path: str) -> None:
    await world.several(500)
    await store.close()
    connection = apsw.Connection(path)
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    connection.close()
    size = Path(path).stat().st_size
    with Path(path).open("r+b") as file:
        for place in range(4096, size, 4096):
            file.seek(place)
            file.write(b"\xde\xad" * 1024)
    damaged = store_at(Path(path))
    with pytest.raises(StoreError):
        await damaged.find(SYSTEM, JobFilter(limit=1_000))
    try:
        findings = await damaged.examine()
    except StoreError:
        pass
    else:
        assert not all(finding.ok for finding in findings)
    await damaged.close()
