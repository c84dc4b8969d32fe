"""The backends `far-sqlite` and `far-postgres` of the contract suite: the verbs of workers over HTTP.

Each node that a contract registers is a far-away worker: it has a `WorkerLink` of its own to an API that listens on
loopback, and joins, renews, claims, writes and leaves through it. Everything else goes to the store behind the API.

A process of rota's never repeats a write whose answer it has, and forgets its ticket. The contracts do repeat, so
tickets are remembered here: the server sees the repeat as one after a lost answer.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from rota.api.desk import Desk
from rota.api.listening import listen
from rota.api.server import ApiServer
from rota.api.tickets import SECRET
from rota.clock import Chance, Clock
from rota.config import Settings
from rota.model.access import Role
from rota.model.http import target
from rota.model.job import Claimed, Ref
from rota.model.node import NewNode, News
from rota.model.principal import SYSTEM, Principal
from rota.model.task import TaskInfo
from rota.remote import worker_link
from rota.remote.store import ServerStore, server_store
from rota.remote.worker_link import Ticket, WorkerLink
from rota.store.base import Store
from rota.store.forwarding import passed_on
from rota.telemetry.events import Bus
from tests.remote.in_process import Keys, secret
from tests.store.postgres.backends import Postgres
from tests.store.sqlite.backends import SqliteFile

KEY = secret("workers", Role.WORKER, "far")
# The contracts in which nodes have a part. The others (orders, schedules, calendars, people, audit, pages, migrations)
# would run on the store behind the API and nothing else, and `tests/remote/backends.py` runs them as clients do.
CONCERNED = (
    "alone", "attempts", "changes", "checkpoints", "claims", "dependencies", "far_nodes", "fences", "flows", "gates",
    "leaders", "lifecycle", "limits", "nodes", "offers", "outbox", "output", "overlaps", "progress", "queues",
    "rates", "reads", "reruns", "settling", "several_keys", "shelves", "statistics", "texts", "trouble", "unoffered",
    "unwritable", "wakeups", "workflows",
)  # fmt: skip
# Contracts with values that no worker of rota's sends: a server refuses them (`api/work_checks.py`, whose tests are in
# `tests/api/test_far_workers.py`), where the store itself takes them or answers otherwise.
LEFT_OUT = {
    "test_who_wants_nothing_gets_nothing": "fewer than no jobs are wanted",
    "test_an_event_that_ends_no_attempt_raises_and_nothing_is_written": "refused as invalid, not as an illegal event",
    "test_output_is_bytes": "chunks of 256 KiB; workers send 64 KiB at most",
    "test_a_queue_that_nobody_serves_does_not_keep_the_key": "the name of its queue",
    "test_any_text_is_kept_as_it_is": "names of nodes and queues",
}


def concerns_workers(module: str, test: str) -> bool:
    """Whether a contract is to be kept by far-away workers too."""
    return module.rpartition(".")[2].removeprefix("test_") in CONCERNED and test not in LEFT_OUT


class Workers:
    """The links of all workers of one place, whichever store they were registered with."""

    def __init__(self) -> None:
        self.links: dict[str, WorkerLink] = {}  # by incarnation
        self.tickets: dict[Ref, tuple[WorkerLink, Ticket]] = {}

    def of(self, ref: Ref) -> WorkerLink | None:
        """The link of the worker that holds or held this attempt, with its ticket."""
        if ref not in self.tickets:
            return next((link for link in self.links.values() if ref in link._held), None)
        link, ticket = self.tickets[ref]
        link._claimed[ref] = ticket
        link._jobs[ref.job_id] = ref
        return link


class FarStore:
    """What differs from the store behind the API. The rest is passed on (`far_store`)."""

    inner: Store
    clock: Clock
    workers: Workers

    def __init__(self) -> None:
        self.server: ApiServer | None = None
        self.remotes: list[ServerStore] = []

    # -- life --------------------------------------------------------------------------------------------------------
    async def open(self) -> None:
        await self.inner.open()
        settings = Settings(api_port=0)
        await self.inner.secret(SYSTEM, SECRET)  # now: it is not what a verb leaves behind
        desk = Desk(self.inner, self.clock, Chance(3), settings, Bus())
        desk.workers.patience = 0.0
        self.server = ApiServer(desk, listen(settings), Keys(self.inner))
        await self.server.start()

    async def close(self) -> None:
        for remote in self.remotes:
            await remote.close()
        if self.server is not None:
            await self.server.stop(0.0)
        await self.inner.close()

    def link(self) -> WorkerLink:
        assert self.server is not None
        remote = server_store(target(self.server.url), KEY, self.clock, Chance(len(self.remotes) + 7))
        self.remotes.append(remote)
        return remote.worker

    # -- nodes -------------------------------------------------------------------------------------------------------
    async def register(
        self, who: Principal, /, node: NewNode, tasks: Sequence[TaskInfo], replaces: Sequence[str] = ()
    ) -> None:
        if node.roles != ("worker",) or node.access is not None:
            return await self.inner.register(who, node, tasks, replaces)
        link = self.link()
        await link.join(node, tasks, replaces)
        self.workers.links[node.incarnation] = link
        return None

    async def renew(self, who: Principal, /, incarnation: str, stopping: bool = False, line: str | None = None) -> News:
        link = self.workers.links.get(incarnation)
        if link is None or line is not None:  # a link names the line that it has, and here none has one
            return await self.inner.renew(who, incarnation, stopping, line)
        return await link.renew(incarnation, stopping)

    async def leave(self, who: Principal, /, incarnation: str) -> None:
        link = self.workers.links.get(incarnation)
        await (link.leave(incarnation) if link else self.inner.leave(who, incarnation))

    # -- attempts ----------------------------------------------------------------------------------------------------
    async def claim(self, who: Principal, /, incarnation: str, *wanted: Any, **named: Any) -> list[Claimed]:
        link = self.workers.links.get(incarnation)
        if link is None:
            return await self.inner.claim(who, incarnation, *wanted, **named)
        claimed = await link.claim(incarnation, *wanted, **named)
        for one in claimed:
            self.workers.tickets[one.ref] = link, link._claimed[one.ref]
        return claimed

    async def charge(self, who: Principal, /, used: Any) -> None:
        links = list(self.workers.links.values())
        await (links[-1].charge(used) if links else self.inner.charge(who, used))

    async def parents(self, who: Principal, /, job_id: str) -> Any:
        holders = [self.workers.of(ref) for ref in self.workers.tickets if ref.job_id == job_id]
        if not who.system or not holders or holders[-1] is None:
            return await self.inner.parents(who, job_id)
        return await holders[-1].parents(job_id)


def _write(name: str) -> Callable[..., Any]:
    """A write about attempts: each worker sends those that are its own, in one call."""

    async def write(self: Any, who: Principal, /, items: Sequence[Any]) -> list[Any]:
        links = [self.workers.of(Ref(one.job_id, one.fence)) for one in items]
        answers: dict[int, Any] = {}
        for link in dict.fromkeys(links):
            places = [place for place, holder in enumerate(links) if holder is link]
            mine = [items[place] for place in places]
            told = await (getattr(link, name)(mine) if link else getattr(self.inner, name)(who, mine))
            answers |= dict(zip(places, told, strict=True))
        return [answers[place] for place in range(len(items))]

    return write


def _passed_on(name: str) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(getattr(Store, name)):

        async def call(self: Any, /, *args: Any, **named: Any) -> Any:
            return await getattr(self.inner, name)(*args, **named)

        return call

    def ask(self: Any, /, *args: Any, **named: Any) -> Any:
        return getattr(self.inner, name)(*args, **named)

    return ask


def far_store(inner: Store, clock: Clock, workers: Workers) -> Store:
    own = {name: getattr(FarStore, name) for name in vars(FarStore) if not name.startswith("__")}
    writes = {name: _write(name) for name in worker_link.VERBS if name not in own}
    rest = passed_on().keys() - {*own, *writes}
    methods = {**own, **writes, **{name: _passed_on(name) for name in rest}, "__init__": FarStore.__init__}
    values = {"inner": inner, "clock": clock, "workers": workers}
    made: Store = type("FarStore", (Store,), {**methods, **values})()
    return made


class FarSqlite(SqliteFile):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.workers = Workers()

    def store(self, chance: Chance) -> Store:  # type: ignore[override]
        return far_store(super().store(chance), self.clock, self.workers)

    async def prepare(self, store: Store) -> None:
        await super().prepare(store.inner)  # type: ignore[attr-defined]


class FarPostgres(Postgres):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.workers = Workers()

    def store(self, chance: Chance) -> Store:  # type: ignore[override]
        return far_store(super().store(chance), self.clock, self.workers)

    async def prepare(self, store: Store) -> None:
        await super().prepare(store.inner)  # type: ignore[attr-defined]
