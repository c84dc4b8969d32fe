"""Nodes with a hot tier: one Valkey, or three behind a proxy each."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tests.chaos.cluster import Cluster
from tests.chaos.records import Records
from tests.servers.proxy import ThreadedProxy
from tests.servers.valkey import Valkey


class HotCluster(Cluster):
    """With one Valkey, which is called directly."""

    members = 1

    def __init__(
        self,
        folder: Path,
        records: Records,
        load: Sequence[str],
        app: str,
        slots: int,
        skews: Mapping[str, float],
        names: Sequence[str],
    ) -> None:
        super().__init__(folder, records, load, app, slots, skews, names)
        self.valkeys = [Valkey(self._home(number)) for number in range(self.members)]
        self.links = [ThreadedProxy("127.0.0.1", one.port) for one in self.valkeys] if self.members > 1 else []

    def _home(self, number: int) -> Path:
        home = self.folder / f"valkey-{number}"
        home.mkdir()
        return home

    def address(self, name: str) -> dict[str, str]:
        ports = [one.port for one in self.links or self.valkeys]
        return {**super().address(name), "ROTA_HOT": ",".join(f"redis://127.0.0.1:{port}" for port in ports)}

    async def start(self, load: bool = True) -> None:
        for one in self.valkeys:
            await asyncio.to_thread(one.start)
        for link in self.links:
            link.start()
        await super().start(load)
        for one in self.valkeys:
            entries = one.call("ZCARD", f"rota:{{{one.call('GET', 'rota:owner').decode()}}}:due")
            self.evidence.notes.append(f"Valkey at {one.port}: {entries} entries, {self._clients(one)} connections")

    def _clients(self, one: Valkey) -> int:
        return len(one.call("CLIENT", "LIST").splitlines()) - 1

    async def restart_hot(self, one: Valkey, away: float, old: float = 0.0) -> float:
        """SIGKILL, and a new start so many seconds later. `old`: it comes back with what it knew that long before.
        Returns when it was killed."""
        if old:
            before = one.call("LASTSAVE")
            while one.call("LASTSAVE") == before:  # in whole seconds
                with suppress(Exception):
                    one.call("BGSAVE")
                await asyncio.sleep(0.5)
            await asyncio.sleep(old)
        began = time.monotonic()
        await asyncio.to_thread(one.kill)
        if not old:
            (one.folder / "dump.rdb").unlink(missing_ok=True)
        await asyncio.sleep(away)
        await asyncio.to_thread(one.start)
        return began

    async def close(self) -> None:
        await super().close()
        for link in self.links:
            link.stop()
        for one in self.valkeys:
            if one.running:
                one.resume()
            await asyncio.to_thread(one.kill)


class HotCluster3(HotCluster):
    members = 3
