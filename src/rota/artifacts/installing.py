"""Runs the installers of Python environments: `uv` if the node has it, else `venv` and `pip`.

Only wheels are installed. The build of a source package runs its code as the node, before any job and outside its
limits. Installers get a few variables of the node, so none of its secrets.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import subprocess
from asyncio.subprocess import Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

KEPT = 8 << 10  # bytes of output
_LINES, _LONGEST = 4, 600
_PASSED = re.compile(
    r"PATH|LD_LIBRARY_PATH|HOME|LANG|LC_\w+|TZ|TMPDIR|NETRC|XDG_CACHE_HOME|SSL_CERT_\w+|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE"
    r"|PIP_\w+|UV_\w+|(https?|all|no)_proxy|(HTTPS?|ALL|NO)_PROXY"
)


class InstallFailed(Exception):
    """The message says which step failed, and has the last lines of its output."""


def passed(variables: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in variables.items() if _PASSED.fullmatch(name)}
    return kept | {"UV_PYTHON_DOWNLOADS": "never"}


async def install(folder: Path, python: str, requirements: Sequence[str], variables: Mapping[str, str]) -> None:
    """Makes an environment at the folder, which must not exist. Raises `InstallFailed`."""
    own = str(folder / "bin" / "python")
    if (uv := shutil.which("uv", path=variables.get("PATH"))) is not None:
        await _step("uv venv", [uv, "venv", "--no-project", "--python", python, str(folder)], folder, variables)
        # Files that are linked with the cache of uv would become read-only there too.
        wheels = ["--only-binary", ":all:", "--link-mode", "copy"]
        await _step(
            "uv pip install", [uv, "pip", "install", "--python", own, *wheels, "--", *requirements], folder, variables
        )
        # uv would compile with the environment's Python, which runs the `.pth` files that came with the wheels.
        with suppress(InstallFailed):
            await _step("compileall", [python, "-I", "-m", "compileall", "-q", str(folder / "lib")], folder, variables)
    else:
        await _step("venv", [python, "-I", "-m", "venv", str(folder)], folder, variables)
        quiet = ["--no-input", "--disable-pip-version-check", "--only-binary", ":all:"]
        await _step("pip install", [own, "-I", "-m", "pip", "install", *quiet, "--", *requirements], folder, variables)


async def output_of(argv: Sequence[str], place: Path, variables: Mapping[str, str]) -> tuple[int, bytes]:
    """The exit code and the end of the output. A caller who is cancelled leaves no process behind."""
    process = await asyncio.create_subprocess_exec(
        *argv, cwd=place, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True,
    )  # fmt: skip
    try:
        return await _read(process)
    finally:
        with suppress(ProcessLookupError, PermissionError):  # macOS refuses where only zombies are left
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def _read(process: Process) -> tuple[int, bytes]:
    assert process.stdout is not None
    tail = b""
    while piece := await process.stdout.read(KEPT):
        tail = (tail + piece)[-KEPT:]
    return await process.wait(), tail


async def _step(name: str, argv: Sequence[str], folder: Path, variables: Mapping[str, str]) -> None:
    try:
        code, tail = await output_of(argv, folder.parent, variables)
    except OSError as error:
        raise InstallFailed(f"{name} can't be started ({error.strerror})") from None
    if code:
        raise InstallFailed(f"{name} failed with exit code {code}: {last_lines(tail)}")


def last_lines(output: bytes) -> str:
    lines = [line.strip() for line in output.decode("utf-8", errors="replace").splitlines() if line.strip()]
    text = " | ".join(lines[-_LINES:]) or "it said nothing"
    return "".join(one if one.isprintable() else "\ufffd" for one in text)[-_LONGEST:]
