"""Steps of requests with an idempotency key: read as a whole, and added beside the writes that keep their own."""

from __future__ import annotations

from rota.model.times import Duration
from rota.store.carriers.unit import Unit
from rota.store.repeats import KeptStep
from rota.store.verbs import KEEP_REPEAT


async def steps(unit: Unit, user: str, key: str) -> list[KeptStep]:
    rows = await unit.rows("kept_repeats", owner=user, key=key, now=unit.now)
    return [KeptStep(*row) for row in rows]


async def seal(unit: Unit, user: str, key: str, step: KeptStep, life: Duration) -> bool:
    return bool(
        await unit.run(
            KEEP_REPEAT, owner=user, key=key, step=step.step, route=step.route, digest=step.digest,
            content=step.content, life=life, now=unit.now,
        )
    )  # fmt: skip
