"""Archives of users are read by our own readers: what tools make is taken, what contradicts itself is refused."""

from __future__ import annotations

import contextlib
import gzip
import io
import lzma
import os
import struct
import subprocess
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.artifacts.archive import kind_of, stage
from rota.artifacts.blocks import END
from rota.artifacts.compression import zstd
from rota.artifacts.counting import LIMITS, PackLimits
from rota.artifacts.faults import InvalidProgram
from tests.artifacts.made import Zip, block, contents, descriptors, member, pax, tree


def staged(place: Path, data: bytes, name: str, limits: PackLimits = LIMITS) -> Path:
    (place / name).write_bytes(data)
    stage(place / name, kind_of(name) or "", place / "out", limits)
    return place / "out"


def refused(place: Path, data: bytes, name: str, limits: PackLimits = LIMITS) -> str:
    before = descriptors()
    inner = tree(place / "jail", {"precious": b""})
    with pytest.raises(InvalidProgram) as caught:
        staged(inner, data, name, limits)
    assert sorted(path.name for path in place.iterdir()) == ["jail"]
    assert sorted(path.name for path in inner.iterdir() if path.name != "out") == sorted(["precious", name])
    assert all(path.is_dir() or (path.is_file() and not path.is_symlink()) for path in inner.rglob("*"))
    assert descriptors() <= before
    assert str(caught.value).isprintable()
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("a.zip", "zip"), ("a.TAR.GZ", "gz"), ("a.tgz", "gz"), ("a.tar", "tar"), ("a.txz", "xz"), ("a.tar.zst", "zst")]
    + [(name, None) for name in ("a.py", "a.gz", "zip", "a.tar.gz.py", "a.whl")],
)
def test_archives_are_known_by_their_names(name: str, kind: str | None) -> None:
    assert kind_of(name) == kind


# --- tar

TARS: dict[str, bytes] = {
    "v7": member(b"a/b", b"x", kind=b"\0", magic=bytes(8)) + END,
    "v7 folder": member(b"a/", kind=b"\0", magic=bytes(8)) + member(b"a/b", b"x", kind=b"\0", magic=bytes(8)) + END,
    "dots": member(b"./", kind=b"5") + member(b"./a/", kind=b"5") + member(b"./a/b", b"x") + END,
    "prefix": member(b"b", b"x", prefix=b"a") + END,
    "pax": pax(path="a/b", mtime="1.5") + member(b"cut", b"x") + END,
    "pax size": pax(size="1") + block(b"a/b") + b"x" + bytes(511) + END,
    "pax twice": pax(path="wrong") + pax(path="a/b") + member(b"cut", b"x") + END,
    "global comment": pax(b"g", comment="0123") + member(b"a/b", b"x") + END,
    "GNU": member(b"././@LongLink", b"a/b\0", kind=b"L") + member(b"cut", b"x", magic=b"ustar  \0") + END,
    "binary size": block(b"a/b", b"\x80" + bytes(10) + b"\1") + b"x" + bytes(511) + END,
    "twice a folder": member(b"a", kind=b"5") + member(b"a/", kind=b"5") + member(b"a/b", b"x") + END,
    "half an end": member(b"a/b", b"x") + bytes(512),
    "much padding": member(b"a/b", b"x") + bytes(100_000),
    "out of order": member(b"a/b", b"x") + member(b"a/", kind=b"5") + END,
}


@pytest.mark.parametrize("data", TARS.values(), ids=TARS.keys())
def test_tars_of_all_ages_are_read(tmp_path: Path, data: bytes) -> None:
    assert contents(staged(tmp_path, data, "a.tar")) == {"a": None, "a/b": b"x"}


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_what_python_and_gnu_tar_write_is_read(tmp_path: Path, form: int) -> None:
    root = tree(
        tmp_path / "one", {"a/" + "n" * 90 + "/" + "m" * 90: b"long", "ä": b"1", "empty": None, "z": b"z" * 9999}
    )
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=form) as made:
        made.add(root, ".")
    assert contents(staged(tmp_path, target.getvalue(), "a.tar")) == contents(root)
    name = {tarfile.USTAR_FORMAT: "ustar", tarfile.GNU_FORMAT: "gnu", tarfile.PAX_FORMAT: "posix"}[form]
    made_by_gnu = subprocess.run(["tar", "c", f"--format={name}", "-C", root, "."], capture_output=True, check=True)
    assert contents(staged(tree(tmp_path / "two", {}), made_by_gnu.stdout, "b.tar")) == contents(root)


BAD_TARS: dict[str, tuple[bytes, str]] = {
    "leads up": (member(b"../x", b"x"), "'..' is not a name; paths lead down from the folder"),
    "leads up in the middle": (member(b"a/../../x", b"x"), "'..' is not a name"),
    "folder that leads up": (member(b"../x/", kind=b"5"), "'..' is not a name"),
    "absolute": (member(b"/etc/x", b"x"), "the path b'/etc/x' is absolute"),
    "absolute by prefix": (member(b"x", b"x", prefix=b"/etc"), "is absolute"),
    "leads up by record": (pax(path="../x") + member(b"a", b"x"), "'..' is not a name"),
    "leads up by GNU": (member(b"@", b"../x\0", kind=b"L") + member(b"a", b"x"), "'..' is not a name"),
    "symbolic link": (
        member(b"a", kind=b"2", link=b"/etc"),
        "b'a' is a symbolic link; make it with `tar --dereference",
    ),
    "hard link": (member(b"a", kind=b"1", link=b"b"), "b'a' is a hard link"),
    "long link": (member(b"@", b"x\0", kind=b"K") + member(b"a", kind=b"2"), "is a link"),
    "device": (member(b"a", kind=b"3"), "b'a' is a device; only files and folders are packed"),
    "pipe": (member(b"a", kind=b"6"), "is a named pipe"),
    "sparse": (member(b"a", kind=b"S"), "is a sparse file"),
    "sparse by record": (pax(GNU__sparse__major="1") + member(b"a"), "it has a sparse file"),
    "unknown": (member(b"a", kind=b"\x1b"), "of the unknown type b'\\x1b'"),
    "control character": (member(b"a\nb", b"x"), "is refused; names have no slash, backslash"),
    "backslash": (member(b"..\\x", b"x"), "is refused"),
    "NUL by record": (pax(path="a\0b") + member(b"a"), "is refused"),
    "no UTF-8": (member(b"a\xff", b"x"), "is not UTF-8"),
    "case": (member(b"A", b"x") + member(b"a", b"y"), "'a' and 'A' differ in nothing but case; rename"),
    "case of folders": (member(b"A/x", b"x") + member(b"a/y", b"y"), "'a' and 'A' differ in nothing but case"),
    "twice": (member(b"a", b"x") + member(b"a", b"y"), "'a' is in it twice"),
    "in a file": (member(b"a", b"x") + member(b"a/b", b"y"), "'a' is a file and a folder"),
    "folder then file": (member(b"a/b", b"x") + member(b"a", b"y"), "'a' is a file and a folder"),
    "no name": (block(b""), "is not a name"),
    "name of the root": (member(b".", b"x"), "it has a file without a name"),
    "sum": (block(b"a")[:148] + b"0" * 8 + bytes(356), "a header is damaged, or it is no tar archive"),
    "no tar": (b"#!/bin/sh\n" * 100, "a header is damaged, or it is no tar archive"),
    "size": (block(b"a", b"1_000000000\0"), "a header is damaged"),
    "negative size": (block(b"a", b"\xff" * 12), "a header is damaged"),
    "huge size": (block(b"a", b"\x80" + b"\xff" * 11) + bytes(4096), "it is cut short"),
    "body of a folder": (member(b"a/", b"x", kind=b"5"), "the folder b'a/' has a size"),
    "huge record": (block(b"p", 1 << 30, b"x"), "a header is too long; at most 64 KiB are read"),
    "damaged record": (member(b"p", b"30 path=x\n", kind=b"x") + member(b"a"), "a pax record is damaged"),
    "record without a length": (member(b"p", b"path=x\n", kind=b"x") + member(b"a"), "a pax record is damaged"),
    "record of length zero": (member(b"p", b"0 path=x\n", kind=b"x") + member(b"a"), "a pax record is damaged"),
    "size of a record": (pax(size="-1") + member(b"a"), "a pax record has the size b'-1'"),
    "global name": (pax(b"g", path="x") + member(b"a"), "a record gives all files one name or size"),
    "record before no file": (pax(path="x"), "a record stands before no file"),
}


@pytest.mark.parametrize(("data", "said"), BAD_TARS.values(), ids=BAD_TARS.keys())
def test_hostile_tars_are_refused(tmp_path: Path, data: bytes, said: str) -> None:
    assert said in refused(tmp_path, data + END, "a.tar")


@pytest.mark.parametrize("end", [b"", bytes(511), END + b"x", END + member(b"b", b"y")])
def test_a_tar_ends_where_it_says(tmp_path: Path, end: bytes) -> None:
    assert "cut short" in (said := refused(tmp_path, member(b"a", b"x") + end, "a.tar")) or "behind its end" in said


TAR = member(b"a", b"x") + END
COMPRESS: dict[str, Callable[[bytes], bytes]] = {"gz": gzip.compress, "xz": lzma.compress, "zst": zstd.compress}
SQUEEZED = {
    "gz": (gzip.compress(TAR), "a.tar.gz"),
    "xz": (lzma.compress(TAR), "a.tar.xz"),
    "zst": (zstd.compress(TAR), "a.tar.zst"),
}


@pytest.mark.parametrize("kind", SQUEEZED)
def test_compressed_tars_may_have_several_parts(tmp_path: Path, kind: str) -> None:
    whole, name = SQUEEZED[kind]
    parts = COMPRESS[kind]
    data = parts(TAR[:600]) + parts(b"") + parts(TAR[600:])
    assert contents(staged(tmp_path, data, name)) == {"a": b"x"}
    assert contents(staged(tree(tmp_path / "two", {}), whole + bytes(1024), name)) == {"a": b"x"}


@pytest.mark.parametrize("kind", SQUEEZED)
@pytest.mark.parametrize("how", ["empty", "cut", "changed", "other", "behind"])
def test_damaged_compression_is_refused(tmp_path: Path, kind: str, how: str) -> None:
    whole, name = SQUEEZED[kind]
    middle = len(whole) // 2
    data = {
        "empty": b"", "cut": whole[:-3], "changed": whole[:middle] + b"\xff\xff\xff" + whole[middle + 3 :],
        "other": b"what is this", "behind": whole + b"what is this",
    }[how]  # fmt: skip
    if (kind, how) == ("zst", "changed"):
        data = whole[:4] + b"\xff" * 4 + whole[8:]  # frames have no checksum; the tar has
    refused(tmp_path, data, name)


@pytest.mark.parametrize("kind", SQUEEZED)
def test_bombs_of_all_kinds_are_refused_while_they_are_counted(tmp_path: Path, kind: str) -> None:
    compress = COMPRESS[kind]
    limits = PackLimits(always=1 << 20, ratio=10, entries=10)
    zeros = bytes(1 << 22)
    for number, data in enumerate([member(b"a", zeros) + END, TAR + zeros, pax(path="b") * 5_000 + TAR]):
        assert "unpack to more than" in refused(
            tree(tmp_path / str(number), {}), compress(data), SQUEEZED[kind][1], limits
        )


def test_a_compressor_that_wants_much_memory_is_refused(tmp_path: Path) -> None:
    window = struct.pack("<IBB", 0xFD2FB528, 0, 20 << 3) + b"\1\0\0"  # 1 GiB
    assert "can't be decompressed" in refused(tree(tmp_path / "zst", {}), window, "a.tar.zst")


# --- zip


def test_what_tools_write_is_read(tmp_path: Path) -> None:
    root = tree(tmp_path / "one", {"a/b": b"x" * 999, "ä": b"1", "empty": None, "z/y/x": os.urandom(9999)}, ["a/b"])
    for name, method in [("stored.zip", zipfile.ZIP_STORED), ("deflated.zip", zipfile.ZIP_DEFLATED)]:
        target = io.BytesIO()
        with zipfile.ZipFile(target, "w", method) as made:
            for path in root.rglob("*"):
                made.write(path, path.relative_to(root))
            made.comment = b"a comment"
        out = staged(tree(tmp_path / name.removesuffix(".zip"), {}), target.getvalue(), name)
        assert contents(out) == contents(root)
        assert [bool((out / one).stat().st_mode & 0o100) for one in ("a/b", "ä")] == [True, False]


def test_a_zip_that_was_written_as_a_stream_is_read(tmp_path: Path) -> None:
    class Pipe(io.RawIOBase):
        def __init__(self) -> None:
            self.data = b""

        def writable(self) -> bool:
            return True

        def write(self, data: object) -> int:
            self.data += bytes(data)  # type: ignore[call-overload]
            return len(bytes(data))  # type: ignore[call-overload]

    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("a/b", b"x" * 999)
        made.writestr("c", b"")
    assert contents(staged(tmp_path, pipe.data, "a.zip")) == {"a": None, "a/b": b"x" * 999, "c": b""}


def good() -> Zip:
    return Zip().add(b"first", b"1")


RAW = zlib.compress(b"x" * 99, wbits=-15)
SIGNED = b"PK\7\x08" + bytes(12)
BAD_ZIPS: dict[str, tuple[bytes, str]] = {
    "leads up": (good().add(b"../x", b"x").bytes(), "'..' is not a name"),
    "absolute": (good().add(b"/x", b"x").bytes(), "is absolute"),
    "backslash": (good().add(b"..\\x", b"x").bytes(), "is refused"),
    "drive": (good().add(b"C:\\x", b"x").bytes(), "is refused"),
    "line feed": (good().add(b"a\nb", b"x").bytes(), "is refused"),
    "NUL": (good().add(b"a\0.py", b"x").bytes(), "is refused"),
    "no UTF-8": (good().add(b"\x84", b"x").bytes(), "is not UTF-8"),
    "link": (good().add(b"a", b"/etc", mode=0o120777).bytes(), "b'a' is a link; only files and folders"),
    "device": (good().add(b"a", b"", mode=0o020666).bytes(), "is neither a file nor a folder"),
    "pipe": (good().add(b"a", b"", mode=0o010666).bytes(), "is neither a file nor a folder"),
    "folder as a file": (good().add(b"a", b"", mode=0o040755).bytes(), "is neither a file nor a folder"),
    "folder with a body": (good().add(b"a/", b"x", mode=0o040755).bytes(), "the folder b'a/' has a size"),
    "twice": (good().add(b"first", b"2").bytes(), "'first' is in it twice"),
    "case": (good().add(b"FIRST", b"2").bytes(), "differ in nothing but case"),
    "in a file": (good().add(b"first/x", b"2").bytes(), "'first' is a file and a folder"),
    "encrypted": (good().add(b"a", b"x", flags=1).bytes(), "is encrypted or patched"),
    "masked": (good().add(b"a", b"x", flags=1 << 13).bytes(), "is encrypted or patched"),
    "bzip2": (good().add(b"a", b"x", method=12).bytes(), "is compressed by method 12"),
    "two names": (good().add(b"a", b"x", local=b"../x").bytes(), "b'a' is described in two ways"),
    "two sizes": (good().add(b"a", b"x", local_size=7).bytes(), "b'a' is described in two ways"),
    "too small a size": (good().add(b"a", b"xx", size=1).bytes(), "b'a' is damaged"),
    "too large a size": (good().add(b"a", b"xx", size=3).bytes(), "b'a' is damaged"),
    "wrong sum": (good().add(b"a", b"xx", crc=1).bytes(), "b'a' is damaged"),
    "wrong sum of stored": (good().add(b"a", b"xx", crc=1, method=0).bytes(), "b'a' is damaged"),
    "no deflate": (good().add(b"a", b"xx", data=b"\xff\xff").bytes(), "can't be decompressed"),
    "cut deflate": (good().add(b"a", b"x" * 99, data=RAW[:-3]).bytes(), "can't be decompressed"),
    "behind deflate": (good().add(b"a", b"x" * 99, data=RAW + b"y").bytes(), "can't be decompressed"),
    "overlapping": (good().add(b"b", b"1", local=b"first", offset=0).bytes(), "its files overlap"),
    "same file twice": (good().add(b"first", b"1", offset=0).bytes(), "its files overlap"),
    "hidden between": (good().add(b"a", b"x", behind=b"hidden").add(b"b", b"x").bytes(), "something stands between"),
    "hidden behind": (good().add(b"a", b"x", behind=b"hidden").bytes(), "something stands between"),
    "much behind a stream": (good().add(b"a", b"x", flags=8, behind=SIGNED * 2).bytes(), "something stands between"),
    "before": (b"#!/bin/sh\n" + good().bytes(), "its parts don't fit together, or something stands before"),
    "before, with right places": (good().bytes(start=10), "its parts don't fit together"),
    "behind": (good().bytes() + b"x", "its parts don't fit together"),
    "another comment": (good().bytes(comment=b"long") + b"er", "its parts don't fit together"),
    "more entries": (good().bytes(count=2), "its directory is damaged"),
    "fewer entries": (good().add(b"a", b"x").bytes(count=1), "its directory is damaged"),
    "entries beyond counting": (good().bytes(count=60_000), "its directory is damaged"),
    "zip64": (good().bytes(count=0xFFFF), "it is a zip64 archive"),
    "nothing": (b"", "it is no zip archive"),
    "no zip": (b"PK but no zip" * 10, "it is no zip archive"),
    "cut": (good().bytes()[:-1], "it is no zip archive, or it is cut short"),
    "directory elsewhere": (good().add(b"a", b"1", offset=3).bytes(), "its files overlap"),
    "directory beyond": (good().add(b"a", b"1", offset=1 << 30).bytes(), "its files overlap"),
    "only a directory": (Zip().add(b"a", b"1", offset=0).bytes(), "its parts don't fit"),
}  # fmt: skip


@pytest.mark.parametrize(("data", "said"), BAD_ZIPS.values(), ids=BAD_ZIPS.keys())
def test_hostile_zips_are_refused(tmp_path: Path, data: bytes, said: str) -> None:
    message = refused(tmp_path, data, "a.zip")
    assert said in message or (said == "its parts don't fit" and "is not where its directory says" in message)


def test_a_zip_of_one_file_seen_many_times_holds_nothing(tmp_path: Path) -> None:
    """As a bomb of overlapping files does: 1 MB on the disk, petabytes in the directory."""
    made = Zip().add(b"0", bytes(1 << 20))
    for number in range(1, 1000):
        made.add(str(number).encode(), bytes(1 << 10), local=b"0", offset=0)
    assert "its files overlap" in refused(tmp_path, made.bytes(), "a.zip")


def test_a_zip_bomb_is_refused_while_it_is_counted(tmp_path: Path) -> None:
    zeros = zlib.compressobj(9, wbits=-15)
    data = zeros.compress(bytes(1 << 24)) + zeros.flush()
    made = Zip().add(b"a", b"", data=data, size=1 << 24, crc=zlib.crc32(bytes(1 << 24)))
    assert "unpack to more than" in refused(tmp_path, made.bytes(), "a.zip", PackLimits(always=1 << 20, ratio=10))
    made = Zip().add(b"a", b"", data=data, size=10)
    assert "is damaged" in refused(tree(tmp_path / "two", {}), made.bytes(), "a.zip", PackLimits(always=1 << 20))


@pytest.mark.parametrize("name", ["a.zip", "a.tar"])
def test_the_count_of_files_is_bounded(tmp_path: Path, name: str) -> None:
    made, tar = Zip(), b""
    for number in range(30):
        made.add(b"%d" % number, b"")
        tar += member(b"%d" % number)
    data = made.bytes() if name == "a.zip" else tar + END
    assert "more than 20 files and folders" in refused(tmp_path, data, name, PackLimits(entries=20))


GOOD_TAR = pax(path="b/ä") + member(b"x", b"12") + member(b"a/", kind=b"5") + member(b"a/c", b"3" * 600) + END
GOOD_ZIP = Zip().add(b"a/", mode=0o040755).add(b"a/b", b"12" * 90).add(b"c", b"3", method=0).bytes()


@settings(max_examples=150, deadline=None)
@given(st.data(), st.sampled_from([(GOOD_TAR, "a.tar"), (GOOD_ZIP, "a.zip"), (gzip.compress(GOOD_TAR), "a.tgz")]))
def test_changed_archives_are_read_within_their_folder_or_refused(
    data: st.DataObject, given: tuple[bytes, str]
) -> None:
    archive, name = bytearray(given[0]), given[1]
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(archive) - 1))
        archive[at : at + data.draw(st.integers(0, 3))] = data.draw(
            st.sampled_from([b"", b"\0", b"/", b"../", b"2", b"\xff"])
        )
        archive = archive or bytearray(b"x")
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        with contextlib.suppress(InvalidProgram):
            staged(root, bytes(archive), name, PackLimits(size=5000, entries=10))
        assert {path.name for path in root.iterdir()} <= {name, "out"}
        inner = contents(root / "out") if (root / "out").exists() else {}
        assert sum(len(body) for body in inner.values() if body) <= 5000
        assert len(inner) <= 10
