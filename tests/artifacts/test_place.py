"""The contract of object places, in a folder and on a real S3."""

from __future__ import annotations

import asyncio
import random
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from rota.artifacts.place import LARGEST, NoObject, ObjectPlace, WrongSize, counted
from rota.clock import SystemClock
from rota.errors import InvalidInput, TooLarge
from rota.model.times import MINUTE
from tests.artifacts.places import Place, content, keys, read

MIB = 1 << 20
LARGE = 20 * MIB + 12345  # three parts on S3


def bytes_of(count: int) -> bytes:
    return random.Random(count).randbytes(count)


async def test_what_was_put_is_read(place: ObjectPlace) -> None:
    assert await place.put("objects/a", content(b"one ", b"", b"two"), 7) == 7
    assert await read(place, "objects/a") == b"one two"
    assert await place.put("objects/a", content(b"three")) == 5  # in its place
    assert await read(place, "objects/a") == b"three"
    assert await place.put("objects/empty", content(), 0) == 0
    assert await read(place, "objects/empty") == b""


async def test_large_content_is_put_and_read(place: ObjectPlace) -> None:
    whole = bytes_of(LARGE)
    pieces = [whole[start : start + 700_000] for start in range(0, LARGE, 700_000)]
    assert await place.put("objects/large", content(*pieces)) == LARGE
    assert await read(place, "objects/large") == whole
    assert (await place.head("objects/large")).size == LARGE
    assert await read(place, "objects/large", MIB - 1, 9 * MIB) == whole[MIB - 1 : 9 * MIB]


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (0, 3, b"012"),
        (4, None, b"456789"),
        (4, 5, b"4"),
        (8, 99, b"89"),
        (10, None, b""),
        (10, 12, b""),
        (99, None, b""),
    ],
)
async def test_a_range_is_read(place: ObjectPlace, start: int, end: int | None, expected: bytes) -> None:
    await place.put("a/b", content(b"0123456789"))
    assert await read(place, "a/b", start, end) == expected


async def test_an_empty_range_is_empty(place: ObjectPlace) -> None:
    await place.put("a/b", content(b"0123456789"))
    assert await read(place, "a/b", 4, 4) == b""


async def test_head_knows_size_and_time(place: ObjectPlace) -> None:
    await place.put("a/b", content(b"0123456789"))
    found = await place.head("a/b")
    assert (found.key, found.size) == ("a/b", 10)
    assert abs(found.at - SystemClock().now()) < MINUTE


async def test_what_is_not_there_has_an_error_of_its_own(place: ObjectPlace) -> None:
    await place.put("a/b", content(b"x"))
    for key in ("a/c", "a", "c/d"):  # `a` is no object, but a part of a key
        for call in (place.head(key), read(place, key), place.copy(key, "a/d")):
            with pytest.raises(NoObject) as raised:
                await call
            assert raised.value.key == key
    assert await keys(place) == ["a/b"]


async def test_deleting_what_is_not_there_is_fine(place: ObjectPlace) -> None:
    for key in ("a/b", "a/c", "d"):
        await place.put(key, content(b"x"))
    await place.delete(["a/b", "a/none", "none/none", "d", "d"])
    assert await keys(place) == ["a/c"]
    await place.delete([])
    await place.delete(iter(["a/c"]))
    assert await keys(place) == []


@pytest.mark.parametrize("most", [1, 3, 1000])
async def test_pages_name_each_object_once(place: ObjectPlace, most: int) -> None:
    names = ["a-b", "a-c/1", "a.b", "a/1", "a/10", "a/2", "a/b/c", "a/b-c/1", "a0", "b/x"]
    for key in names:
        await place.put(key, content(key.encode()))
    found = page = await place.page("", most=most)
    while page:
        page = await place.page("", page[-1].key, most)
        assert len(page) <= most
        found = found + page
    assert sorted((one.key, one.size) for one in found) == sorted((key, len(key)) for key in names)


async def test_pages_of_a_folder_are_in_the_order_of_keys(place: ObjectPlace) -> None:
    for key in ("a/2", "a/10", "a/1", "a-1", "b"):
        await place.put(key, content(key.encode()))
    assert await keys(place, "a/") == ["a/1", "a/10", "a/2"]
    assert [found.key for found in await place.page("a/", "a/1", 1)] == ["a/10"]
    assert await place.page("a/", "a/2") == []
    assert await keys(place, "none/") == []


async def test_put_new_never_replaces(place: ObjectPlace) -> None:
    assert await place.put_new("a/b", b"first") is True
    assert await place.put_new("a/b", b"second") is False
    assert await read(place, "a/b") == b"first"


async def test_one_of_many_wins(kept: Place, place: ObjectPlace) -> None:
    others = [kept.open() for _ in range(8)]
    won = await asyncio.gather(*(other.put_new("a/b", str(n).encode()) for n, other in enumerate(others)))
    assert won.count(True) == 1
    assert await read(place, "a/b") == str(won.index(True)).encode()


async def test_a_probe_leaves_nothing_and_says_what_there_is(kept: Place) -> None:
    place = kept.open()
    state = await place.probe()
    assert (state.exclusive, state.place, state.warning) == (True, place.name, "")
    assert await keys(place) == []
    assert await place.sweep() == 0


async def test_copy_and_move(place: ObjectPlace) -> None:
    await place.put("a/b", content(b"content"))
    await place.copy("a/b", "c/d/e")
    assert await read(place, "c/d/e") == b"content"
    await place.put("a/b", content(b"other"))
    assert await read(place, "c/d/e") == b"content"
    await place.move("a/b", "c/d/e")
    assert await read(place, "c/d/e") == b"other"
    assert await keys(place) == ["c/d/e"]


@pytest.mark.parametrize("size", [0, 3, 12 * MIB])
@pytest.mark.parametrize("wrong", [-1, 1])
async def test_a_wrong_size_leaves_nothing(place: ObjectPlace, size: int, wrong: int) -> None:
    if size + wrong < 0:
        return
    with pytest.raises(WrongSize, match="a/b"):
        await place.put("a/b", content(bytes(size)), size + wrong)
    assert await keys(place) == []


@pytest.mark.parametrize("before", [1, 12])
@pytest.mark.parametrize(
    "failure", [ValueError("mine"), FileNotFoundError("mine"), TimeoutError("mine"), NoObject("o")]
)
async def test_a_failure_of_the_content_is_raised_and_leaves_what_was_there(
    place: ObjectPlace, before: int, failure: Exception
) -> None:
    async def failing() -> AsyncIterator[bytes]:
        for _ in range(before):
            yield bytes(MIB)
        raise failure

    await place.put("a/b", content(b"old"))
    with pytest.raises(type(failure)) as raised:
        await place.put("a/b", failing())
    assert raised.value is failure
    assert await read(place, "a/b") == b"old"


@pytest.mark.parametrize("before", [1, 12])
async def test_a_put_that_is_cancelled_leaves_nothing(kept: Place, place: ObjectPlace, before: int) -> None:
    waiting, ended = asyncio.Event(), asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        try:
            for _ in range(before):
                yield bytes(MIB)
            waiting.set()
            await asyncio.Event().wait()
        finally:
            ended.set()

    putting = asyncio.ensure_future(place.put("a/b", endless()))
    await waiting.wait()
    putting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await putting
    await asyncio.wait_for(ended.wait(), 10)
    assert await keys(kept.open()) == []


@pytest.mark.slow
async def test_slow_content_is_not_the_fault_of_the_place(kept: Place, place: ObjectPlace) -> None:
    hasty = kept.open(limit=2)

    async def slow() -> AsyncIterator[bytes]:
        yield bytes(9 * MIB)
        await asyncio.sleep(2.5)  # longer than the limit, which is what is tested
        yield bytes(MIB)

    assert await hasty.put("a/b", slow()) == 10 * MIB


async def test_readers_see_one_version(place: ObjectPlace) -> None:
    old, new = b"o" * 3 * MIB, b"n" * 3 * MIB
    await place.put("a/b", content(old))
    async with aclosing(place.get("a/b")) as pieces:
        first = await anext(pieces)
        assert set(first) == {ord("o")}
    await place.put("a/b", content(new))
    assert await read(place, "a/b") == new


@pytest.mark.parametrize(
    "key", ["", "/a", "a/", "a//b", "../a", "a/../b", "a/.b", "A", "a b", "a\n", "ä", "a/" + "b" * 129]
)
async def test_odd_keys_are_refused(place: ObjectPlace, key: str) -> None:
    calls = (
        place.put(key, content(b"x")), place.put_new(key, b"x"), place.head(key), read(place, key),
        place.delete([key]), place.copy("a", key), place.copy(key, "a"), place.sign("GET", key, 60),
    )  # fmt: skip
    for call in calls:
        with pytest.raises(InvalidInput, match="key of an object"):
            await call
    if key:
        with pytest.raises(InvalidInput, match="folder of keys"):
            await place.page(key + "!")


async def test_signed_urls_do_what_they_say(kept: Place, place: ObjectPlace) -> None:
    put = await place.sign("PUT", "staging/upload-1/00001", 60)
    assert await kept.use("PUT", put, b"uploaded") == b""
    assert await read(place, "staging/upload-1/00001") == b"uploaded"
    get = await place.sign("GET", "staging/upload-1/00001", 60)
    assert await kept.use("GET", get) == b"uploaded"


async def test_signed_urls_do_nothing_else(kept: Place, place: ObjectPlace) -> None:
    for key in ("a/b", "a/c"):
        await place.put(key, content(b"old"))
    put, get = await place.sign("PUT", "a/b", 60), await place.sign("GET", "a/b", 60)
    for method, url in (
        ("GET", put), ("PUT", get), ("DELETE", put), ("DELETE", get),  # another method
        ("PUT", put.replace("a/b", "a/c")), ("GET", get.replace("a/b", "a/c")),  # another key
        ("PUT", put.partition("?")[0]), ("GET", get.partition("?")[0]),  # no signature
        ("PUT", put[:-4] + "beef"), ("GET", get[:-4] + "beef"),  # a forged one
        ("PUT", put.replace("xpires=", "xpires=9")), ("GET", get.replace("xpires=", "xpires=9")),  # a longer life
    ):  # fmt: skip
        assert await kept.use(method, url, b"new") is None, (method, url)
    assert [await read(place, key) for key in ("a/b", "a/c")] == [b"old", b"old"]


async def test_signed_urls_expire(kept: Place, place: ObjectPlace) -> None:
    await place.put("a/b", content(b"old"))
    get, put = await place.sign("GET", "a/b", 1), await place.sign("PUT", "a/b", 1)
    async with asyncio.timeout(10):
        while await kept.use("GET", get) is not None:
            pass
    assert await kept.use("PUT", put, b"new") is None
    assert await read(place, "a/b") == b"old"
    for life in (0, -1, 8 * 86_400):
        with pytest.raises(InvalidInput, match="life of a signed URL"):
            await place.sign("GET", "a/b", life)


@pytest.mark.slow
async def test_memory_is_constant(place: ObjectPlace) -> None:
    """What Python holds; test_s3.py looks at the whole process."""
    piece, count = bytes_of(MIB), 150

    async def large() -> AsyncIterator[bytes]:
        for _ in range(count):
            yield piece

    tracemalloc.start()
    try:
        await place.put("a/b", large(), count * MIB)
        async with aclosing(place.get("a/b")) as pieces:
            assert sum([len(one) async for one in pieces]) == count * MIB
        assert tracemalloc.get_traced_memory()[1] < 40 * MIB
    finally:
        tracemalloc.stop()


async def test_nothing_is_larger_than_an_object_may_be() -> None:
    class Huge(bytes):
        def __len__(self) -> int:
            return LARGEST + 1

    with pytest.raises(TooLarge):
        assert [piece async for piece in counted("a", content(Huge()), None)]
