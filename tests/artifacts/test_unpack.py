"""What comes out of packed bytes is what went in; whatever else is in them is refused, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.artifacts import blocks
from rota.artifacts.blocks import BLOCK, END
from rota.artifacts.compression import zstd
from rota.artifacts.counting import LIMITS, PackLimits
from rota.artifacts.faults import InvalidProgram, NotPrepared
from rota.artifacts.names import folded
from rota.artifacts.unpack import Unpacker, unpack, unpack_stream
from tests.artifacts.made import block, contents, descriptors, digest, entry, member, packed, pax, sealed, tree

FILES = {
    "run.sh": b"#!/bin/sh\n",
    "lib/a.py": b"a = 1\n",
    "lib/deep/er.txt": b"",
    "out": None,
    "ä/ß €.txt": b"x" * 5000,
}


def refused(data: bytes, place: Path, limits: PackLimits = LIMITS, size: int | None = None) -> str:
    """The error; checks that nothing is left, nothing was written elsewhere, and no file stays open."""
    before, target = descriptors(), place / "jail" / "target"
    target.parent.mkdir()
    tree(place, {"precious": b"precious"})
    with pytest.raises((InvalidProgram, NotPrepared)) as caught:
        unpack([data], target, digest(data), len(data) if size is None else size, limits)
    assert contents(place) == {"jail": None, "precious": b"precious"}
    assert descriptors() <= before
    assert str(caught.value).isprintable()
    return str(caught.value)


def test_files_come_out_as_they_went_in_and_read_only(tmp_path: Path) -> None:
    root = tree(tmp_path / "one", FILES, ["run.sh"])
    data, said = packed(root)
    old = os.umask(0o077)
    try:
        made = unpack([data], tmp_path / "out", said.digest, said.size)
    finally:
        os.umask(old)
    assert contents(tmp_path / "out") == contents(root)
    assert (made.content, made.size, made.entries) == (said.content, said.unpacked, said.entries)
    modes = {
        str(path.relative_to(tmp_path)): stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "out").rglob("*")
    }
    assert {name for name, mode in modes.items() if mode == 0o444} == {
        "out/lib/a.py",
        "out/lib/deep/er.txt",
        "out/ä/ß €.txt",
    }
    assert set(modes.values()) == {0o444, 0o555}
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o555


def test_nobody_else_may_enter_before_the_digest_fits(tmp_path: Path) -> None:
    data, said = packed(tree(tmp_path / "one", FILES))
    unpacker = Unpacker(tmp_path / "out", said.digest, said.size)
    unpacker.feed(data)
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o700
    unpacker.finish()


@pytest.mark.parametrize("there", ["folder", "file", "link"])
def test_the_target_must_be_fresh(tmp_path: Path, there: str) -> None:
    data, said = packed(tree(tmp_path / "one", FILES))
    tree(
        tmp_path,
        {"elsewhere": None} | ({"out": None} if there == "folder" else {"out": b""} if there == "file" else {}),
    )
    if there == "link":
        (tmp_path / "out").symlink_to("elsewhere")
    before = contents(tmp_path)
    with pytest.raises(FileExistsError):
        unpack([data], tmp_path / "out", said.digest, said.size)
    assert contents(tmp_path) == before


def test_pieces_may_have_any_size(tmp_path: Path) -> None:
    data, said = packed(tree(tmp_path / "one", FILES))
    unpack([data[at : at + 1] for at in range(len(data))], tmp_path / "out", said.digest, said.size)
    assert contents(tmp_path / "out") == contents(tmp_path / "one")


NAMES = [
    b"../x", b"a/../../x", b"..", b".", b"./x", b"a/./b", b"/x", b"//x", b"a//b", b"a\\..\\x", b"C:\\x", b"line\nfeed",
    b"tab\t", b"\x1b[2J", b"\x7f", b"a\xff", b"\xed\xa0\x80", "a\u2029b".encode(), "\x85".encode(), b"n" * 256,
    b"\xc0\xae\xc0\xae/x",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("folder", [False, True])
def test_names_that_lead_elsewhere_are_refused(tmp_path: Path, name: bytes, folder: bool) -> None:
    refused(sealed(entry("a", folder=True), entry(name, b"" if folder else b"evil", folder=folder)), tmp_path)


def _fields(**fields: object) -> bytes:
    return block(b"a", **fields)  # type: ignore[arg-type]


STRANGE = {
    "symbolic link": _fields(kind=b"2", link=b"/etc"),
    "hard link": _fields(kind=b"1", link=b"/etc/passwd"),
    "character device": _fields(kind=b"3"),
    "block device": _fields(kind=b"4"),
    "pipe": _fields(kind=b"6"),
    "old file": _fields(kind=b"\0"),
    "contiguous file": _fields(kind=b"7"),
    "sparse": _fields(kind=b"S"),
    "long name of GNU": member(b"././@LongLink", b"x" * 200 + b"\0", kind=b"L") + _fields(),
    "global record": pax(b"g", comment="x") + _fields(),
    "unknown": _fields(kind=b"Q"),
    "set-uid": _fields(mode=b"0004755\0"),
    "set-gid": _fields(mode=b"0002755\0"),
    "sticky": _fields(mode=b"0001755\0"),
    "writable by all": _fields(mode=b"0000666\0"),
    "secret": _fields(mode=b"0000600\0"),
    "owner": _fields(owner=b"0001750\0"),
    "prefix": _fields(prefix=b"../.."),
    "link beside a file": _fields(link=b"/etc"),
    "magic of GNU": _fields(magic=b"ustar  \0"),
    "no magic": _fields(magic=bytes(8)),
    "binary size": _fields(size=b"\x80" + (1 << 40).to_bytes(11, "big")),
    "size with a sign": _fields(size=b"-0000000001\0"),
    "size with a blank": _fields(size=b"0000000000 \0"),
    "size without digits": _fields(size=bytes(12)),
    "damaged sum": _fields()[:148] + b"000000\0 " + _fields()[156:],
    "name behind a NUL": block(b"a\0/../x"),
    "no name": block(b""),
    "slash of a file": block(b"a/"),
    "folder with a body": member(b"a/", b"x", kind=b"5", mode=b"0000755\0"),
    "folder without a slash": block(b"a", kind=b"5", mode=b"0000755\0"),
    "record without need": pax(path="a") + block(b"pax"),
    "record of a size": pax(size="5") + block(b"a"),
    "record with two keys": pax(path="ä", size="5") + block(b"pax"),
    "record of another key": pax(linkpath="ä") + block(b"pax"),
    "record that lies about its length": member(b"pax", b"99 path=\xc3\xa4\n", kind=b"x") + block(b"pax"),
    "record without end": member(b"pax", b"", kind=b"x") + block(b"pax"),
    "record twice": pax(path="ä") + pax(path="ö") + block(b"pax"),
    "record of megabytes": member(b"pax", b"x" * (1 << 20), kind=b"x") + block(b"pax"),
    "record with a NUL": pax(path="ä\0b") + block(b"pax"),
    "record with a line feed": pax(path="ä\nb") + block(b"pax"),
    "record that leads up": pax(path="../ä") + block(b"pax"),
    "not zero padding": block(b"a", 1) + b"x" + b"y" * (BLOCK - 1),
}  # fmt: skip


@pytest.mark.parametrize("strange", STRANGE.values(), ids=STRANGE.keys())
def test_whatever_rota_does_not_write_is_refused(tmp_path: Path, strange: bytes) -> None:
    refused(sealed(strange), tmp_path)


ORDERS = {
    "twice": [entry("a", b"1"), entry("a", b"2")],
    "folder twice": [entry("a", folder=True), entry("a", folder=True)],
    "file and folder": [entry("a", b"1"), entry("a", folder=True)],
    "in a file": [entry("a", b"1"), entry("a/b", b"2")],
    "not sorted": [entry("b"), entry("a")],
    "without its folder": [entry("a/b", b"1")],
    "back in a folder": [entry("a", folder=True), entry("b"), entry("a/b", b"1")],
    "case": [entry("A"), entry("a")],
    "case of folders": [entry("A", folder=True), entry("a", folder=True)],
    "composition": [entry("e\u0301"), entry("\u00e9")],
    "sharp s": [entry("SS"), entry("\u00df")],
}


@pytest.mark.parametrize("entries", ORDERS.values(), ids=ORDERS.keys())
def test_entries_that_meet_are_refused(tmp_path: Path, entries: list[bytes]) -> None:
    assert "order" in (said := refused(sealed(*entries), tmp_path)) or "differ in nothing but case" in said


FRAMES = {
    "nothing": b"",
    "no frame": b"not zstd at all",
    "empty frame": zstd.compress(b""),
    "no end": sealed(entry("a"), end=b""),
    "half an end": sealed(entry("a"), end=bytes(BLOCK)),
    "more than an end": sealed(entry("a"), end=END + bytes(BLOCK)),
    "something behind the end": sealed(entry("a"), end=END + entry("b")),
    "something in the end": sealed(entry("a"), end=bytes(BLOCK) + entry("b") + END),
    "a second frame": sealed(entry("a")) + sealed(entry("b")),
    "an empty second frame": sealed(entry("a")) + zstd.compress(b""),
    "a skippable frame before": b"\x50\x2a\x4d\x18\x04\0\0\0abcd" + sealed(entry("a")),
    "a skippable frame behind": sealed(entry("a")) + b"\x50\x2a\x4d\x18\x04\0\0\0abcd",
    "bytes behind": sealed(entry("a")) + b"x",
    "cut": sealed(entry("a", os.urandom(4000)))[:-9],
    "cut body": sealed(entry("a", b"x" * 4000)[: 3 * BLOCK], end=b""),
    "a window of 1 GiB": b"\x28\xb5\x2f\xfd\x00\xa0" + b"\x01\0\0",
    "plain tar": entry("a") + END,
}


@pytest.mark.parametrize("data", FRAMES.values(), ids=FRAMES.keys())
def test_other_frames_are_refused(tmp_path: Path, data: bytes) -> None:
    refused(data, tmp_path)


def zeros(size: int) -> bytes:
    """A file of zeros, packed without having it in memory; its header tells the truth."""
    compressor = zstd.ZstdCompressor(level=3)
    data = compressor.compress(blocks.Header(b"zeros", size, folder=False, executable=False).blocks)
    return data + b"".join(compressor.compress(bytes(1 << 20)) for _ in range(size >> 20)) + compressor.flush()


def test_a_bomb_is_refused_while_it_is_counted(tmp_path: Path) -> None:
    data = zeros(1 << 28)
    assert len(data) < 40_000
    assert "bytes unpack to more than" in refused(data, tmp_path, PackLimits(always=1 << 20, ratio=20))


def test_a_bomb_that_claims_little_is_refused(tmp_path: Path) -> None:
    data = sealed(blocks.Header(b"a", 5, folder=False, executable=False).blocks + bytes(1 << 24))
    assert "something stands between its files" not in refused(data, tmp_path, PackLimits(always=1 << 20))


TOO_MUCH = [
    (PackLimits(size=9), [entry("a", b"12345"), entry("b", b"12345")], "more than 9 bytes"),
    (PackLimits(entries=2), [entry("a"), entry("b"), entry("c")], "more than 2 files and folders"),
    (PackLimits(depth=1), [entry("a", folder=True), entry("a/b")], "nested 2 deep"),
    (PackLimits(path=4), [entry("a", folder=True), entry("a/bcd")], "a path has more than 4 bytes"),
]


@pytest.mark.parametrize(("limits", "entries", "said"), TOO_MUCH)
def test_too_much_is_refused(tmp_path: Path, limits: PackLimits, entries: list[bytes], said: str) -> None:
    assert said in refused(sealed(*entries), tmp_path, limits)


def test_a_million_entries_are_refused_at_the_limit(tmp_path: Path) -> None:
    data = sealed(b"".join(entry(f"{number:07}") for number in range(1100)))
    assert "more than 1,000 files" in refused(data, tmp_path, PackLimits(entries=1000))


@pytest.mark.parametrize(("size", "said"), [(-1, "more bytes came than it has"), (1, "it is cut short")])
def test_another_size_is_refused(tmp_path: Path, size: int, said: str) -> None:
    data = sealed(entry("a", b"1"))
    assert said in refused(data, tmp_path, size=len(data) + size)


def test_another_digest_is_refused_though_all_else_is_right(tmp_path: Path) -> None:
    data = sealed(entry("a", b"1"))
    with pytest.raises(NotPrepared, match="other bytes came than its digest says; it is asked for again") as caught:
        unpack([data], tmp_path / "out", digest(b"other"), len(data))
    assert caught.value.passing
    assert contents(tmp_path) == {}


def test_an_endless_stream_is_left_at_its_size(tmp_path: Path) -> None:
    def endless() -> Iterator[bytes]:
        data = sealed(entry("a", os.urandom(1 << 16)))
        yield from (data[at : at + 100] for at in range(0, len(data) - 100, 100))
        pytest.fail("it was read on")

    with pytest.raises(NotPrepared, match="more bytes came"):
        unpack(endless(), tmp_path / "out", digest(b""), 1 << 10)
    assert contents(tmp_path) == {}


async def chunked(data: bytes, fault: Exception | None = None) -> AsyncIterator[bytes]:
    yield data[: len(data) // 2]
    if fault:
        raise fault
    yield data[len(data) // 2 :]


async def test_a_stream_is_unpacked_beside_the_loop(tmp_path: Path) -> None:
    data, said = packed(tree(tmp_path / "one", FILES | {"large": os.urandom(1 << 20)}))
    made = await unpack_stream(chunked(data), tmp_path / "out", said.digest, said.size)
    assert (made.content, contents(tmp_path / "out")) == (said.content, contents(tmp_path / "one"))


async def test_a_stream_that_fails_or_is_left_leaves_nothing(tmp_path: Path) -> None:
    data, said = packed(tree(tmp_path / "one", FILES | {"large": os.urandom(1 << 20)}))
    before, begun = descriptors(), asyncio.Event()
    with pytest.raises(ConnectionError):
        await unpack_stream(chunked(data, ConnectionError()), tmp_path / "out", said.digest, said.size)
    assert not (tmp_path / "out").exists()

    async def stuck() -> AsyncIterator[bytes]:
        yield data[: len(data) // 2]
        begun.set()
        await asyncio.Event().wait()

    task = asyncio.ensure_future(unpack_stream(stuck(), tmp_path / "out", said.digest, said.size))
    await begun.wait()
    assert (tmp_path / "out").exists()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not (tmp_path / "out").exists()
    assert descriptors() <= before


names = st.text(
    st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"], exclude_characters="/\\"), min_size=1, max_size=12
)
proper = names.filter(lambda name: name not in (".", "..", ".git", "__pycache__", ".venv", ".rotaignore"))
Tree = dict[str, "bytes | Tree"]
trees = st.recursive(
    st.binary(max_size=2000),
    lambda inner: st.dictionaries(proper, inner, max_size=5).filter(lambda one: len({*map(folded, one)}) == len(one)),
    max_leaves=12,
).filter(lambda one: isinstance(one, dict))


def build(root: Path, inner: Tree) -> None:
    root.mkdir()
    for name, one in inner.items():
        if isinstance(one, dict):
            build(root / name, one)
        else:
            (root / name).write_bytes(one)
            (root / name).chmod(0o755 if len(one) % 2 else 0o644)


def modes(root: Path) -> dict[str, bool]:
    return {str(path.relative_to(root)): bool(path.stat().st_mode & 0o100) for path in root.rglob("*")}


@settings(max_examples=40, deadline=None)
@given(trees)
def test_unpacking_is_the_inverse_of_packing(inner: Tree) -> None:
    with tempfile.TemporaryDirectory() as name:
        build(Path(name, "one"), inner)
        data, said = packed(Path(name, "one"))
        unpack([data], Path(name, "two"), said.digest, said.size)
        assert contents(Path(name, "two")) == contents(Path(name, "one"))
        assert modes(Path(name, "two")) == modes(Path(name, "one"))
        assert packed(Path(name, "two"))[1] == said


GOOD = b"".join(
    [
        entry("a", b"12345", executable=True),
        entry("b", folder=True),
        entry("b/ä" + "x" * 120, b"z" * 700),
        entry("c"),
        END,
    ]
)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_changed_archives_never_write_elsewhere(data: st.DataObject) -> None:
    """Bytes of headers are changed, swapped and cut, and sums made right again, so that the changes are looked at."""
    tar = bytearray(GOOD)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(tar) - 1))
        tar[at : at + data.draw(st.integers(0, 3))] = data.draw(
            st.sampled_from([b"", b"\0", b"/", b"../", b"2", b"7", b"x"])
        )
    for start in range(0, len(tar) - BLOCK + 1, BLOCK):
        if tar[start + 257 : start + 262] == b"ustar":
            tar[start + 148 : start + 156] = b"%06o\0 " % blocks.checksum(bytes(tar[start : start + BLOCK]))
    tried(zstd.compress(bytes(tar)))


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_changed_frames_never_write_elsewhere(data: st.DataObject) -> None:
    frame = bytearray(zstd.compress(GOOD))
    for _ in range(data.draw(st.integers(1, 3))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    tried(bytes(frame))


def tried(frame: bytes) -> None:
    limits = PackLimits(size=4000, entries=6, depth=4)
    with tempfile.TemporaryDirectory() as name:
        root = tree(Path(name), {"precious": b"", "jail": None})
        target = root / "jail" / "target"
        try:
            unpack([frame], target, digest(frame), len(frame), limits)
        except InvalidProgram:
            assert contents(root) == {"precious": b"", "jail": None}
        else:
            made = contents(target)
            assert len(made) <= 6
            assert sum(len(body) for body in made.values() if body) <= 4000
            assert all(
                stat.S_ISREG(mode) or stat.S_ISDIR(mode)
                for mode in (path.lstat().st_mode for path in target.rglob("*"))
            )
            assert {*contents(root)} - {f"jail/target/{inner}" for inner in made} == {"precious", "jail", "jail/target"}
            for path in [target, *target.rglob("*")]:
                path.chmod(0o700)
            shutil.rmtree(target)
