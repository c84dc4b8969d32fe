"""What of a program is run, and how.

| the entry is | it runs |
|---|---|
| given an interpreter | with that |
| an executable file for this machine, or a script with `#!` | itself |
| `.py` | with Python |
| `.sh` | with `sh` |
| a folder with `__main__.py` | with Python |

Whatever can't run is refused here, with a line that says why. The kernel would say `No such file or directory` of a
script whose interpreter is missing.
"""

from __future__ import annotations

import os
import shlex
import shutil
import stat
from pathlib import Path

import msgspec

from rota.artifacts import executables
from rota.artifacts.faults import InvalidProgram
from rota.artifacts.names import checked_path
from rota.artifacts.script_metadata import ScriptMetadata, read_metadata
from rota.errors import shown

MAIN = "__main__.py"
PYTHON = "python3"
_SUFFIXES = {".py": PYTHON, ".sh": "sh"}
_SHOWN = 8  # files in a message


class Entry(msgspec.Struct, frozen=True):
    argv: tuple[str, ...]
    # What the script asks of its Python, which an environment gives it. None: no Python runs it, or it asks nothing.
    needs: ScriptMetadata | None = None
    target: str = ""  # the file or folder that is run

    def with_python(self, python: Path) -> Entry:
        """The entry as the Python of its environment runs it."""
        return msgspec.structs.replace(self, argv=(str(python), self.target))


def find_entry(
    folder: Path, entry: str | None = None, interpreter: str | None = None, path: str | None = None
) -> Entry:
    """`entry` is a path in the folder of the program, `path` the PATH that its job will have."""
    target = _target(folder, entry)
    if interpreter is not None:
        return _with(interpreter, target, path)
    if target.is_dir():
        main = target / MAIN
        if not main.is_file():
            raise InvalidProgram(_what(target), f"it has no {MAIN}", "name a file with --entry")
        return _by_python((_found(PYTHON, target, path), str(target)), main, target)
    return _file(target, path)


def _target(folder: Path, entry: str | None) -> Path:
    if entry is not None:
        target = folder.joinpath(*checked_path(os.fsencode(entry.removesuffix("/")), f"--entry {shown(entry)}"))
        if target.is_file() or target.is_dir():
            return target
        raise InvalidProgram(f"--entry {shown(entry)}", "the program has no such file", f"it has {_listed(folder)}")
    inside = sorted(folder.iterdir())
    if len(inside) == 1 and inside[0].is_file():
        return inside[0]
    if (folder / MAIN).is_file():
        return folder
    problem = f"it is not clear what runs: it has {_listed(folder)}, and no {MAIN}"
    raise InvalidProgram("program", problem, "name a file with --entry")


def _listed(folder: Path) -> str:
    names = sorted(shown(path.name + "/" * path.is_dir()) for path in folder.iterdir())
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return (", ".join(names[:_SHOWN]) or "no files") + more


def _what(target: Path) -> str:
    return f"program {shown(target.name)}"


def _with(interpreter: str, target: Path, path: str | None) -> Entry:
    try:
        words = shlex.split(interpreter)
    except ValueError as error:
        raise InvalidProgram(
            "--interpreter", f"{shown(interpreter)} can't be read ({error})", "close its quotes"
        ) from None
    if not words:
        raise InvalidProgram("--interpreter", "it is empty", "such as python3, or `node --no-warnings`")
    return Entry((_found(words[0], target, path), *words[1:], str(target)), target=str(target))


def _file(target: Path, path: str | None) -> Entry:
    with target.open("rb") as file:
        head = file.read(executables.HEAD)
    executable = bool(target.stat().st_mode & stat.S_IXUSR)
    _check_binary(head, target, executable)
    words = executables.shebang(head)
    if executables.binary(head) is not None:
        return Entry((str(target),), target=str(target))
    if words is not None:
        return _script(words, target, executable, path)
    if (program := _SUFFIXES.get(target.suffix.lower())) is not None:
        argv = (_found(program, target, path), str(target))
        return _by_python(argv, target, target) if program == PYTHON else Entry(argv, target=str(target))
    kinds = ", ".join(_SUFFIXES)
    right = f"give --interpreter, begin it with a line like `#!/bin/sh`, or name it {kinds}"
    raise InvalidProgram(_what(target), "it is not clear what runs it", right)


def _check_binary(head: bytes, target: Path, executable: bool) -> None:
    what, here = _what(target), executables.this_machine()
    if (system := executables.foreign_system(head)) is not None:
        raise InvalidProgram(what, f"it is a program for {system}", "build it for the system of the node")
    if (found := executables.binary(head)) is None:
        return
    if not executables.runs_here(found.machine):
        raise InvalidProgram(what, f"it is built for {found.machine}, this node is {here}", "build it for this machine")
    if found.loader is not None and not Path(found.loader).exists():
        right = "build it against the C library of the node, or statically"
        raise InvalidProgram(what, f"its loader {found.loader} is not on this node", right)
    if not executable:
        raise InvalidProgram(what, "it is a binary that is not executable", "`chmod +x` it before it is packed")


def _script(words: list[str], target: Path, executable: bool, path: str | None) -> Entry:
    if words and words[-1].endswith("\r"):
        raise InvalidProgram(_what(target), "its first line ends with a carriage return", "save it with Unix line ends")
    if not words:
        raise InvalidProgram(
            _what(target), "its first line names no interpreter", "begin it with a line like `#!/bin/sh`"
        )
    called = _called(words)
    # `uv run --script` makes an environment at each start, by the block that we read ourselves.
    if called == "uv":
        return _by_python((_found(PYTHON, target, path), str(target)), target, target)
    _found(words[0], target, path)
    if Path(words[0]).name == "env" and called:
        _found(called, target, path)
    # The modes of a zip are often lost: the interpreter is called as the kernel would.
    argv = (str(target),) if executable else (*words, str(target))
    return (
        _by_python(argv, target, target) if Path(called).name.startswith("python") else Entry(argv, target=str(target))
    )


def _called(words: list[str]) -> str:
    """The program that runs a script: what `env` is told to start, if it is env."""
    if Path(words[0]).name != "env":
        return Path(words[0]).name if words[0].endswith("/uv") else words[0]
    named = [
        word for word in (words[1].split() if len(words) > 1 else []) if not word.startswith("-") and "=" not in word
    ]
    return named[0] if named else ""


def _by_python(argv: tuple[str, ...], script: Path, target: Path) -> Entry:
    return Entry(argv, read_metadata(script), str(target))


def _found(program: str, target: Path, path: str | None) -> str:
    """The program as it was named; that it is there is all that is asked."""
    if shutil.which(program, path=path) is None:
        where = "there is no such file" if "/" in program else "it is not on the PATH"
        right = "install it on the node, or give another --interpreter"
        raise InvalidProgram(_what(target), f"its interpreter {shown(program)} is missing: {where}", right)
    return program
