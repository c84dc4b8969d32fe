"""Environments are made once, and a failure is told once and not repeated at once.

Most tests give an `uv` of their own; those with `venv` and `pip` install wheels that they have made. Nothing is
downloaded.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import stat
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from rota.artifacts.environment import Environments
from rota.artifacts.faults import InvalidProgram, NotPrepared
from rota.artifacts.installing import last_lines, passed
from rota.artifacts.script_metadata import ScriptMetadata
from rota.clock import Chance, ManualClock
from tests.artifacts.made import tree

UV = b"""#!/bin/sh
set -e
echo "$@" >> "$UV_LOG"
case "$1" in
venv)
    mkdir -p "$5/bin" "$5/lib"
    ln -s "$4" "$5/bin/python"
    env > "$5/lib/variables"
    ;;
pip)
    for last; do :; done
    case "$last" in
    broken) seq 1 9; printf 'no such package\\033[0m\\n\\n' >&2; exit 3 ;;
    stuck) echo $$ > "$UV_LOG.stuck"; exec sleep 1000 ;;
    esac
    ;;
esac
"""
VERSION = sys.version.split()[0]


class World:
    def __init__(self, place: Path, clock: ManualClock) -> None:
        self.place, self.clock = place, clock
        python = f'#!/bin/sh\nexec "{sys.executable}" "$@"\n'.encode()
        tree(place / "bin", {"uv": UV, "python3": python}, ["uv", "python3"])
        self.log = place / "log"
        self.variables = {"PATH": f"{place / 'bin'}:/usr/bin:/bin", "UV_LOG": str(self.log), "ROTA_KEY": "secret"}
        if libraries := os.environ.get("LD_LIBRARY_PATH"):  # without them it may be another Python
            self.variables["LD_LIBRARY_PATH"] = libraries

    def environments(self, timeout: float = 60.0, **variables: str) -> Environments:
        return Environments(
            self.place / "environments", 1 << 30, self.clock, Chance(), variables=self.variables | variables,
            timeout=timeout, patience=60.0,
        )  # fmt: skip

    @property
    def installed(self) -> list[str]:
        """The requirements of each installation."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [line.partition(" -- ")[2] for line in lines if line.startswith("pip install")]

    @property
    def kept(self) -> list[str]:
        return sorted(path.name for path in (self.place / "environments" / "folders").iterdir())


@pytest.fixture
def here(tmp_path: Path, clock: ManualClock) -> World:
    return World(tmp_path, clock)


async def use(environments: Environments, *requirements: str, python: str | None = None) -> Path:
    async with environments.use(ScriptMetadata(requirements, python)) as found:
        assert found.exists()
        return found


async def test_an_environment_is_made_once(here: World) -> None:
    one, other = here.environments(), here.environments()
    found = await asyncio.gather(
        *(use(user, *names) for user in (one, other) for names in (("a", "b"), ("b", "a", "b")))
    )
    assert (len({*found}), here.installed) == (1, ["a b"])
    assert await use(one, "a") != found[0]
    assert here.installed == ["a b", "a"]


async def test_it_is_read_only_and_says_where_it_is(here: World) -> None:
    found = await use(here.environments(), "a")
    assert stat.S_IMODE(found.parent.stat().st_mode) == 0o555
    assert stat.S_IMODE((found.parents[1] / "lib" / "variables").stat().st_mode) == 0o444
    assert "pip install --python" in here.log.read_text()
    assert "--only-binary :all: --link-mode copy -- a" in here.log.read_text()
    assert found.resolve() == Path(sys.executable).resolve()


async def test_without_requirements_there_is_none(here: World) -> None:
    assert (await use(here.environments())).resolve() == Path(sys.executable).resolve()
    assert not (here.place / "environments").exists()


async def test_the_version_of_python_must_fit(here: World) -> None:
    environments = here.environments()
    await use(environments, "a", python=">=3.11")
    with pytest.raises(
        InvalidProgram, match=f"it needs Python >=4; python3 of this node is {VERSION}; change `requires-python`"
    ):
        await use(environments, "a", python=">=4")
    with pytest.raises(InvalidProgram):
        await use(environments, python="<3")


async def test_a_failure_is_one_line_and_leaves_nothing(here: World) -> None:
    with pytest.raises(NotPrepared) as caught:
        await use(here.environments(), "broken")
    assert str(caught.value) == (
        "environment of 'broken': uv pip install failed with exit code 3: 7 | 8 | 9 | no such package\ufffd[0m; "
        "change its requirements; the next try is 60s after a failure"
    )
    assert here.kept == []


async def test_a_failure_is_not_repeated_at_once(here: World) -> None:
    one, other = here.environments(), here.environments()
    messages = set()
    for user in (one, other, one):
        with pytest.raises(NotPrepared) as caught:
            await use(user, "broken")
        messages.add(str(caught.value))
        here.clock.advance(20)
    assert (len(messages), here.installed) == (1, ["broken"])
    await use(one, "a")
    for _ in range(2):
        with pytest.raises(NotPrepared):
            await use(one, "broken")
    assert here.installed == ["broken", "a", "broken"]
    here.clock.jump(-1000)  # a note from the future is none
    with pytest.raises(NotPrepared):
        await use(one, "broken")
    assert here.installed == ["broken", "a", "broken", "broken"]


async def test_users_at_the_same_time_share_a_failure(here: World) -> None:
    users = [here.environments(), here.environments()]
    results = await asyncio.gather(*(use(user, "broken") for user in users * 3), return_exceptions=True)
    assert ({type(one) for one in results}, here.installed) == ({NotPrepared}, ["broken"])


def gone(log: Path) -> bool:
    try:
        os.kill(int(Path(f"{log}.stuck").read_text()), 0)
    except ProcessLookupError:
        return True
    return False


async def test_an_installation_that_takes_too_long_is_ended(here: World) -> None:
    (here.place / "log.stuck").touch()
    with pytest.raises(NotPrepared, match=r"it took longer than 0\.3s"):
        await use(here.environments(timeout=0.3), "stuck")
    assert here.kept == []
    assert not (here.place / "log.stuck").read_text() or gone(here.log)


async def test_users_who_leave_end_the_installation(here: World) -> None:
    os.mkfifo(f"{here.log}.stuck")
    using = asyncio.ensure_future(use(here.environments(), "stuck"))
    number = await asyncio.to_thread(Path(f"{here.log}.stuck").read_text)
    using.cancel()
    with pytest.raises(asyncio.CancelledError):
        await using
    with pytest.raises(ProcessLookupError):
        os.kill(int(number), 0)
    assert here.kept == []


async def test_it_is_made_again_when_its_python_is_gone(here: World) -> None:
    environments = here.environments()
    found = await use(environments, "a")
    for path in (found.parents[1], found.parent):
        path.chmod(0o755)
    found.unlink()
    assert await use(environments, "a") != found
    assert here.installed == ["a", "a"]


async def test_a_node_without_python_says_so(here: World) -> None:
    (here.place / "bin" / "python3").unlink()
    with pytest.raises(NotPrepared, match="python3 is not on the PATH of the node; install Python there"):
        await use(here.environments(PATH=str(here.place / "bin")), "a")
    tree(here.place / "bin", {"python3": b"#!/bin/sh\necho what\n"}, ["python3"])
    with pytest.raises(NotPrepared, match="doesn't say its version"):
        await use(here.environments(), "a")


async def test_an_installer_that_can_not_start_is_a_failure(here: World) -> None:
    (here.place / "bin" / "uv").write_bytes(b"#!/no/such/interpreter\n")
    with pytest.raises(NotPrepared, match=r"uv venv can't be started \(No such file or directory\)"):
        await use(here.environments(), "a")


async def test_installers_get_no_secrets(here: World) -> None:
    found = await use(here.environments(PIP_NO_INDEX="1", HTTPS_PROXY="http://proxy", AWS_SECRET="hidden"), "a")
    variables = (found.parents[1] / "lib" / "variables").read_text()
    assert "PIP_NO_INDEX=1" in variables
    assert "HTTPS_PROXY" in variables
    assert "hidden" not in variables
    assert "ROTA_KEY" not in variables
    assert "ROTA_KEY" not in passed({"ROTA_KEY": "1", "PATHS": "1", "MY_PIP_X": "1"})


def test_the_last_lines_are_short() -> None:
    assert last_lines(b"") == "it said nothing"
    assert last_lines(b"1\n2\n\n3\r\n4\n  5  \n") == "2 | 3 | 4 | 5"
    assert len(last_lines(b"x" * 9999 + b"\xff")) == 600


def wheel(folder: Path, name: str, text: str) -> Path:
    """A package with one module and a command of its name."""
    info = f"{name}-1.0.dist-info"
    files = {
        f"{name}.py": f"def main():\n    print({text!r})\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{name} = {name}:main\n",
    }
    rows = [
        f"{path},sha256={base64.urlsafe_b64encode(hashlib.sha256(body.encode()).digest()).decode().rstrip('=')},{len(body)}"
        for path, body in files.items()
    ]
    target = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(target, "w") as made:
        for path, body in files.items():
            made.writestr(path, body)
        made.writestr(f"{info}/RECORD", "\n".join([*rows, f"{info}/RECORD,,"]))
    return target


@pytest.mark.slow
async def test_venv_and_pip_install_wheels(here: World) -> None:
    (here.place / "bin" / "uv").unlink()
    links = tree(here.place / "links", {})
    other = wheel(tree(here.place / "elsewhere", {}), "lathe", "by its path")
    wheel(links, "spindle", "by its name")
    environments = here.environments(PIP_NO_INDEX="1", PIP_FIND_LINKS=str(links), HOME=str(here.place))
    found = await use(environments, "spindle>=1", f"lathe @ {other.as_uri()}")
    ran = subprocess.run([found, "-c", "import spindle, lathe; spindle.main(), lathe.main()"], capture_output=True)
    assert ran.stdout == b"by its name\nby its path\n"
    assert subprocess.run([found.with_name("spindle")], capture_output=True).stdout == b"by its name\n"
    assert not [path for path in found.parents[1].rglob("*") if not path.is_symlink() and path.stat().st_mode & 0o222]


@pytest.mark.slow
async def test_what_pip_can_not_install_is_told(here: World) -> None:
    (here.place / "bin" / "uv").unlink()
    links = tree(here.place / "links", {"setup.py": b"raise SystemExit('it ran')"})
    with tarfile.open(links / "source-1.0.tar.gz", "w:gz") as made:
        made.add(links / "setup.py", "source-1.0/setup.py")
    environments = here.environments(PIP_NO_INDEX="1", PIP_FIND_LINKS=str(links), HOME=str(here.place))
    for name in ("no-such-package", "source"):  # the second has no wheel: its code is not run
        with pytest.raises(NotPrepared, match=f": pip install failed.*No matching distribution found for {name}"):
            await use(environments, name)
    assert here.kept == []
