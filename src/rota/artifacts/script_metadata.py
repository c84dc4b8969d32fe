"""Inline metadata of Python scripts (PEP 723): a block of TOML in comments, which names what the script needs.

    # /// script
    # requires-python = ">=3.12"
    # dependencies = ["httpx", "rich>=13"]
    # ///

The block ends with the last `# ///` of the comment lines that follow its first line. A block without an end is none.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from rota.artifacts.faults import InvalidProgram
from rota.artifacts.python_versions import conditions

LARGEST = 1 << 20  # bytes of a script; the block stands near its beginning
_MOST = 1000
_LONGEST = 2000
_START = re.compile(r"# /// ([a-zA-Z0-9-]+)")
_END = "# ///"
# A name with extras, and then versions or a marker, or the place of a file. No option and no path of a folder.
_REQUIREMENT = re.compile(
    r"[A-Za-z0-9][\w.-]*\s*(\[[\w\s,.-]*\])?\s*((?P<versions>[<>=!~(;][^/\\]*)?|@\s*(?P<place>[^\s;]+)(\s*;.*|\s*))",
    re.ASCII,
)
_WHEEL = re.compile(r"(https?|file)://[^?#]+\.whl(#.*)?")
_RIGHT = "PEP 723 says what stands in it"


class ScriptMetadata(msgspec.Struct, frozen=True):
    requirements: tuple[str, ...] = ()  # as `pip install` takes them
    python: str | None = None  # the versions that will do, such as `>=3.12`


def read_metadata(script: Path) -> ScriptMetadata | None:
    """None: the script has no block."""
    what = f"program {script.name!r}"
    with script.open("rb") as file:
        text = file.read(LARGEST).decode("utf-8", errors="replace").replace("\r\n", "\n")
    found = [content for kind, content in _blocks(text.split("\n")) if kind == "script"]
    if len(found) > 1:
        raise InvalidProgram(what, f"it has {len(found)} blocks `# /// script`", "one says what it needs")
    return _parsed(found[0], what) if found else None


def _blocks(lines: list[str]) -> Iterator[tuple[str, str]]:
    place = 0
    while place < len(lines):
        start, place = _START.fullmatch(lines[place]), place + 1
        if start is None:
            continue
        after = next((at for at in range(place, len(lines)) if not _is_content(lines[at])), len(lines))
        end = next((at for at in range(after - 1, place - 1, -1) if lines[at] == _END), None)
        if end is not None:
            yield start[1], "\n".join(line[2:] for line in lines[place:end])
            place = end + 1


def _is_content(line: str) -> bool:
    return line == "#" or line.startswith("# ")


def _parsed(text: str, what: str) -> ScriptMetadata:
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidProgram(what, f"its block `# /// script` is no TOML ({error})", _RIGHT) from None
    needs, python = table.get("dependencies", []), table.get("requires-python")
    if not isinstance(needs, list) or not all(isinstance(one, str) for one in needs) or len(needs) > _MOST:
        raise InvalidProgram(what, "`dependencies` of its block is no list of texts", 'such as ["httpx", "rich>=13"]')
    for one in needs:
        _check_requirement(one, what)
    if python is not None:
        conditions(python, what)
    return ScriptMetadata(tuple(one.strip() for one in needs), python)


def _check_requirement(text: str, what: str) -> None:
    found = _REQUIREMENT.fullmatch(text.strip()) if text.isprintable() and len(text) <= _LONGEST else None
    if found is None:
        raise InvalidProgram(what, f"`dependencies` of its block has {text[:80]!r}", "such as httpx or rich>=13")
    if found["place"] is not None and not _WHEEL.fullmatch(found["place"]):
        right = "name it by its version, or by the address of a wheel"
        raise InvalidProgram(what, f"{text[:80]!r} is built from source, which runs its code as the node", right)
