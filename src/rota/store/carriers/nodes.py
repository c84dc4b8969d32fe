"""Nodes that have left or died: their jobs are moved on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from secrets import token_urlsafe
from typing import Generic, TypeVar

from rota.errors import InvalidInput
from rota.model.job import Ref
from rota.model.lifecycle import JobEvent
from rota.model.node import NewNode, NodeState
from rota.model.outcome import CrashRule, Settlement
from rota.store.carriers.unit import Unit
from rota.store.settlement import crash

U = TypeVar("U", bound=Unit)


def access_columns(node: NewNode) -> dict[str, str | None]:
    access = node.access
    return {"access_key": access.key if access else None, "access_user": access.user if access else None}


def taken(node: NewNode) -> InvalidInput:
    return InvalidInput("incarnation", node.incarnation, "one that no other node has used")


async def secret(unit: Unit, name: str) -> str:
    await unit.run("make_secret", name=name, value=token_urlsafe(32))
    found: str = await unit.value("secret", name=name)
    return found


class Departures(ABC, Generic[U]):
    """A store adds how it hands jobs back and ends attempts."""

    @abstractmethod
    async def hand_back(self, unit: U, refs: Sequence[Ref]) -> object: ...

    @abstractmethod
    async def finish(self, unit: U, settlements: Sequence[Settlement]) -> object: ...

    async def leave(self, unit: U, incarnation: str) -> None:
        await unit.begin()
        node_id = await self._end(unit, incarnation, NodeState.LEFT, None)
        if node_id is not None:
            await self._release(unit, incarnation, lambda crashes: JobEvent.INTERRUPT, "its node stopped", CrashRule())
            await unit.emit("node.left", "rota", node_id, {"incarnation": incarnation})

    async def take_over(self, unit: U, incarnation: str, beats: int | None, rule: CrashRule) -> list[str] | None:
        await unit.begin()
        node_id = await self._end(unit, incarnation, NodeState.DEAD, beats)
        if node_id is None:
            return None
        moved = await self._release(unit, incarnation, rule.after_crash, f"node {node_id} died", rule)
        await unit.emit("node.died", "rota", node_id, {"incarnation": incarnation, "jobs": len(moved)})
        return moved

    async def rescue(self, unit: U, rule: CrashRule) -> list[str]:
        moved: list[str] = []
        for (incarnation,) in await unit.rows("stray_holders"):
            await unit.begin()
            moved += await self._release(unit, incarnation, rule.after_crash, "no living node held it", rule)
        return moved

    async def _end(self, unit: U, incarnation: str, state: NodeState, beats: int | None) -> str | None:
        """Returns the id of the node; None: it is not alive, or has renewed since it had this number of beats."""
        await unit.rows("lock_node", incarnation=incarnation)
        found: str | None = await unit.value(
            "end_node", incarnation=incarnation, state=state.value, now=unit.now, beats=beats
        )
        return found

    async def _release(
        self, unit: U, incarnation: str, decide: Callable[[int], JobEvent], why: str, rule: CrashRule
    ) -> list[str]:
        """Moves on all jobs of an incarnation: started ones as crashed or interrupted, the others as never claimed."""
        held = await unit.rows("held_by", incarnation=incarnation)
        unstarted = [Ref(job, fence) for job, fence, started, _ in held if not started]
        crashed = [
            crash(job, fence, decide(crashes + 1), why, rule) for job, fence, started, crashes in held if started
        ]
        if unstarted:
            await self.hand_back(unit, unstarted)
        if crashed:
            await self.finish(unit, crashed)
        return [job for job, *_ in held]
