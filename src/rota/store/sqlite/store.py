"""The embedded store: the contract of `store.base`, carried out on one SQLite file.

`claim = writes(work.claim)` names the function that carries a verb out: `sqlite.calls` runs it, and the contract says
who may call it. Verbs that need the store itself (locks of nodes, its settings, several writes) are methods.
`carriers.store` has the verbs that all stores carry out alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rota.model.job import NewJob
from rota.model.node import NewNode, NodeInfo
from rota.model.outcome import CrashRule
from rota.model.principal import Principal
from rota.model.task import TaskInfo
from rota.store.base import Store, tell_nobody
from rota.store.carriers import fires as fires_
from rota.store.graph import Settled

# A trailing underscore distinguishes a module from the verb of the same name.
from rota.store.sqlite import admission, doctor, graph, log_search, migrate, offers, work
from rota.store.sqlite import nodes as nodes_
from rota.store.sqlite import orders as orders_
from rota.store.sqlite import reads as reads_
from rota.store.sqlite.calls import Calls, looks_first
from rota.store.sqlite.schedules import SqliteFires
from rota.store.sqlite.unit import at_once
from rota.store.values import Answer, Finding, Retention
from rota.store.verbs import audited, once, reads, verbs, writes

_VERBS = verbs(Store)
_submit = once(audited(_VERBS["submit"], orders_.submit))
_purge = once(audited(_VERBS["purge"], orders_.purge))


class SqliteStore(Calls):
    # -- life of the store -------------------------------------------------------------------------------------------
    async def migrate(self, tell: Callable[[str], None] = tell_nobody) -> tuple[int, int]:
        """`tell` is not used: a process that holds the write lock for long is an error, not a wait."""
        return await self._run(True, lambda: migrate.migrate(self._write_side()))

    async def open(self) -> None:
        await self._run(True, lambda: migrate.check(self._write_side()))

    async def examine(self) -> list[Finding]:
        return await self._run(False, lambda: doctor.examine(self._read_side()))

    # -- orders ------------------------------------------------------------------------------------------------------
    replay = writes(orders_.replay)

    async def submit(self, who: Principal, /, orders: Sequence[Sequence[NewJob]]) -> list[Answer]:
        return await self._write(_submit, who, orders, self._key_life)

    async def purge(self, who: Principal, /, ids: Sequence[str]) -> list[bool]:
        while await self._read(graph.unsettled, ids):
            await self._write(graph.settle_piece)  # in pieces: no write is long, however many children there are
        return await self._write(_purge, who, ids)

    # -- running -----------------------------------------------------------------------------------------------------
    claim = writes(work.claim)
    start = writes(work.start)
    hand_back = writes(work.hand_back)
    finish = writes(work.finish)
    append_output = writes(work.append_output)
    note = writes(work.note)

    # -- nodes -------------------------------------------------------------------------------------------------------
    renew = writes(nodes_.renew)
    rescue = writes(nodes_.departures.rescue)

    async def register(
        self, who: Principal, /, node: NewNode, tasks: Sequence[TaskInfo], replaces: Sequence[str] = ()
    ) -> None:
        if self.node_locks and node.access is None:
            self.node_locks.hold(node.incarnation)
        try:
            await self._write(nodes_.register, node, tasks, replaces, self._gone)
        except BaseException:
            if self.node_locks:
                self.node_locks.drop(node.incarnation)
            raise
        if self.node_locks:
            for incarnation in replaces:
                self.node_locks.drop(incarnation)

    async def leave(self, who: Principal, /, incarnation: str) -> None:
        await self._write(nodes_.leave, incarnation)
        if self.node_locks:
            self.node_locks.drop(incarnation)

    async def take_over(
        self, who: Principal, /, incarnation: str, beats: int | None, rule: CrashRule
    ) -> list[str] | None:
        if beats is None and not self._gone(incarnation):
            return None
        moved = await self._write(nodes_.take_over, incarnation, beats, rule)
        if moved is not None and self.node_locks and beats is None:
            self.node_locks.forget(incarnation)
        return moved

    async def nodes(self, who: Principal, /, past: bool = False) -> list[NodeInfo]:
        return await self._read(nodes_.nodes, who, past, self._gone)

    def guards(self, incarnation: str) -> Sequence[int]:
        return self.node_locks.descriptors(incarnation) if self.node_locks else ()

    def _gone(self, incarnation: str) -> bool:
        return self.node_locks is not None and self.node_locks.gone(incarnation)

    # -- shelves -----------------------------------------------------------------------------------------------------
    promote = looks_first(nodes_.nothing_due, nodes_.promote)
    promote_jobs = looks_first(nodes_.none_due, nodes_.promote_jobs)

    async def prune(self, who: Principal, /, retention: Retention, limit: int) -> int:
        if self._wakeups and self.node_locks:
            self._wakeups.sweep()
            self.node_locks.sweep({node.incarnation for node in await self.nodes(who)})
        pruned = await self._write(nodes_.prune, retention, limit)
        if (place := self._old_workflows.place) is not None:
            looked, deleted, last = await self._write(nodes_.sweep_workflows, place, retention.ended)
            more = self._old_workflows.went(looked, last)
            pruned += deleted or int(more)
        if (place := self._dead_letters.place) is not None:
            looked, grouped, last = await self._write(nodes_.group_dead_letters, place)
            pruned += grouped or int(self._dead_letters.went(looked, last))
        return pruned

    # -- functions that nodes offer ----------------------------------------------------------------------------------

    async def make_known(self, who: Principal, /, tasks: Sequence[TaskInfo]) -> None:
        if new := await self._read(offers.unknown, tasks):  # mostly none: then no write lock is needed
            await self._write(offers.make_known, new)

    # -- admission ---------------------------------------------------------------------------------------------------
    admit = looks_first(admission.nothing_to_admit, admission.admit)

    # -- fires of schedules ------------------------------------------------------------------------------------------
    make_fires = writes(SqliteFires().make_fires)
    advance = writes(SqliteFires().advance)
    release = looks_first(at_once(fires_.nothing_waits), at_once(fires_.release))

    # -- jobs that wait for others -----------------------------------------------------------------------------------
    async def settle(self, who: Principal, /, limit: int) -> Settled:
        return await self._commit(lambda db: graph.settle_any(db, limit))

    # -- log store ---------------------------------------------------------------------------------------------------
    segments = reads(log_search.segments)
    segment_extent = reads(log_search.segment_extent)
    unsealed = reads(log_search.unsealed)

    # -- reads -------------------------------------------------------------------------------------------------------
    get_many = reads(reads_.get_many)
    page = reads(reads_.page)
    count = reads(reads_.count)
    counted = reads(reads_.counted)
    facets = reads(reads_.facets)
    values = reads(reads_.values)
    resolve = reads(reads_.resolve)
    error_groups = reads(reads_.error_groups)
