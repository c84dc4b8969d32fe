"""Repeats of writes: what the store keeps of requests that carry an idempotency key (`model.repeats`)."""

from __future__ import annotations

from abc import abstractmethod

import msgspec

from rota.model.principal import Principal
from rota.model.times import Duration
from rota.store.verbs import NODE, READ, WRITE, Verbs, verb


class KeptStep(msgspec.Struct, frozen=True):
    """What one write of a request has left. `content`: None if it was too large."""

    step: int
    route: str
    digest: str
    content: bytes | None


class Repeated(Verbs):
    """Writes keep their steps themselves (`verbs.once`). These verbs are for API nodes."""

    @verb(READ, NODE, "look up repeats of")
    @abstractmethod
    async def repeat_steps(self, who: Principal, /, user: str, key: str) -> list[KeptStep]:
        """The steps of a user's request with this key (`model.repeats.key_name`), in order; none once it expired."""

    @verb(WRITE, NODE, "keep repeats of")
    @abstractmethod
    async def seal_repeat(self, who: Principal, /, user: str, key: str, step: KeptStep, life: Duration) -> bool:
        """Keeps a last step that has no write: what a request has read after its last one. False: another
        try has kept that step before."""
