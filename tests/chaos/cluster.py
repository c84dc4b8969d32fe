"""Real nodes and a client in processes of their own, on a store of our own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.chaos import fires, graphs, keys, saves, told
from tests.chaos.evidence import Evidence, Exit, Fault
from tests.chaos.records import Away, PostgresRecords, Records
from tests.chaos.witness import FIRES, Reader
from tests.node.orphans import Orphans
from tests.servers.postgres import Server

ROOT = Path(__file__).parents[2]
NODES = ("ann", "bob", "eve")
WARM_UP = 6.0
UP = 30.0
# Everything that was accepted must have ended so soon after the client has stopped; a second crash alone costs 5 s.
SETTLED = 45.0
STOPPED = 45.0  # the grace is 30 s


class Cluster:
    """`load`: the module of the client and what it is to do. `skews`: by how many seconds clocks of nodes are wrong."""

    def __init__(
        self,
        folder: Path,
        records: Records,
        load: Sequence[str],
        app: str,
        slots: int,
        skews: Mapping[str, float],
        names: Sequence[str] = NODES,
    ) -> None:
        self.folder, self.records = folder, records
        self.load, self.app, self.slots, self.skews, self.names = load, app, slots, skews, names
        self.nodes: dict[str, subprocess.Popen[bytes]] = {}
        self.client: subprocess.Popen[bytes] | None = None
        self.witness = Reader(folder / "witness")
        self.evidence = Evidence()
        self._launched: dict[str, float] = {}  # by the wall clock, which is the server's too
        self._expected: set[int] = set()  # processes that may end
        self._watching: asyncio.Task[None] | None = None
        self.closing = False
        self._orphans = Orphans()

    @property
    def _postgres(self) -> PostgresRecords:
        """For scenarios that are about it."""
        assert isinstance(self.records, PostgresRecords)
        return self.records

    @property
    def server(self) -> Server:
        return self._postgres.server

    @property
    def standby(self) -> Server | None:
        return self._postgres.standby

    # -- processes ---------------------------------------------------------------------------------------------------
    def launch(self, name: str) -> None:
        self._launched[name] = time.time()
        self.nodes[name] = self._start(name, [sys.executable, "-m", "rota", "up", *self.options(name)])

    def options(self, name: str) -> list[str]:
        """Of `rota up`."""
        return ["--app", self.app, "--node", name, "--slots", str(self.slots)]

    def address(self, name: str) -> dict[str, str]:
        """Variables that tell a process where its jobs are."""
        return {"ROTA_STORE": self.records.url}

    async def back(self, name: str) -> None:
        await self.until(lambda: name in self.living(), UP, f"{name} to come back")

    async def busy(self, name: str, jobs: int = 3) -> None:
        """So that there is something to lose."""
        await self.until(lambda: len(self.witness.in_flight(name, self._launched[name])) >= jobs, UP, f"work on {name}")

    def _start(self, name: str, command: list[str]) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            **self.address(name),
            "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
            "CHAOS_WITNESS": str(self.folder / "witness"),
            "CHAOS_NODE": name,
            "ROTA_COMMAND_ENV": "CHAOS_NODE",
            "CHAOS_SKEW": str(self.skews.get(name, 0.0)),
            "PGSSLMODE": "disable",
            "XDG_CONFIG_HOME": str(self.folder / "config"),  # for the first admin key of the store
        }
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(command, cwd=self.folder, env=environment, stdout=log, stderr=log)

    async def start(self, load: bool = True) -> None:
        for name in self.names:
            self.launch(name)
        await self.up(*self.names)
        await self.begin(load)

    async def up(self, *names: str) -> None:
        await self.until(lambda: self.living() >= set(names), UP, f"{', '.join(names)} to come up")

    async def begin(self, load: bool = True) -> None:
        self._watching = asyncio.create_task(self._watch())
        if load:
            module, *arguments = self.load
            command = [sys.executable, "-m", module, str(self.folder), *arguments]
            self.client = self._start("client", command)
            await self.until(lambda: len(self.witness.read()) > 20, UP, "the first jobs")
            await asyncio.sleep(WARM_UP)

    async def _watch(self) -> None:
        """Notes every process that ends by itself, and starts it again as a supervisor would."""
        while True:
            for name, process in list(self.nodes.items()):
                code = process.poll()
                if code is not None and process.pid not in self._expected:
                    self._expected.add(process.pid)
                    self.evidence.exits.append(Exit(name, code, time.monotonic()))
                    await asyncio.sleep(0.5)
                    self.launch(name)
            await asyncio.sleep(0.05)

    async def kill(self, name: str, kind: str = "kill") -> Fault:
        process = self.nodes[name]
        self._expected.add(process.pid)
        fault = Fault(time.monotonic(), kind, name)
        process.kill()
        self.evidence.faults.append(fault)
        await asyncio.to_thread(process.wait)
        return fault

    async def terminate(self, name: str) -> tuple[int | None, float]:
        """Ends a node in order; returns its exit code (None: it did not end) and how long that took."""
        process, began = self.nodes[name], time.monotonic()
        self._expected.add(process.pid)
        process.terminate()
        try:
            code = await asyncio.to_thread(process.wait, STOPPED)
        except subprocess.TimeoutExpired:
            process.kill()
            return None, time.monotonic() - began
        return code, time.monotonic() - began

    def tree(self, name: str) -> list[int]:
        """The node and all below it."""
        parents: dict[int, list[int]] = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and (stat := _stat(int(entry.name))):
                parents.setdefault(int(stat[2]), []).append(int(entry.name))
        found = [self.nodes[name].pid]
        for pid in found:
            found += parents.get(pid, [])
        return found

    def stop(self, name: str) -> list[int]:
        """SIGSTOP for the node alone."""
        self.signal([self.nodes[name].pid], signal.SIGSTOP)
        return [self.nodes[name].pid]

    def stop_all(self, name: str) -> list[int]:
        """SIGSTOP for the node and all below it: also for what was just being started when we looked."""
        stopped: list[int] = []
        while new := [pid for pid in self.tree(name) if pid not in stopped]:
            self.signal(new, signal.SIGSTOP)
            stopped += new
        return stopped

    def processes(self, name: str, title: str) -> list[int]:
        """Those below a node that go by this name; what has ended and was not buried yet does not count."""
        return [pid for pid in self.tree(name) if (stat := _stat(pid)) and stat[0] == title and stat[1] != "Z"]

    def identities(self, name: str) -> dict[int, str]:
        """All of the tree, and when each was started: numbers of processes are used again."""
        return {pid: stat[20] for pid in self.tree(name) if (stat := _stat(pid))}

    def alive(self, identities: Mapping[int, str]) -> list[int]:
        found = [(pid, _stat(pid), since) for pid, since in identities.items()]
        return [pid for pid, stat, since in found if stat and stat[1] != "Z" and stat[20] == since]

    def signal(self, pids: list[int], number: signal.Signals) -> None:
        for pid in pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue

    # -- questions ---------------------------------------------------------------------------------------------------
    def ask(self, query: Any, *values: object) -> list[tuple[Any, ...]]:
        return self._postgres.ask(query, *values)

    def living(self) -> set[str]:
        try:
            # A node that was killed is live in its row until it is taken over.
            return {name for name, started in self.records.living() if started > self._launched[name]}
        except Away:
            return set()

    def leader(self) -> str:
        rows = self.ask("SELECT n.id FROM rota.leader l JOIN rota.nodes n USING (incarnation) WHERE n.state = 'live'")
        return str(rows[0][0]) if rows else ""

    async def until(self, true: Callable[[], object], seconds: float, what: str) -> None:
        end = time.monotonic() + seconds
        while not true():
            if time.monotonic() > end:
                raise TimeoutError(f"waited {seconds:.0f} s for {what}; {self.tail()}")
            await asyncio.sleep(0.05)

    def tail(self) -> str:
        logs = {path.name: path.read_text()[-600:] for path in self.folder.glob("*.log")}
        return "\n".join(f"--- {name}\n{text}" for name, text in logs.items())

    def fault(self, kind: str, began: float, node: str = "", until: float = 0.0, pids: Sequence[int] = ()) -> None:
        self.evidence.faults.append(Fault(began, kind, node, until, tuple(pids)))

    # -- end ---------------------------------------------------------------------------------------------------------
    async def settle(self) -> Evidence:
        """No more orders; everything that was accepted ends; then the nodes."""
        evidence = self.evidence
        if self.client:
            self.client.terminate()
            try:
                await asyncio.to_thread(self.client.wait, 120)
            except subprocess.TimeoutExpired:
                evidence.notes.append("the client did not end")
                self.client.kill()
            if (code := self.client.poll()) not in (None, 0, -signal.SIGTERM):  # that was us, on its last way
                evidence.exits.append(Exit("client", code, time.monotonic()))
        try:
            await self.until(lambda: not self._left(), SETTLED, "all jobs to end")
        except TimeoutError:
            evidence.notes.append(f"not settled after {SETTLED:.0f} s: {self._left()} jobs left")
        await self.before_end()
        if self._watching:
            self._watching.cancel()
        for group in self.groups():
            await self._end(group)
        await asyncio.sleep(0.3)
        evidence.leftovers = self._orphans.left([process.pid for process in self.nodes.values()])
        evidence.told, evidence.lines = told.read(self.folder / "told"), self.witness.read()
        events = [*map(asdict, evidence.faults), *map(asdict, evidence.exits)]
        (self.folder / "faults.json").write_text(json.dumps(events, indent=1))
        self.records.read(evidence)
        if (deeds := self.folder / "deeds").exists():
            evidence.fires = fires.read(self._postgres.address, deeds, self.folder / f"witness{FIRES}")
        evidence.keys, evidence.graph = keys.read_files(self.folder), graphs.read_file(self.folder)
        evidence.saves = saves.read_file(self.folder)
        return evidence

    async def before_end(self) -> None:
        """What the nodes have to do once all jobs have ended."""

    def groups(self) -> Sequence[Sequence[str]]:
        """Nodes that are told to end at the same time, group after group."""
        return [list(self.nodes)]

    async def _end(self, names: Sequence[str]) -> None:
        for name, (code, took) in zip(names, await asyncio.gather(*map(self.terminate, names)), strict=True):
            if code != 0:
                self.evidence.exits.append(Exit(name, -1 if code is None else code, time.monotonic()))
                self.evidence.notes.append(f"{name} was told to stop and ended with {code} after {took:.1f} s")

    def _left(self) -> int:
        try:
            return self.records.left()
        except Away:
            return -1

    async def close(self) -> None:
        """Whatever happened: nothing of ours stays."""
        if self._watching:
            self._watching.cancel()
        for process in [*self.nodes.values(), *([self.client] if self.client else [])]:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            await asyncio.to_thread(process.wait)
        self._orphans.close()


def _stat(pid: int) -> list[str]:
    """Name, state, parent, ...: empty if there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return []
    return [text[text.index("(") + 1 : text.rindex(")")], *text.rpartition(")")[2].split()]
