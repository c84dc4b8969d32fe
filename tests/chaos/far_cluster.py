"""Two servers with the store, and workers that reach it through them: over HTTP, with keys.

`ann` and `bob` call a server each, directly; `eve` calls through a proxy, which breaks the link and may lead to the
other server the next time.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import rota
from rota.model.access import Permission, Role
from rota.model.access_keys import NewKey, key_hash, key_text
from rota.model.quotas import Quotas
from tests.chaos.asides import read_asides
from tests.chaos.cluster import Cluster
from tests.chaos.evidence import Evidence
from tests.chaos.records import Records
from tests.servers.ports import free_port
from tests.servers.proxy import ThreadedProxy

SERVERS = ("north", "south")
DIRECT = {"ann": "north", "bob": "south"}  # workers, and the servers that they call
LINKED = "eve"
WORKERS = (*DIRECT, LINKED)
# Where the client finds both servers.
DOORS = "CHAOS_DOORS"


class Keys(NamedTuple):
    worker: str
    customer: str


class FarCluster(Cluster):
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
        self.ports = {name: free_port() for name in SERVERS}
        self.link = ThreadedProxy("127.0.0.1", self.ports["north"])
        self._keys = Keys("", "")

    # -- processes ---------------------------------------------------------------------------------------------------
    def options(self, name: str) -> list[str]:
        if name in SERVERS:
            return ["--roles", "control,api", "--port", str(self.ports[name]), "--node", name]
        return [*super().options(name), "--roles", "worker"]

    def address(self, name: str) -> dict[str, str]:
        if name in SERVERS:
            return super().address(name)
        if name in WORKERS:
            port = self.ports[DIRECT[name]] if name in DIRECT else self.link.port
            return {"ROTA_SERVER": f"http://127.0.0.1:{port}", "ROTA_KEY": self._keys.worker}
        doors = " ".join(f"http://127.0.0.1:{port}" for port in self.ports.values())
        return {DOORS: doors, "ROTA_KEY": self._keys.customer}

    async def start(self, load: bool = True) -> None:
        self.link.start()
        for name in SERVERS:
            self.launch(name)
        await self.up(*SERVERS)
        self._keys = await new_keys(self.records.url)
        for name in WORKERS:
            self.launch(name)
        await self.up(*WORKERS)
        await self.begin(load)

    def lead_to(self, server: str) -> None:
        """The next connections through the proxy go to this server."""
        self.link.proxy.target = "127.0.0.1", self.ports[server]

    def groups(self) -> Sequence[Sequence[str]]:
        return WORKERS, SERVERS

    async def settle(self) -> Evidence:
        evidence = await super().settle()
        evidence.asides = read_asides(self.folder)
        said = "SELECT job::text, fence, string_agg(body, '' ORDER BY number) FROM rota.output "
        rows = self.ask(said + "WHERE stream = 'stdout' GROUP BY job, fence")
        evidence.said = {(job, fence): bytes(body).decode() for job, fence, body in rows}
        return evidence

    async def close(self) -> None:
        await super().close()
        self.link.stop()


async def new_keys(url: str) -> Keys:
    """Of a worker, and of a customer who orders commands too."""
    app = rota.App(url)
    try:
        store, who = (await app._core.client()).store, app._core.who
        made = []
        for user, role, extra in (
            ("workers", Role.WORKER, ()),
            ("customer", Role.SUBMITTER, (Permission.COMMANDS,)),
        ):
            key_id = secrets.token_hex(6)
            made.append(key_text(key_id, secrets.token_bytes(32)))
            await store.put_user(who, user, Quotas(), new=True)
            await store.add_key(who, NewKey(id=key_id, hash=key_hash(made[-1]), user=user, role=role, extra=extra))
        return Keys(*made)
    finally:
        await app.close()
