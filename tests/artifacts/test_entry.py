"""What of a program runs, and one clear line where nothing can."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from rota.artifacts import executables
from rota.artifacts.entry import find_entry
from rota.artifacts.executables import Machine, binary, shebang, this_machine
from rota.artifacts.faults import InvalidProgram
from tests.artifacts.made import tree

BLOCK = b'# /// script\n# dependencies = ["httpx"]\n# ///\n'


def argv(folder: Path, entry: str | None = None, interpreter: str | None = None) -> list[str]:
    """The arguments, with paths as they are in the folder."""
    return [word.replace(str(folder), "@") for word in find_entry(folder, entry, interpreter).argv]


def refused(folder: Path, entry: str | None = None, interpreter: str | None = None, path: str | None = None) -> str:
    with pytest.raises(InvalidProgram) as caught:
        find_entry(folder, entry, interpreter, path)
    assert str(caught.value).isprintable()
    return str(caught.value).replace(str(folder), "@")


SINGLE = [
    ("a.py", b"print()", False, ["python3", "@/a.py"]),
    ("a.PY", b"print()", True, ["python3", "@/a.PY"]),
    ("a.sh", b"echo", False, ["sh", "@/a.sh"]),
    ("a", b"#!/bin/sh\n", True, ["@/a"]),
    ("a.py", b"#!/bin/sh\n", True, ["@/a.py"]),
    ("a", b"#! /bin/sh -e\n", False, ["/bin/sh", "-e", "@/a"]),
    ("a", b"#!/usr/bin/env -S sh -e\n", False, ["/usr/bin/env", "-S sh -e", "@/a"]),
    ("a", b"#!/usr/bin/env python3\n", True, ["@/a"]),
    ("a", b"#!/usr/bin/env -S uv run --script\n", True, ["python3", "@/a"]),
]


@pytest.mark.parametrize(("name", "content", "executable", "expected"), SINGLE)
def test_a_single_file_is_the_entry(
    tmp_path: Path, name: str, content: bytes, executable: bool, expected: list[str]
) -> None:
    assert argv(tree(tmp_path, {name: content}, [name] if executable else [])) == expected


FILES = {"__main__.py": b"", "tool.py": b"", "sub/__main__.py": b"", "sub/run": b"#!/bin/sh\n", "data.csv": b"1,2"}


@pytest.mark.parametrize(
    ("entry", "interpreter", "expected"),
    [
        (None, None, ["python3", "@"]),
        ("tool.py", None, ["python3", "@/tool.py"]),
        ("sub", None, ["python3", "@/sub"]),
        ("sub/", None, ["python3", "@/sub"]),
        ("sub/run", None, ["/bin/sh", "@/sub/run"]),
        ("data.csv", "cat", ["cat", "@/data.csv"]),
        ("tool.py", "/bin/sh -e 'two words'", ["/bin/sh", "-e", "two words", "@/tool.py"]),
        (None, "sh", ["sh", "@"]),
    ],
)
def test_a_folder_has_an_entry(tmp_path: Path, entry: str | None, interpreter: str | None, expected: list[str]) -> None:
    assert argv(tree(tmp_path, FILES), entry, interpreter) == expected


NOTHING_RUNS = [
    ({}, None, "program: it is not clear what runs: it has no files, and no __main__.py; name a file with --entry"),
    ({"a.py": b"", "b/c": b""}, None, "it has 'a.py', 'b/', and no __main__.py; name a file with --entry"),
    ({str(one): b"" for one in range(20)}, None, "'15' and 12 more, and no __main__.py"),
    ({"a.py": b"", "b/c": b""}, "d.py", "--entry 'd.py': the program has no such file; it has 'a.py', 'b/'"),
    ({"a.py": b"", "b/c": b""}, "b", "program 'b': it has no __main__.py; name a file with --entry"),
    ({"a.py": b""}, "../a.py", "'..' is not a name"),
    ({"a.py": b""}, "/bin/sh", "is absolute"),
    ({"a.py": b""}, "", "'' is not a name"),
    (
        {"a.csv": b"1,2"},
        None,
        "it is not clear what runs it; give --interpreter, begin it with a line like `#!/bin/sh`, or",
    ),
    ({"a": b""}, None, "it is not clear what runs it"),
    ({"a": b"#!/bin/sh\r\n"}, None, "its first line ends with a carriage return; save it with Unix line ends"),
    ({"a": b"#!/usr/bin/env python3\r\n"}, None, "its first line ends with a carriage return"),
    ({"a": b"#!\n"}, None, "its first line names no interpreter"),
    (
        {"a": b"#!/no/such\n"},
        None,
        "its interpreter '/no/such' is missing: there is no such file; install it on the node",
    ),
    ({"a": b"#!/usr/bin/env no-such\n"}, None, "its interpreter 'no-such' is missing: it is not on the PATH"),
    ({"a": b"MZ\x90"}, None, "it is a program for Windows; build it for the system of the node"),
    ({"a": b"\xcf\xfa\xed\xfe"}, None, "it is a program for macOS"),
]


@pytest.mark.parametrize(("files", "entry", "said"), NOTHING_RUNS)
def test_what_can_not_run_is_told(tmp_path: Path, files: dict[str, bytes | None], entry: str | None, said: str) -> None:
    assert said in refused(tree(tmp_path, files), entry)


@pytest.mark.parametrize(
    ("interpreter", "said"),
    [
        ("no-such -x", "its interpreter 'no-such' is missing"),
        ("", "--interpreter: it is empty"),
        ("'", "can't be read (No closing quotation)"),
    ],
)
def test_an_interpreter_must_be_there(tmp_path: Path, interpreter: str, said: str) -> None:
    assert said in refused(tree(tmp_path, {"a": b""}), None, interpreter)


def test_the_path_of_the_job_counts(tmp_path: Path) -> None:
    folder = tree(tmp_path / "program", {"a.py": b""})
    assert "its interpreter 'python3' is missing: it is not on the PATH" in refused(folder, path=str(tmp_path))
    tree(tmp_path, {"python3": b"#!/bin/sh\n"}, ["python3"])
    find_entry(folder, path=str(tmp_path))


def elf(machine: int, bits: int = 64, order: str = "<", loader: bytes = b"") -> bytes:
    """The beginning of a binary for any machine."""
    wide = bits == 64
    size = 64 if wide else 52
    head = b"\x7fELF" + bytes([2 if wide else 1, 1 if order == "<" else 2, 1]) + bytes(9)
    head += struct.pack(order + "HHI", 2, machine, 1)
    head += struct.pack(order + ("QQQ" if wide else "III"), 0, size if loader else 0, 0)
    head += struct.pack(order + "IHHHHHH", 0, size, 56 if wide else 32, 1 if loader else 0, 0, 0, 0)
    at = size + (56 if wide else 32)
    if loader and wide:
        head += struct.pack(order + "IIQQQQQQ", 3, 4, at, 0, 0, len(loader), 0, 1)
    elif loader:
        head += struct.pack(order + "IIIIIIII", 3, at, 0, 0, len(loader), 0, 4, 1)
    return (head + loader).ljust(200, b"\0")


def test_a_binary_for_this_machine_runs_itself(tmp_path: Path) -> None:
    own = shutil.which("true")
    assert own is not None
    folder = tree(tmp_path, {})
    shutil.copy(os.path.realpath(own), folder / "tool")
    assert argv(folder) == ["@/tool"]
    assert subprocess.run(find_entry(folder).argv, check=True).returncode == 0
    (folder / "tool").chmod(0o644)
    assert "it is a binary that is not executable; `chmod +x` it before it is packed" in refused(folder)


@pytest.mark.parametrize("here", [Machine(62, 64, False), Machine(183, 64, False), None])
def test_a_binary_for_another_machine_is_refused(
    tmp_path: Path, here: Machine | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executables, "this_machine", lambda: here)
    said = refused(tree(tmp_path, {"tool": elf(243)}, ["tool"]))
    assert f"it is built for RISC-V, this node is {here}; build it for this machine" in said
    assert "it is built for machine 9999" in refused(tree(tmp_path, {"tool": elf(9999, order=">")}, ["tool"]))
    ran = here == Machine(62, 64, False)  # which runs x86 too
    tree(tmp_path, {"tool": elf(3, 32)}, ["tool"])
    assert (argv(tmp_path) == ["@/tool"]) if ran else ("it is built for x86, " in refused(tmp_path))


@pytest.mark.parametrize(("machine", "bits", "order"), [(62, 64, "<"), (3, 32, "<"), (22, 64, ">")])
def test_a_binary_without_its_loader_is_refused(
    tmp_path: Path, machine: int, bits: int, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executables, "this_machine", lambda: Machine(machine, bits, order == ">"))
    tree(tmp_path, {"tool": elf(machine, bits, order, b"/lib/no-such-loader.so\0")}, ["tool"])
    assert "its loader /lib/no-such-loader.so is not on this node; build it against the C library" in refused(tmp_path)
    tree(tmp_path, {"tool": elf(machine, bits, order, b"/bin/sh\0")}, ["tool"])
    assert argv(tmp_path) == ["@/tool"]


def test_damaged_binaries_do_no_harm() -> None:
    whole = elf(62, loader=b"/bin/sh\0")
    for at in range(len(whole)):
        binary(whole[:at])
        for value in (0, 1, 0x7F, 0xFF):
            binary(whole[:at] + bytes([value]) + whole[at + 1 :])
    this = this_machine()
    assert this is None or this.bits in (32, 64)


def test_first_lines_are_read_as_kernels_do() -> None:
    lines = {b"": None, b"print()": None, b"#!": [], b"#!\t/bin/sh  -e x \nb": ["/bin/sh", "-e x"]}
    assert {line: shebang(line) for line in lines} == lines


PYTHONS = [
    ({"a.py": BLOCK}, None),
    ({"a.py": b"#!/usr/bin/env python3\n" + BLOCK}, None),
    ({"a": b"#!/usr/bin/env -S uv run --script\n" + BLOCK}, None),
    ({"a": b"#!/usr/bin/env -S uv run --script\n" + BLOCK}, None),
    ({"__main__.py": BLOCK, "b": b""}, None),
    ({"sub/__main__.py": BLOCK, "b": b""}, "sub"),
]


@pytest.mark.parametrize(("files", "entry"), PYTHONS)
def test_a_python_script_says_what_it_needs(tmp_path: Path, files: dict[str, bytes | None], entry: str | None) -> None:
    found = find_entry(tree(tmp_path, files), entry)
    assert found.needs is not None
    assert found.needs.requirements == ("httpx",)
    assert found.with_python(Path("/env/python")).argv == ("/env/python", found.target)


def test_other_programs_need_nothing(tmp_path: Path) -> None:
    folder = tree(tmp_path, {"a.sh": BLOCK, "b": b"#!/bin/sh\n" + BLOCK, "c.py": BLOCK, "d.py": b"import httpx"})
    assert [find_entry(folder, name).needs for name in ("a.sh", "b", "d.py")] == [None] * 3
    assert find_entry(folder, "c.py", "cat").needs is None
