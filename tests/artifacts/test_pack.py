"""The same files become the same bytes, and what can't be packed is refused with its path."""

from __future__ import annotations

import io
import os
import shutil
import socket
import subprocess
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from rota.artifacts.compression import zstd
from rota.artifacts.counting import LIMITS, PackLimits
from rota.artifacts.faults import InvalidProgram
from rota.artifacts.pack import Packing, content_digest, pack
from rota.artifacts.unpack import unpack
from tests.artifacts.made import block, contents, descriptors, digest, packed, tree

FILES = {
    "run.sh": b"#!/bin/sh\n",
    "lib/a.py": b"a = 1\n",
    "lib/deep/er.txt": b"",
    "out": None,
    "ä/ß €.txt": b"x" * 5000,
}


def refused(source: Path, limits: PackLimits = LIMITS) -> str:
    with pytest.raises(InvalidProgram) as caught:
        pack(source, io.BytesIO(), limits)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_same_files_are_the_same_bytes(tmp_path: Path) -> None:
    first = tree(tmp_path / "one", FILES, ["run.sh"])
    second = tree(tmp_path / "two", dict(reversed(FILES.items())), ["run.sh"])
    for path in second.rglob("*"):
        os.utime(path, (1, 1))
        path.chmod(0o700 if path.is_dir() or path.name == "run.sh" else 0o600)
    assert packed(first) == packed(second)
    data, said = packed(first)
    assert (said.digest, said.size, said.entries) == (digest(data), len(data), 8)
    assert said.unpacked == sum(len(body) for body in FILES.values() if body)


@pytest.mark.parametrize("change", ["content", "name", "mode", "folder"])
def test_other_files_are_other_bytes(tmp_path: Path, change: str) -> None:
    root = tree(tmp_path / "one", FILES)
    before = packed(root)[1]
    match change:
        case "content":
            (root / "run.sh").write_bytes(b"#!/bin/bash\n")
        case "name":
            (root / "run.sh").rename(root / "go.sh")
        case "mode":
            (root / "run.sh").chmod(0o755)
        case "folder":
            (root / "out").rmdir()
    after = packed(root)[1]
    assert (after.digest != before.digest, after.content != before.content) == (True, True)


def test_every_tar_can_list_it(tmp_path: Path) -> None:
    root = tree(tmp_path / "one", FILES | {"long/" + "n" * 200: b"long"}, ["run.sh"])
    tar = zstd.decompress(packed(root)[0])
    listing = subprocess.run(["tar", "tvf", "-", "--numeric-owner"], input=tar, capture_output=True, check=True)
    lines = listing.stdout.decode().splitlines()
    assert not listing.stderr
    assert lines[0].startswith("drwxr-xr-x 0/0")
    assert next(line for line in lines if line.endswith("run.sh")).startswith("-rwxr-xr-x 0/0")
    assert any(line.endswith("n" * 200) for line in lines)


def test_a_single_file_is_packed_under_its_name(tmp_path: Path) -> None:
    root = tree(tmp_path / "one", {"report.py": b"print()\n"})
    assert packed(root / "report.py") == packed(root)


@pytest.mark.parametrize("suffix", [".zip", ".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.zst"])
def test_an_archive_is_packed_as_what_is_in_it(tmp_path: Path, suffix: str) -> None:
    root, archive = tree(tmp_path / "one", FILES, ["run.sh"]), tmp_path / f"archive{suffix}"
    if suffix == ".zip":
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as made:
            for path in sorted(root.rglob("*"), reverse=True):
                made.write(path, path.relative_to(root))
    elif suffix == ".tar.zst":
        archive.write_bytes(packed(root)[0])
    else:
        form = {".tar": "cf", ".tar.xz": "cJf"}.get(suffix, "czf")
        subprocess.run(["tar", form, archive, "-C", root, "."], check=True)
    assert packed(archive) == packed(root)


async def test_bytes_come_as_a_stream_too(tmp_path: Path) -> None:
    root = tree(tmp_path / "one", {"a": os.urandom(1 << 20), "b": b"b"})
    stream = Packing(root)
    pieces = [piece async for piece in stream]
    assert (b"".join(pieces), stream.packed) == packed(root)
    assert len(pieces) > 2


async def test_a_stream_that_is_left_closes_its_files(tmp_path: Path) -> None:
    root, before = tree(tmp_path / "one", {"a": os.urandom(1 << 20)}), descriptors()
    stream = Packing(root).__aiter__()
    await anext(stream)
    await stream.aclose()  # type: ignore[attr-defined]
    assert descriptors() <= before


def test_what_tools_make_is_left_out(tmp_path: Path) -> None:
    plain = tree(tmp_path / "one", {"a.py": b"", "pkg/b.py": b""})
    full = tree(
        tmp_path / "two", {"a.py": b"", "pkg/b.py": b"", ".git/HEAD": b"", "pkg/__pycache__/b.pyc": b"", ".venv/x": b""}
    )
    assert packed(full) == packed(plain)


def test_rotaignore_leaves_out_more(tmp_path: Path) -> None:
    plain = tree(tmp_path / "one", {"a.py": b"", "data/keep.txt": b"", "src/data/x.csv.py": b""})
    extra = {
        "b.csv": b"",
        "data/c.csv": b"",
        "build/o": b"",
        "src/build": b"",
        "src/data/raw/r": b"",
        ".rotaignore": b"",
    }
    full = tree(tmp_path / "two", {"a.py": b"", "data/keep.txt": b"", "src/data/x.csv.py": b""} | extra)
    (full / ".rotaignore").write_text("# data\n*.csv\nbuild/\n\n**/raw\nsrc/build\n")
    assert packed(full) == packed(plain)


def test_a_link_to_a_file_inside_is_a_copy_of_it(tmp_path: Path) -> None:
    root = tree(tmp_path / "one", {"lib/a": b"a", "b/deep/x": b""})
    (root / "b" / "deep" / "link").symlink_to("../../lib/a")
    assert packed(root) == packed(tree(tmp_path / "two", {"lib/a": b"a", "b/deep/x": b"", "b/deep/link": b"a"}))


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("/etc/passwd", "'sub/link' is a link that leads out of the folder; copy what it means"),
        ("../../outside", "leads out of the folder"),
        ("../../one-more/x", "leads out of the folder"),
        ("loop", "'sub/link' is a link to no file"),
        ("gone", "'sub/link' is a link to nothing; remove it"),
        ("../folder", "'sub/link' is a link to no file"),
        (".", "'sub/link' is a link to no file"),
        ("..", "'sub/link' is a link to no file"),
    ],
)
def test_other_links_are_refused(tmp_path: Path, target: str, said: str) -> None:
    root = tree(tmp_path / "one", {"sub/a": b"", "folder": None})
    tree(tmp_path, {"outside": b"secret", "one-more/x": b"secret"})
    (root / "sub" / "loop").symlink_to("link")
    (root / "sub" / "link").symlink_to(target)
    assert said in refused(root)


def test_a_link_through_a_link_that_leads_out_is_refused(tmp_path: Path) -> None:
    tree(tmp_path, {"outside/x": b"secret"})
    root = tree(tmp_path / "one", {"a": b""})
    (root / "way").symlink_to("../outside")
    (root / "b").symlink_to("way/x")
    assert "'b' is a link that leads out of the folder" in refused(root)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tree(tmp_path / "one", {}) / "pipe")
    assert "'pipe' is a named pipe; only files and folders are packed" in refused(tmp_path / "one")
    assert "neither a file nor a folder" in refused(tmp_path / "one" / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        place = os.open(tree(tmp_path / "two", {}), os.O_RDONLY)
        listener.bind(f"/proc/self/fd/{place}/s")  # a path of a socket has at most 107 bytes
        os.close(place)
    assert "'s' is a socket" in refused(tmp_path / "two")
    with pytest.raises(InvalidProgram, match="can't be read"):
        pack(tmp_path / "gone", io.BytesIO())


@pytest.mark.parametrize("name", [b"a\xff", b"line\nfeed", b"back\\slash", b"\x1b[0m", "a\u2028b".encode(), b"\x7f"])
def test_names_that_mean_trouble_are_refused(tmp_path: Path, name: bytes) -> None:
    root = tree(tmp_path / "one", {"sub": None})
    (root / "sub" / os.fsdecode(name)).touch()
    assert "rename it" in (said := refused(root)) or "names have no slash" in said
    assert "in 'sub'" in said
    assert said.isprintable()


@pytest.mark.parametrize(("one", "other"), [("Read.me", "read.ME"), ("stra\u00dfe", "STRASSE"), ("\u00e9", "e\u0301")])
def test_names_that_differ_in_case_alone_are_refused(tmp_path: Path, one: str, other: str) -> None:
    root = tree(tmp_path / "one", {one: b"", other: b""})
    assert "differ in nothing but case; rename one of them" in refused(root)


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (PackLimits(size=9), "more than 9 bytes; remove files, or name them in .rotaignore"),
        (PackLimits(entries=3), "more than 3 files and folders"),
        (PackLimits(depth=2), "folders are nested 3 deep; at most 2 are allowed"),
        (PackLimits(path=4), "a path has more than 4 bytes"),
    ],
)
def test_too_much_is_refused(tmp_path: Path, limits: PackLimits, said: str) -> None:
    assert said in refused(tree(tmp_path / "one", {"a/b/c": b"12345", "d": b"12345"}), limits)


def test_what_a_node_would_refuse_for_its_ratio_is_not_packed(tmp_path: Path) -> None:
    root = tree(tmp_path / "one", {"zeros": bytes(1 << 20)})
    assert "bytes unpack to more than 65,536" in refused(root, PackLimits(always=1 << 16))
    pack(root, io.BytesIO(), PackLimits(always=1 << 20))


def test_a_file_of_terabytes_is_refused_before_it_is_read(tmp_path: Path) -> None:
    root = tree(tmp_path / "one", {"sparse": b""})
    os.truncate(root / "sparse", 1 << 40)
    assert "more than 2,147,483,648 bytes" in refused(root)
    assert "has 1,099,511,627,776 bytes; 8 GiB are the most" in refused(root, PackLimits(size=1 << 50))


@pytest.mark.parametrize("size", [0, 1 << 20])
def test_a_file_that_changes_meanwhile_is_refused(tmp_path: Path, size: int) -> None:
    root = tree(tmp_path / "one", {"a": os.urandom(1 << 19), "b": b"1234"})
    pieces = iter(Packing(root))
    next(pieces)
    with (root / "a").open("r+b") as file:
        file.truncate(size)
    with pytest.raises(InvalidProgram, match="'a' changed while it was packed"):
        list(pieces)


def test_errors_leave_no_open_files_and_no_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tree(tmp_path / "temporary", {})))
    before = descriptors()
    root = tree(tmp_path / "one", {"a/b/c/Clash": b"", "a/b/c/clash": b""})
    refused(root)
    (tmp_path / "bad.tar").write_bytes(block(b"a/b/c", 5) + bytes(512) + block(b"../x"))
    refused(tmp_path / "bad.tar")
    assert descriptors() <= before
    assert contents(tmp_path / "temporary") == {}


def test_the_digest_of_the_contents_is_that_of_an_unpacked_program(tmp_path: Path) -> None:
    data, said = packed(tree(tmp_path / "one", FILES, ["run.sh"]))
    assert unpack([data], tmp_path / "out", said.digest, said.size).content == said.content
    assert content_digest(tmp_path / "out") == said.content
    # Nothing is ignored there: whatever is on the disk counts.
    (tmp_path / "out").chmod(0o755)
    shutil.copytree(tmp_path / "out" / "lib", tmp_path / "out" / "__pycache__")
    assert content_digest(tmp_path / "out") != said.content


@pytest.mark.slow
def test_a_large_tree_takes_little_memory(tmp_path: Path) -> None:
    root = tree(tmp_path / "one", {f"{number % 100}/{number}": os.urandom(20_000) for number in range(10_000)})
    (tmp_path / "packed").touch()
    tracemalloc.start()
    with (tmp_path / "packed").open("wb") as target:
        said = pack(root, target)
    with (tmp_path / "packed").open("rb") as source:
        unpack(iter(lambda: source.read(1 << 16), b""), tmp_path / "out", said.digest, said.size)
    assert said.unpacked == 200_000_000
    assert tracemalloc.get_traced_memory()[1] < 16 << 20
    tracemalloc.stop()
