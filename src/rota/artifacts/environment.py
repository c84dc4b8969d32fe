"""Python environments for scripts that name their requirements (PEP 723), each made once on a machine.

The key of an environment is the digest of its requirements and of the Python that it is made with. A shelf keeps them
as it keeps programs. A failure is remembered beside it, for all processes: another try comes only after a pause, and
jobs in between fail at once with the same message.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import msgspec

from rota.artifacts import trees
from rota.artifacts.faults import InvalidProgram, NotPrepared
from rota.artifacts.installing import InstallFailed, install, output_of, passed
from rota.artifacts.python_versions import fits
from rota.artifacts.script_metadata import ScriptMetadata
from rota.artifacts.shelf import Made, Mark, Shelf
from rota.artifacts.threads import to_the_end
from rota.clock import Chance, Clock
from rota.errors import shown

FORMAT = 1
_SECOND = 1_000_000
_ASKED = "import json, sys; print(json.dumps([sys.executable, list(sys.version_info[:3])]))"
_ANSWER = 60.0  # seconds; a Python that is asked for its version


class Python(msgspec.Struct, frozen=True, array_like=True):
    executable: str
    version: tuple[int, int, int]


class _Failure(msgspec.Struct):
    at: int
    problem: str


class Environments:
    def __init__(
        self, folder: Path, limit: int, clock: Clock, chance: Chance, *,
        python: str = "python3", variables: Mapping[str, str] = os.environ,
        pause: float = 60.0, timeout: float = 900.0, patience: float = 900.0,
    ) -> None:  # fmt: skip
        """`pause`: seconds after a failure in which it is not tried again; `timeout`: seconds for an installation."""
        self._shelf = Shelf(folder, limit, "environment", clock, chance, patience)
        self._failures, self._clock = folder / "failures", clock
        self._python, self._variables, self._pause, self._timeout = python, passed(variables), pause, timeout
        self._asked: dict[tuple[str, int], Python] = {}

    @asynccontextmanager
    async def use(self, needs: ScriptMetadata) -> AsyncIterator[Path]:
        """The Python to run a script with, which stays while the block runs."""
        python = await self._base()
        if needs.python is not None and not fits(needs.python, python.version, "script"):
            version = ".".join(map(str, python.version))
            problem = f"it needs Python {needs.python}; {self._python} of this node is {version}"
            raise InvalidProgram("script", problem, "change `requires-python`, or install another Python on the node")
        if not needs.requirements:
            yield Path(python.executable)
            return
        requirements = sorted(set(needs.requirements))
        key = hashlib.sha256(msgspec.json.encode([FORMAT, requirements, python])).hexdigest()
        async with self._shelf.use(key, partial(self._make, key, python, requirements), _whole) as folder:
            yield folder / "bin" / "python"

    async def tidy(self) -> None:
        await self._shelf.tidy()

    async def _base(self) -> Python:
        """The Python of the node, asked again when its file changes."""
        found = shutil.which(self._python, path=self._variables.get("PATH"))
        if found is None:
            raise NotPrepared("environment", f"{self._python} is not on the PATH of the node", "install Python there")
        key = await to_the_end(partial(_identity, found))
        if key not in self._asked:
            self._asked[key] = await self._ask(found)
        return self._asked[key]

    async def _ask(self, python: str) -> Python:
        try:
            async with asyncio.timeout(_ANSWER):
                _, answer = await output_of([python, "-I", "-c", _ASKED], Path("/"), self._variables)
            return msgspec.json.decode(answer, type=Python)
        except (OSError, msgspec.DecodeError) as error:
            problem = f"{shown(python)} doesn't say its version ({str(error) or 'no answer'})"
            raise NotPrepared("environment", problem, "install a working Python on the node") from None

    async def _make(self, key: str, python: Python, requirements: list[str], folder: Path) -> Made:
        what = f"environment of {shown(', '.join(requirements))}"
        right = f"change its requirements; the next try is {self._pause:g}s after a failure"
        if (problem := await to_the_end(partial(self._recent, key))) is not None:
            raise NotPrepared(what, problem, right)
        try:
            async with asyncio.timeout(self._timeout):
                await install(folder, python.executable, requirements, self._variables)
        except (InstallFailed, TimeoutError) as error:
            problem = str(error) or f"it took longer than {self._timeout:g}s"
            await to_the_end(partial(self._remember, key, problem))
            raise NotPrepared(what, problem, right) from None
        await to_the_end(partial(trees.seal, folder))
        return Made(await to_the_end(partial(trees.size_of, folder)))

    def _recent(self, key: str) -> str | None:
        """The problem of a failure that is still to be waited for; one that is over is forgotten."""
        try:
            failure = msgspec.json.decode((self._failures / key).read_bytes(), type=_Failure)
            if 0 <= self._clock.now() - failure.at < self._pause * _SECOND:
                return failure.problem
        except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
            pass
        (self._failures / key).unlink(missing_ok=True)
        return None

    def _remember(self, key: str, problem: str) -> None:
        with suppress(OSError):  # the failure itself is told anyway
            self._failures.mkdir(mode=0o700, exist_ok=True)
            for path in self._failures.iterdir():
                self._recent(path.name)
            (self._failures / key).write_bytes(msgspec.json.encode(_Failure(self._clock.now(), problem)))


def _identity(path: str) -> tuple[str, int]:
    return os.path.realpath(path), Path(path).stat().st_mtime_ns


def _whole(folder: Path, mark: Mark) -> bool:
    """Its Python is a link to the one it was made with, which may have been removed."""
    return (folder / "bin" / "python").exists()
