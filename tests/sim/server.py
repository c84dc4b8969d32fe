"""A PostgreSQL server, played: sessions, advisory locks, notifications, restarts. Its tables are an SQLite store.

What a statement would do is done by the verb of the SQLite store that has the same name. What PostgreSQL knows beyond
that, who holds which lock and what the rows of nodes say about it, is kept here, by the rules of `nodes.sql`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from inspect import signature
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from rota.model.node import NodeInfo
from rota.model.times import as_instant
from rota.store.base import Store
from rota.store.log_store import Purged, RunPage
from rota.store.postgres import PostgresStore, nodes
from rota.store.postgres.session import GRACE, lock_number
from rota.store.sqlite import SqliteStore
from rota.store.values import Topic
from rota.store.verbs import verbs
from tests.sim.mutants import GRACE_IGNORED, IDENTITY_IGNORED
from tests.sim.network import Link
from tests.sim.wire import finish
from tests.sim.witness import Cause

if TYPE_CHECKING:
    from tests.sim.driver import Line
    from tests.sim.world import World

# Verbs of which this server knows more than the tables.
PLAYED = ("register", "renew", "nodes")
# Of schemas and partitions there are none. Other parts of a prune, and of a purge, than these the verb itself does.
# There is never a step to tally, or output to count or to seal: nothing that is checked here depends on that.
NOTHING: dict[str, Any] = {
    "check": None, "needs": (False, []), "old_rows": 0, "old_events": 0, "sweep": (0, 0, []), "settle_piece": False,
    "next_step": None, "next_counts": [], "runs": RunPage([], None), "small_segments": [],
    "purged_output": Purged([], []), "prune_output": 0, "group_errors": 0,
}  # fmt: skip


class Answer(NamedTuple):
    value: Any
    topics: set[Topic]
    now: int


@cache
def verbs_by_deed() -> dict[Callable[..., Any], str]:
    """The verb that a function of the PostgreSQL store carries out, or is a part of."""
    methods = {name: getattr(PostgresStore, name).method for name in verbs(PostgresStore)}
    return {nodes.old_jobs: "prune"} | {
        method.carrier: name for name, method in methods.items() if hasattr(method, "carrier")
    }


@cache
def shape(deed: Callable[..., Any]) -> tuple[str, bool, int | None]:
    """The verb, whether the function is given its principal, and how many arguments the verb has: those that follow are
    notebooks of the store."""
    verb = verbs_by_deed().get(deed, deed.__name__)
    count = None if verb in PLAYED or verb in NOTHING else len(signature(getattr(Store, verb)).parameters) - 1
    return verb, "who" in signature(deed).parameters, count


class Server:
    def __init__(self, world: World, store: SqliteStore) -> None:
        self._world, self._store = world, store
        self._boots = 1
        self.up = True
        self._lines: list[Line] = []
        self._owners: dict[int, Line] = {}  # of locks
        self._rows: dict[str, str | None] = {}  # incarnation -> on which server its row says that it holds its lock
        self._topics: set[Topic] = set()
        self._joining = False

    def listen(self) -> None:
        for topic in Topic:
            self._store.listen(frozenset({topic}), partial(self._topics.add, topic))

    @property
    def identity(self) -> str:
        return f"server-{self._boots}"

    # -- connections -------------------------------------------------------------------------------------------------
    def admit(self, line: Line) -> None:
        self._lines.append(line)

    def dismiss(self, line: Line) -> None:
        if line in self._lines:
            self._lines.remove(line)
        self._owners = {number: owner for number, owner in self._owners.items() if owner is not line}

    def sessions(self, link: Link) -> list[Line]:
        return [line for line in self._lines if line.port.link is link and line.listener]

    def hear_nothing_of(self, link: Link) -> None:
        for line in [line for line in self._lines if line.port.link is link]:
            line.end("silence")

    def restart(self, seconds: float) -> None:
        self.up = False
        self._world.witness.note("server", "down", seconds=seconds)
        for line in list(self._lines):
            line.end("restart")
        self._world.later(seconds, self.start)

    def start(self) -> None:
        if not self.up:
            self.up = True
            self._boots += 1
            self._world.witness.note("server", "up", identity=self.identity)

    # -- locks -------------------------------------------------------------------------------------------------------
    def lock(self, line: Line, number: int) -> bool:
        if self._is_free(number):
            self._owners[number] = line
        return self._owners[number] is line

    def unlock(self, line: Line, number: int) -> None:
        if self._owners.get(number) is line:
            del self._owners[number]

    def _is_free(self, number: int) -> bool:
        owner = self._owners.get(number)
        if owner is not None and owner.orphaned and owner.port.link.up:
            owner.end("death")
        return number not in self._owners

    def _deserted(self, incarnation: str) -> bool:
        named = self._rows.get(incarnation)
        if named is None or (named != self.identity and self._world.mutant != IDENTITY_IGNORED):
            return False
        return self._is_free(lock_number("rota", incarnation))

    @property
    def _grace(self) -> int:
        return 0 if self._world.mutant == GRACE_IGNORED else GRACE

    # In the place of node_locks.NodeLocks, for the SQLite store:
    def gone(self, incarnation: str) -> bool:
        found = "SELECT seen_at, lease FROM nodes WHERE incarnation = ? AND state IN ('live', 'stopping')"
        row: Any = self._store._write_side().connection.execute(found, (incarnation,)).fetchone()
        if row is None:
            return False
        silent = self._store.now() - row[0]
        # Whoever joins may have the id of one that was silent for its lease: there may be nobody to say it is dead.
        return (self._deserted(incarnation) and silent >= self._grace) or (self._joining and silent > row[1])

    def hold(self, incarnation: str) -> None:
        """That is the session's business."""

    drop = forget = hold

    # -- statements --------------------------------------------------------------------------------------------------
    def carry_out(self, who: str, verb: str, args: Sequence[Any], cause: Cause) -> Answer:
        self._topics.clear()
        if verb in NOTHING:
            return Answer(NOTHING[verb], set(), self._store.now())
        call = getattr(self, f"_{verb}") if verb in PLAYED else getattr(self._store, verb)
        try:
            value = finish(call(*args))
        except Exception:
            self._world.witness.rolled_back()
            raise
        self._world.witness.applied(who, verb, args, value, cause)
        return Answer(value, set(self._topics), self._store.now())

    async def _register(self, who: Any, node: Any, tasks: Any, replaces: Any, server: str | None) -> None:
        self._joining = True
        try:
            await self._store.register(who, node, tasks, replaces)
        finally:
            self._joining = False
        self._rows[node.incarnation] = server

    async def _renew(self, who: Any, incarnation: str, stopping: bool, server: str | None) -> Any:
        news = await self._store.renew(who, incarnation, stopping)
        if news.known:
            self._rows[incarnation] = server
        return news

    async def _nodes(self, who: Any, past: bool, own: Sequence[str]) -> list[NodeInfo]:
        return [self._seen(node, node.incarnation in own) for node in await self._store.nodes(who, past)]

    def _seen(self, node: NodeInfo, own: bool) -> NodeInfo:
        free = node.state in ("live", "stopping") and not own and self._deserted(node.incarnation)
        left = max(0, as_instant(node.seen_at) + self._grace - self._store.now()) if free else None
        return msgspec.structs.replace(node, gone=left == 0, fading=left or None)

    def notify(self, channel: str, payload: str) -> None:
        for line in self._lines:
            if line.listener and not line.port.deaf():
                line.port.tell(partial(line.hear, channel, payload))
