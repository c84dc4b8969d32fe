"""Uploads become publications: joined, counted and hashed, or nothing is kept."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator

import pytest

from rota.artifacts import publish as publishing
from rota.artifacts.folder import FolderPlace
from rota.artifacts.keys import object_key, part_key, staging_of
from rota.artifacts.place import LARGEST, NoObject, ObjectPlace
from rota.artifacts.publish import ContentMismatch, discard, publish, staged
from rota.errors import InvalidInput, TooLarge
from tests.artifacts.places import InFolder, Place, content, keys, read

MIB = 1 << 20
UPLOAD, TOKEN = "upload-1", "0123456789ab"
PARTS = [b"a" * 5 * MIB, b"", b"b" * 4 * MIB, b"c"]
WHOLE = b"".join(PARTS)
DIGEST = hashlib.sha256(WHOLE).hexdigest()


async def stage(place: ObjectPlace, parts: list[bytes]) -> list[str]:
    made = [part_key(UPLOAD, number) for number in range(1, len(parts) + 1)]
    for key, part in zip(made, parts, strict=True):
        await place.put(key, content(part))
    return made


async def test_parts_are_joined_under_their_digest(place: ObjectPlace) -> None:
    parts = await stage(place, PARTS)
    assert await staged(place, UPLOAD) == {1: 5 * MIB, 2: 0, 3: 4 * MIB, 4: 1}
    published = await publish(place, parts, DIGEST, len(WHOLE), TOKEN)
    assert published == (object_key(DIGEST, TOKEN), DIGEST, len(WHOLE))
    assert await read(place, published.key) == WHOLE
    assert await keys(place, staging_of(UPLOAD)) == parts
    await discard(place, UPLOAD)
    assert await staged(place, UPLOAD) == {}
    assert await keys(place) == [published.key]


async def test_nothing_is_a_content_too(place: ObjectPlace) -> None:
    empty = hashlib.sha256().hexdigest()
    for parts in ([], await stage(place, [b""])):
        published = await publish(place, parts, empty, 0, TOKEN)
        assert await read(place, published.key) == b""


async def test_each_publication_has_a_key_of_its_own(place: ObjectPlace) -> None:
    parts = await stage(place, [b"x"])
    digest = hashlib.sha256(b"x").hexdigest()
    first = await publish(place, parts, digest, 1, TOKEN)
    second = await publish(place, parts, digest, 1, TOKEN[::-1])
    await place.delete([first.key])
    assert await read(place, second.key) == b"x"


@pytest.mark.parametrize("parts", [[b"x"], PARTS])
async def test_another_digest_is_refused_and_nothing_kept(place: ObjectPlace, parts: list[bytes]) -> None:
    made = await stage(place, parts)
    with pytest.raises(ContentMismatch, match="the digest of the upload is") as raised:
        await publish(place, made, "0" * 64, len(b"".join(parts)), TOKEN)
    assert (raised.value.what, raised.value.announced) == ("digest", "0" * 64)
    assert raised.value.found == hashlib.sha256(b"".join(parts)).hexdigest()
    assert await keys(place, "objects/") == []


@pytest.mark.parametrize("wrong", [-1, 1])
async def test_another_size_is_refused_before_anything_is_read(kept: Place, place: ObjectPlace, wrong: int) -> None:
    parts = await stage(place, PARTS)
    place.get = None  # type: ignore[assignment, method-assign]
    with pytest.raises(ContentMismatch, match="the size of the upload"):
        await publish(place, parts, DIGEST, len(WHOLE) + wrong, TOKEN)
    assert await keys(kept.open(), "objects/") == []


async def test_the_order_of_the_parts_counts(place: ObjectPlace) -> None:
    parts = await stage(place, PARTS)
    with pytest.raises(ContentMismatch, match="digest"):
        await publish(place, parts[::-1], DIGEST, len(WHOLE), TOKEN)


async def test_a_missing_part_is_named(place: ObjectPlace) -> None:
    parts = await stage(place, PARTS)
    await place.delete(parts[2:3])
    with pytest.raises(NoObject, match=parts[2]):
        await publish(place, parts, DIGEST, len(WHOLE), TOKEN)
    assert await keys(place, "objects/") == []


@pytest.mark.parametrize("replacement", [b"y" * 5 * MIB, b"y", b"y" * 9 * MIB, b"a" * 5 * MIB + b"more"])
async def test_a_part_that_is_replaced_meanwhile_publishes_nothing_wrong(
    kept: Place, place: ObjectPlace, replacement: bytes
) -> None:
    """A signed URL can be used again while the server reads. What is announced is published, or nothing."""
    parts, get = await stage(place, PARTS), place.get
    read_of: list[tuple[str, int]] = []

    async def replaced(key: str, start: int = 0, end: int | None = None) -> AsyncGenerator[bytes, None]:
        if key == parts[0]:
            await kept.open().put(key, content(replacement))
        async for piece in get(key, start, end):
            read_of.append((key, len(piece)))
            yield piece

    place.get = replaced  # type: ignore[method-assign]
    if replacement.startswith(PARTS[0]):
        published = await publish(place, parts, DIGEST, len(WHOLE), TOKEN)
        place.get = get  # type: ignore[method-assign]
        assert await read(place, published.key) == WHOLE
    else:
        with pytest.raises(ContentMismatch):
            await publish(place, parts, DIGEST, len(WHOLE), TOKEN)
        assert await keys(kept.open(), "objects/") == []
    assert sum(size for _, size in read_of) <= len(WHOLE)


async def test_a_place_that_kept_less_than_it_said_is_found_out(tmp_path) -> None:  # type: ignore[no-untyped-def]
    place = InFolder(tmp_path / "objects").open()
    await place.probe()
    parts = await stage(place, [b"xyz"])
    put = FolderPlace.put

    async def lying(key: str, pieces: AsyncGenerator[bytes, None], size: int | None = None) -> int:
        async for _ in pieces:
            pass
        return await put(place, key, content(b"x"))

    place.put = lying  # type: ignore[method-assign, assignment]
    with pytest.raises(ContentMismatch, match="after it was joined"):
        await publish(place, parts, hashlib.sha256(b"xyz").hexdigest(), 3, TOKEN)
    assert await keys(place, "objects/") == []


async def test_odd_announcements_are_refused(place: ObjectPlace) -> None:
    parts = await stage(place, [b"x"])
    for digest, token in (("../../etc", TOKEN), ("A" * 64, TOKEN), (DIGEST, "../etc"), (DIGEST, "")):
        with pytest.raises(InvalidInput):
            await publish(place, parts, digest, 1, token)
    with pytest.raises(TooLarge):
        await publish(place, parts, DIGEST, LARGEST + 1, TOKEN)


async def test_large_pieces_are_hashed_beside_the_event_loop(
    place: ObjectPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Either way gives the same digest."""
    parts = await stage(place, PARTS)
    for bound in (0, 1 << 40):
        monkeypatch.setattr(publishing, "HASHED_HERE", bound)
        assert (await publish(place, parts, DIGEST, len(WHOLE), TOKEN)).digest == DIGEST
