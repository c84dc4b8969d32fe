"""Workers that reach their store through a server, in processes of their own."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from pathlib import Path

from rota.model.access import Role
from rota.model.access_keys import NewKey, key_hash, key_text
from rota.model.quotas import Quotas
from rota.store.base import Store
from tests.node.cluster import Cluster
from tests.servers.ports import free_port

SERVER = "server"


class FarCluster(Cluster):
    """`start_server` first, then `start` for workers. A worker gets no address of the store."""

    def __init__(self, folder: Path, url: str = "") -> None:
        super().__init__(folder)
        if url:
            self.store_url = url
            self.app.configure(store=url)
        self.port = free_port()
        self.through = self.port  # where workers call: the server itself, or a proxy before it
        self.keys: dict[str, str] = {}  # worker -> its key, if it has one of its own
        self.key = ""

    async def store(self) -> Store:
        return (await self.app._core.client()).store

    async def start_server(self) -> None:
        """The node that has the store: it does the housekeeping and serves the API."""
        command = [sys.executable, "-m", "rota", "up", "--roles", "control,api", "--port", str(self.port)]
        environment = {**os.environ, "ROTA_STORE": self.store_url}
        with (self.folder / f"{SERVER}.log").open("ab") as log:
            self.processes[SERVER] = subprocess.Popen(
                [*command, "--node", SERVER], cwd=self.folder, env=environment, stderr=log
            )
        await self.until(lambda: self._is_up(SERVER), "the server to come up")
        if not self.key:
            self.key = await self.new_key()

    async def new_key(self, *queues: str, role: Role = Role.WORKER, user: str = "workers") -> str:
        key_id = secrets.token_hex(6)
        text = key_text(key_id, secrets.token_bytes(32))
        new = NewKey(id=key_id, hash=key_hash(text), user=user, role=role, queues=queues)
        store, who = await self.store(), self.app._core.who
        await store.put_user(who, user, Quotas(), new=True)
        await store.add_key(who, new)
        return text

    async def launch(self, name: str, *options: str) -> None:
        environment = {name: value for name, value in os.environ.items() if name != "ROTA_STORE"}
        environment |= {"ROTA_SERVER": f"http://127.0.0.1:{self.through}", "ROTA_KEY": self.keys.get(name, self.key)}
        command = [sys.executable, "-m", "rota", "up", "--app", "chaos_app:app", "--roles", "worker", "--node", name]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [*command, *options], cwd=self.folder, env={**environment, **self.settings}, stderr=log
            )
