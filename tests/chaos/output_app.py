"""The app of nodes in runs about output: they seal early, and may lack a safeguard, which the checker must notice."""

from __future__ import annotations

import os
from typing import Any

from msgspec.structs import replace

from rota.control import sealer
from rota.control.sealer import Rules, Sealer
from rota.logs import recovery
from rota.logs.replayer import LOOK, Replayer
from rota.model.times import SECOND
from rota.store.values import Chunk
from tests.chaos.app import app

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


def _renumbers() -> None:
    """A replay gives new numbers to what was sent before, so the store does not know it."""
    rebuilt = recovery.rebuilt

    def anew(*given: Any) -> list[Chunk]:
        return [replace(chunk, number=chunk.number + 1_000_000) for chunk in rebuilt(*given)]

    recovery.rebuilt = anew  # type: ignore[assignment]


MUTANTS = {"forgets": _forgets, "loses": _loses, "renumbers": _renumbers}
if chosen := os.environ.get(MUTANT):
    MUTANTS[chosen]()
