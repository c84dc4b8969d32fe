"""The cache of programs: whole or nothing, fetched once, shared by processes, and never larger than it may be."""

from __future__ import annotations

import asyncio
import random
import select
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, suppress
from pathlib import Path

import pytest

from rota.artifacts.cache import ProgramCache
from rota.artifacts.faults import InvalidProgram, NotPrepared
from rota.clock import Chance, ManualClock
from tests.artifacts.made import child, contents, digest, entry, packed, sealed, tree

ROOT = Path(__file__).parents[2]
MIB = 1 << 20


def program(name: str, size: int = 100) -> bytes:
    """Packed bytes of a program with one file; the same for the same name and size."""
    return sealed(entry(name, random.Random(name).randbytes(size)))


class Source:
    """Counts what is fetched."""

    def __init__(self, data: bytes, fault: Exception | None = None) -> None:
        self.data, self.fault, self.fetched = data, fault, 0
        self.going = asyncio.Event()
        self.going.set()
        self.begun = asyncio.Event()

    async def __call__(self) -> AsyncIterator[bytes]:
        self.fetched += 1
        self.begun.set()
        yield self.data[:50]
        await self.going.wait()
        if self.fault:
            raise self.fault
        yield self.data[50:]


def cache(folder: Path, clock: ManualClock, limit: int = 64 * MIB, check: bool = False) -> ProgramCache:
    return ProgramCache(folder / "cache", limit, clock, Chance(), check=check, patience=60.0)


async def names(cache: ProgramCache, source: Source) -> list[str]:
    async with cache.use(digest(source.data), len(source.data), source) as folder:
        return sorted(path.name for path in folder.iterdir())


def kept(folder: Path) -> list[str]:
    """Names of the files of all programs that are kept."""
    return sorted(path.name for path in (folder / "cache" / "folders").glob("*/*"))


def nothing_half(folder: Path) -> bool:
    marks = {path.name for path in (folder / "cache" / "marks").iterdir()}
    return {path.name.partition(".")[0] for path in (folder / "cache" / "folders").iterdir()} <= marks


async def test_a_program_is_fetched_once_and_kept(tmp_path: Path, clock: ManualClock) -> None:
    source = Source(program("a"))
    one, other = cache(tmp_path, clock), cache(tmp_path, clock)
    assert [await names(user, source) for user in (one, one, other, cache(tmp_path, clock))] == [["a"]] * 4
    assert source.fetched == 1


async def test_users_at_the_same_time_share_one_fetch(tmp_path: Path, clock: ManualClock) -> None:
    source = Source(program("a"))
    users = [cache(tmp_path, clock), cache(tmp_path, clock)]
    source.going.clear()
    tasks = [asyncio.ensure_future(names(users[number % 2], source)) for number in range(10)]
    await source.begun.wait()
    source.going.set()
    assert await asyncio.gather(*tasks) == [["a"]] * 10
    assert source.fetched == 1


async def test_a_user_who_leaves_does_not_stop_the_others(tmp_path: Path, clock: ManualClock) -> None:
    source, user = Source(program("a")), cache(tmp_path, clock)
    source.going.clear()
    first, second = (asyncio.ensure_future(names(user, source)) for _ in range(2))
    await source.begun.wait()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    source.going.set()
    assert (await second, source.fetched) == (["a"], 1)


async def test_when_all_users_leave_nothing_is_left(tmp_path: Path, clock: ManualClock) -> None:
    source, user = Source(program("a")), cache(tmp_path, clock)
    source.going.clear()
    tasks = [asyncio.ensure_future(names(user, source)) for _ in range(2)]
    await source.begun.wait()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert list((tmp_path / "cache" / "folders").iterdir()) == []
    source.going.set()
    assert (await names(user, source), source.fetched) == (["a"], 2)


FAULTS: list[tuple[Exception, type[Exception], str]] = [
    (
        ConnectionError("connection lost"),
        NotPrepared,
        r"it can't be fetched \(connection lost\); the next use asks again",
    ),
    (TimeoutError(), NotPrepared, "it can't be fetched"),
    (InvalidProgram("object", "gone", "put it again"), InvalidProgram, "object: gone; put it again"),
    (ValueError("a bug"), ValueError, "a bug"),
]


@pytest.mark.parametrize(("fault", "kind", "said"), FAULTS)
async def test_a_fetch_that_fails_leaves_nothing(
    tmp_path: Path, clock: ManualClock, fault: Exception, kind: type[Exception], said: str
) -> None:
    source, user = Source(program("a"), fault), cache(tmp_path, clock)
    results = await asyncio.gather(*(names(user, source) for _ in range(3)), return_exceptions=True)
    assert {type(one) for one in results} == {kind}
    with pytest.raises(kind, match=said):
        await names(user, source)
    assert (kept(tmp_path), nothing_half(tmp_path)) == ([], True)
    source.fault = None
    assert await names(user, source) == ["a"]


async def test_wrong_bytes_are_not_kept(tmp_path: Path, clock: ManualClock) -> None:
    source, user = Source(program("a")), cache(tmp_path, clock)
    with pytest.raises(NotPrepared, match="other bytes came"):
        async with user.use(digest(b"other"), len(source.data), source):
            pytest.fail("it was used")
    with pytest.raises(InvalidProgram, match="more than 1,048,576 bytes"):
        await names(cache(tmp_path, clock, MIB), Source(program("large", 2 * MIB)))
    assert (kept(tmp_path), nothing_half(tmp_path)) == ([], True)


@pytest.mark.parametrize("key", ["", "x" * 64, "../" + "a" * 61, "A" * 64, "a" * 63])
async def test_a_key_is_a_digest(tmp_path: Path, clock: ManualClock, key: str) -> None:
    with pytest.raises(NotPrepared, match="it is no digest"):
        async with cache(tmp_path, clock).use(key, 1, Source(b"")):
            pytest.fail("it was used")
    assert contents(tmp_path) == {}


async def test_what_was_used_longest_ago_leaves(tmp_path: Path, clock: ManualClock) -> None:
    user = cache(tmp_path, clock, 3 * MIB)
    for name in ("a", "b", "a", "c", "d"):
        await names(user, Source(program(name, MIB - 10_000)))
        clock.advance(1)
    assert kept(tmp_path) == ["a", "c", "d"]
    assert len(list((tmp_path / "cache" / "locks").iterdir())) == 6


async def test_what_is_in_use_stays(tmp_path: Path, clock: ManualClock) -> None:
    user, other = (cache(tmp_path, clock, 2 * MIB) for _ in range(2))
    sources = {name: Source(program(name, MIB - 10_000)) for name in "abcd"}
    async with AsyncExitStack() as stack:
        for name in "abc":
            source = sources[name]
            await stack.enter_async_context(user.use(digest(source.data), len(source.data), source))
            clock.advance(1)
        await other.tidy()
        assert kept(tmp_path) == ["a", "b", "c"]
        await names(other, sources["d"])
        assert kept(tmp_path) == ["a", "b", "c", "d"]
    clock.advance(1)
    await names(other, sources["a"])
    await user.tidy()
    assert [len(kept(tmp_path)), "a" in kept(tmp_path)] == [2, True]


async def test_a_damaged_program_is_fetched_again(tmp_path: Path, clock: ManualClock) -> None:
    source = Source(program("a"))
    await names(cache(tmp_path, clock), source)
    (mark,) = (tmp_path / "cache" / "marks").iterdir()
    for damage in (b"", b"{}", b"\xff", mark.read_bytes()[:-5], b'{"key":"x","folder":"../..","size":1,"note":""}'):
        before = source.fetched
        mark.write_bytes(damage)
        assert (await names(cache(tmp_path, clock), source), source.fetched) == (["a"], before + 1)
    await cache(tmp_path, clock).tidy()
    (folder,) = (tmp_path / "cache" / "folders").iterdir()
    folder.chmod(0o755)  # or only root could move it
    folder.rename(tmp_path / "elsewhere")
    assert await names(cache(tmp_path, clock), source) == ["a"]


async def test_a_mark_without_a_folder_counts_for_nothing(tmp_path: Path, clock: ManualClock) -> None:
    user = cache(tmp_path, clock)
    await names(user, Source(program("a")))
    (folder,) = (tmp_path / "cache" / "folders").iterdir()
    folder.chmod(0o755)  # or only root could move it
    folder.rename(tmp_path / "elsewhere")
    await user.tidy()
    assert [path.name for path in (tmp_path / "cache").rglob("*") if path.is_file()] == ["tidy"]


@pytest.mark.parametrize("damage", ["content", "more", "mode", "missing"])
async def test_a_full_check_finds_changed_files(tmp_path: Path, clock: ManualClock, damage: str) -> None:
    data, _ = packed(tree(tmp_path / "one", {"a": b"1", "b/c": b"2"}))
    source = Source(data)
    await names(cache(tmp_path, clock), source)
    await names(cache(tmp_path, clock, check=True), source)
    assert source.fetched == 1
    (folder,) = (tmp_path / "cache" / "folders").iterdir()
    for path in (folder, folder / "b", folder / "a"):
        path.chmod(0o755)
    match damage:
        case "content":
            (folder / "a").write_bytes(b"2")
        case "more":
            (folder / "more").write_bytes(b"")
        case "missing":
            (folder / "b" / "c").unlink()
    await names(cache(tmp_path, clock), source)
    assert source.fetched == 1  # the mark alone doesn't show it
    assert await names(cache(tmp_path, clock, check=True), source) == ["a", "b"]
    assert source.fetched == 2
    await cache(tmp_path, clock).tidy()
    assert contents(next((tmp_path / "cache" / "folders").iterdir())) == contents(tmp_path / "one")


async def test_a_full_disk_is_one_error_and_makes_room(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = cache(tmp_path, clock)
    await names(user, Source(program("old")))

    def full(descriptor: int, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("rota.artifacts.trees.write_all", full)
        with pytest.raises(NotPrepared, match=r"takes no files \(No space left on device\); free some space") as caught:
            await names(user, Source(program("a")))
    assert caught.value.passing
    assert (kept(tmp_path), nothing_half(tmp_path)) == ([], True)
    assert await names(user, Source(program("a"))) == ["a"]


async def test_a_folder_that_can_not_be_made_is_one_error(tmp_path: Path, clock: ManualClock) -> None:
    (tmp_path / "cache").write_bytes(b"")
    with pytest.raises(NotPrepared, match="takes no files"):
        await names(cache(tmp_path, clock), Source(program("a")))
    await cache(tmp_path, clock).tidy()


def start(folder: Path, data: Path, how: str) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "tests.artifacts.cache_user", str(folder / "cache"), str(data), how]
    return subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def lines(process: subprocess.Popen[str]) -> Iterator[str]:
    assert process.stdout is not None
    return (line.strip() for line in process.stdout)


def answer(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    with suppress(BrokenPipeError):  # it has ended without waiting
        process.stdin.write("\n")
        process.stdin.flush()


@pytest.fixture
def large(tmp_path: Path) -> Path:
    (tmp_path / "packed").write_bytes(program("a", MIB))
    return tmp_path / "packed"


async def test_a_killed_fetch_is_nobody_s_program(tmp_path: Path, clock: ManualClock, large: Path) -> None:
    source = Source(large.read_bytes())
    with start(tmp_path, large, "stop in fetch") as process:
        assert next(lines(process)) == "fetching"
        using = asyncio.ensure_future(names(cache(tmp_path, clock), source))
        process.kill()
    assert (await using, source.fetched) == (["a"], 1)
    assert (kept(tmp_path), nothing_half(tmp_path)) == (["a"], True)
    await cache(tmp_path, clock).tidy()
    assert len(list((tmp_path / "cache" / "folders").iterdir())) == 1


async def test_a_second_process_waits_for_the_first(tmp_path: Path, clock: ManualClock, large: Path) -> None:
    source = Source(large.read_bytes())
    with start(tmp_path, large, "stop in fetch") as process:
        said = lines(process)
        assert next(said) == "fetching"
        using = asyncio.ensure_future(names(cache(tmp_path, clock), source))
        answer(process)
        assert next(said).startswith("using")
    assert (await using, source.fetched) == (["a"], 0)


async def test_a_process_that_waits_in_vain_says_so(tmp_path: Path, clock: ManualClock, large: Path) -> None:
    source = Source(large.read_bytes())
    user = ProgramCache(tmp_path / "cache", MIB, clock, Chance(), patience=0.05)
    with start(tmp_path, large, "stop in fetch") as process:
        assert next(lines(process)) == "fetching"
        with pytest.raises(NotPrepared, match=r"another process has been at it for 0\.05s") as caught:
            await names(user, source)
        assert caught.value.passing
        process.kill()


async def test_what_another_process_uses_stays_until_it_ends(tmp_path: Path, clock: ManualClock, large: Path) -> None:
    small = cache(tmp_path, clock, 0)
    with start(tmp_path, large, "stop in use") as process:
        said = lines(process)
        assert [next(said), next(said).split()[0]] == ["fetching", "using"]
        await small.tidy()
        assert kept(tmp_path) == ["a"]
        process.kill()
    await small.tidy()
    assert kept(tmp_path) == []
    assert list((tmp_path / "cache" / "locks").iterdir()) == []


async def test_a_child_of_the_user_does_not_hold_the_program(tmp_path: Path, clock: ManualClock) -> None:
    source = Source(program("a"))
    user = cache(tmp_path, clock)
    with ExitStack() as stack:
        async with user.use(digest(source.data), len(source.data), source):
            stack.enter_context(child())  # it outlives the use
            await cache(tmp_path, clock, 0).tidy()
            assert kept(tmp_path) == ["a"]
        await cache(tmp_path, clock, 0).tidy()
        assert kept(tmp_path) == []


@pytest.mark.slow
async def test_ten_processes_fetch_once(tmp_path: Path, large: Path) -> None:
    processes = [start(tmp_path, large, "go on") for _ in range(10)]
    said = [process.communicate("\n", timeout=60)[0].splitlines() for process in processes]
    assert sum(line == "fetching" for lines in said for line in lines) == 1
    assert {line.split()[2] for lines in said for line in lines if line.startswith("using")} == {str(MIB)}
    assert {process.returncode for process in processes} == {0}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
async def test_processes_that_are_killed_at_any_time(
    tmp_path: Path, clock: ManualClock, large: Path, seed: int
) -> None:
    """Whoever lives gets the whole program; at the end there is one, and nothing else."""
    chance = random.Random(seed)
    for _ in range(4):
        processes = [start(tmp_path, large, chance.choice(["go on", "stop in fetch", "stop in use"])) for _ in range(4)]
        said = [lines(process) for process in processes]
        if chance.random() < 0.5:  # until one of them fetches, or has it already
            select.select([process.stdout.fileno() for process in processes if process.stdout], [], [])
        killed = [process for process in processes if chance.random() < 0.5]
        for process in processes:
            process.kill() if process in killed else answer(process)
        for process, its in zip(processes, said, strict=True):
            assert process in killed or [*its][-1].endswith(f" {MIB}")
            process.communicate()
    source = Source(large.read_bytes())
    user = cache(tmp_path, clock, check=True)
    assert await names(user, source) == ["a"]
    await user.tidy()
    assert (len(list((tmp_path / "cache" / "folders").iterdir())), nothing_half(tmp_path)) == (1, True)
