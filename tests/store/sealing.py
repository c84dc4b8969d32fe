"""Seals all output at once, by the service that does it in a node."""

from __future__ import annotations

from collections.abc import Sequence

from rota.clock import Chance
from rota.control.sealer import REST, Rules, Sealer
from rota.lines.segment import Packed, pack
from rota.model.times import DAY
from rota.store.base import Store
from rota.store.log_store import LogRetention
from rota.store.values import Chunk

KEPT = LogRetention(7 * DAY, 90 * DAY)
AT_ONCE = Rules(settled=0, wait=0)


async def inline(chunks: Sequence[Chunk]) -> Packed:
    return pack(chunks)


def make_sealer(store: Store, retention: LogRetention = KEPT, rules: Rules = AT_ONCE) -> Sealer:
    return Sealer(store, Chance(), retention, lambda: True, inline, rules)


async def run(sealer: Sealer) -> None:
    """Until there is nothing more to do."""
    while await sealer.tick() != REST:
        pass
