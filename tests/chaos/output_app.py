"""The app of nodes in runs about output: they seal early, and may lack a safeguard, which the checker must notice."""

from __future__ import annotations

import os
from typing import Any

from rota.control import sealer
from rota.control.sealer import Rules, Sealer
from rota.logs.replayer import LOOK, Replayer
from rota.model.times import SECOND
from rota.store.values import Chunk
from tests.chaos.output_tasks import app

__all__ = ["MUTANT", "MUTANTS", "app"]

MUTANT = "CHAOS_MUTANT"

Sealer.__init__.__defaults__ = (Rules(target=16 << 10, settled=SECOND // 2, wait=SECOND),)
sealer.REST = sealer.SOON = 0.5


def _forgets() -> None:
    """What dead nodes have left is not replayed."""

    async def tick(_: Replayer) -> float:
        return LOOK

    Replayer.tick = tick  # type: ignore[method-assign,assignment]


def _loses() -> None:
    """A segment lacks a chunk of those that it replaces."""
    pack = Sealer._pack

    async def packed(self: Sealer, chunks: list[Chunk], *rest: Any) -> Any:
        return await pack(self, chunks[:-1] if len(chunks) > 1 else chunks, *rest)

    Sealer._pack = packed  # type: ignore[method-assign,assignment]


MUTANTS = {"forgets": _forgets, "loses": _loses}
if chosen := os.environ.get(MUTANT):
    MUTANTS[chosen]()
