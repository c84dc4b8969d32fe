"""What a command can find out about the node that runs it, as the same user: not the password of its store.

The kernel lets root read everything. So if the tests are root's, node and commands run as somebody else.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import rota
from rota.model.lifecycle import State
from rota.work.keeper.kernel import hide
from tests.node.running import LONG
from tests.servers import programs
from tests.store.postgres.backends import migrated_database
from tests.work.functions.nodes import children, until

# Searches all that it may read of every other process of its user, and says where it found which of the words.
SNOOP = """
import json, os, sys
words = sys.argv[2:]
found, denied = [], []

def look(pid, place, read):
    try:
        for piece in read(f"/proc/{pid}/{place}"):
            found.extend([pid, place, word] for word in words if bytes.fromhex(word) in piece)
    except OSError:
        denied.append([pid, place])

def whole(path):
    with open(path, "rb") as file:
        yield file.read()

def memory(path):
    with open(path[:-3] + "maps") as maps, open(path, "rb", 0) as file:
        for line in maps:
            span, rights = line.split()[:2]
            if rights.startswith("rw-p"):
                low, high = (int(end, 16) for end in span.split("-"))
                try:
                    file.seek(low)
                    yield file.read(high - low)
                except (OSError, OverflowError):
                    pass

def files_in_memory(path):
    for name in os.listdir(path):
        if os.readlink(f"{path}/{name}").startswith("/memfd:rota"):
            yield from whole(f"{path}/{name}")

for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        if os.stat(f"/proc/{pid}").st_uid != os.getuid() or int(pid) == os.getpid():
            continue
    except OSError:
        continue
    for place, read in (("cmdline", whole), ("environ", whole), ("mem", memory), ("fd", files_in_memory)):
        look(pid, place, read)
with open(sys.argv[1], "w") as file:
    json.dump({"found": found, "denied": denied}, file)
"""

APP = """
import os, subprocess
import rota

app = rota.App()

@app.task
def nothing() -> None:
    pass

@app.task
def look() -> dict:
    child = subprocess.run(["env", "-0"], stdout=subprocess.PIPE).stdout.decode("utf-8", "surrogateescape")
    return {
        "pid": os.getpid(),
        "store": rota.App().settings.store,
        "mine": os.environ.get("SHOP_TOKEN"),
        "odd": os.environb.get(b"ODD", b"").hex(),
        "inherited": sorted(item.partition("=")[0] for item in child.split(chr(0))),
    }

@app.task
def order() -> str:
    return look.submit_sync().id
"""


class Stage:
    """A node with a password in its environment, of an ordinary user."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.app = folder, rota.App(url)
        self.password, self.token = secrets.token_hex(16), secrets.token_hex(16)
        self.url = url.replace("postgres@", f"postgres:{self.password}@")
        self.environment = {
            **os.environ,
            "ROTA_STORE": self.url,
            "ROTA_COMMAND_ENV": "ROTA_STORE",
            "SHOP_TOKEN": self.token,
            "ODD": "\udcff",
        }
        (folder / "shop.py").write_text(APP)
        self.stack = ExitStack()
        self.node = 0  # its pid

        @self.app.task
        def nothing() -> None: ...

        @self.app.task
        def look() -> None: ...

        @self.app.task
        def order() -> None: ...

        self.nothing, self.look, self.order = nothing, look, order

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """A program of rota's, until the end of the test."""
        log = self.stack.enter_context(self.log(words[0]).open("wb"))
        process = subprocess.Popen(
            [*programs.as_nobody(), sys.executable, "-m", "rota", *words],
            cwd=self.folder, env=self.environment, stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self.stack.callback(process.wait)
        self.stack.callback(process.kill)
        return process

    def family(self) -> dict[str, str]:
        """The names of the node's own processes, by pid; without those of commands."""
        found = [self.node]
        for pid in found:
            found += children(pid)
        names = {str(pid): Path(f"/proc/{pid}/comm").read_text().strip() for pid in found}
        return {pid: name for pid, name in names.items() if name.startswith("rota-") or pid == str(self.node)}

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    async def snoop(self, *words: str) -> dict[str, list[list[str]]]:
        """What a command finds of these words."""
        found, hexes = self.folder / "found", [word.encode().hex() for word in words]
        job = await self.app.submit_command([sys.executable, "-I", "-S", "-c", SNOOP, str(found), *hexes])
        assert (await job.wait(LONG)).state is State.SUCCEEDED, self.log("up").read_text()
        told: dict[str, list[list[str]]] = json.loads(found.read_text())
        return told


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    hide()  # this process knows the password too, and may be of the same user
    with migrated_database() as url:
        stage = Stage(tmp_path, url)
        stage.node = stage.start("up", "--app", "shop:app").pid
        yield stage
        stage.stack.close()
        await stage.app.close()


async def test_a_command_of_the_same_user_does_not_find_them(stage: Stage) -> None:
    decoy = secrets.token_hex(16)
    victim = await stage.app.submit_command(["sh", "-c", "echo up; sleep 1000"], env={"DECOY": decoy})
    await (await stage.nothing.submit()).wait(LONG)
    follower = stage.start("job", "logs", "-f", victim.id)
    await until(lambda: "up\n" in stage.log("job").read_text())
    told = await stage.snoop(stage.password, stage.token, decoy)
    ours = stage.family()
    await victim.cancel()
    # It can search: what its neighbour has been given is found.
    assert {place for _, place, word in told["found"] if word == decoy.encode().hex()} >= {"environ", "mem"}
    # And of the rest, which is all there, nothing.
    assert {word for *_, word in told["found"]} == {decoy.encode().hex()}
    assert {"rota-keeper", "rota-warden", "rota-forkserver", "rota-function"} <= set(ours.values())
    for place in ("environ", "mem", "fd"):
        assert {*ours, str(follower.pid)} <= {pid for pid, denied in told["denied"] if denied == place}


async def test_what_is_executed_gets_an_environment_that_tells_nothing(stage: Stage) -> None:
    """Until it has hidden itself a new program can be read. Of what it was given, root sees what anybody could have."""
    await (await stage.nothing.submit()).wait(LONG)
    ours = [pid for pid, name in stage.family().items() if name in ("rota-keeper", "rota-forkserver")]
    assert len(ours) == 2
    for pid in ours:
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        except PermissionError:
            assert os.geteuid() != 0
        else:
            assert os.geteuid() == 0
            assert b"PATH=" in environment
            assert stage.password.encode() not in environment
            assert stage.token.encode() not in environment


async def test_functions_know_the_store_and_programs_that_they_start_do_not(stage: Stage) -> None:
    inner = (await (await stage.order.submit()).wait(LONG)).result
    seen = (await (await stage.app.job(inner)).wait(LONG)).result
    assert seen["store"] == stage.url
    assert (seen["mine"], seen["odd"]) == (stage.token, "ff")
    assert "SHOP_TOKEN" in seen["inherited"]
    assert "ROTA_COMMAND_ENV" in seen["inherited"]
    assert "ROTA_STORE" not in seen["inherited"]


async def test_a_command_gets_the_store_if_the_node_gives_it_away(stage: Stage) -> None:
    script = f'test "$ROTA_STORE" = \'{stage.url}\' && test -z "$SHOP_TOKEN"'
    job = await stage.app.submit_command(["sh", "-c", script], inherit=["ROTA_STORE"])
    assert (await job.wait(LONG)).state is State.SUCCEEDED
