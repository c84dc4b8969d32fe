"""Admission: jobs that gates, keys, ranks or jobs that run alone hold back. Functions of the database decide on claims
(`admit_claim`) and on lines (`hand_on`)."""

from __future__ import annotations

from collections.abc import Sequence

from rota.model.admission import LOOK_AGAIN, YIELDED, AloneStep, alone_step
from rota.model.job import Kind
from rota.model.requirements import read_requirements
from rota.model.times import Duration, Instant
from rota.store.admission import Admitted
from rota.store.carriers import quotas
from rota.store.postgres.database import Unit
from rota.store.values import Topic

# Jobs at the front of a queue that are checked together when gates or full keys block it.
FRONT = 2_000
# Jobs that are ranked anew together.
PUT_RIGHT = 5_000
# Pause between two checks whether the claims that don't know of a gate have ended.
LOOK_AT_CLAIMS: Duration = 50_000


async def put_right(unit: Unit, ids: Sequence[str]) -> None:
    """Corrects the ranks of jobs that a claim found at a wrong rank, and of similar jobs behind them."""
    step = unit.database.ageing_step
    names = [name for (name,) in await unit.rows("queues_of", ids=ids)]
    if names:
        await unit.run("rank_those", ids=ids, step=step)  # `rank_anew` may not reach that far
        await unit.value("rank_anew", names=names, step=step, most=PUT_RIGHT, reach=PUT_RIGHT)
    await unit.value("put_back", ids=ids, step=step, most=PUT_RIGHT)


async def clear_front(unit: Unit, incarnation: str, queues: Sequence[str], kinds: Sequence[Kind], keys: bool) -> None:
    """Moves jobs aside that closed gates fit at the front of these queues; with `keys` also jobs that need full
    keys."""
    names = {"queues": list(queues), "kinds": [kind.value for kind in kinds], "incarnation": incarnation}
    front = [job for (job,) in await unit.rows("gated_front", now=unit.now, most=FRONT, **names)]
    if front:
        await unit.rows("admit_claim", ids=front, incarnation=incarnation, now=unit.now, only_gates=True, step=0)
    if keys:
        await unit.run("hold_full_front", now=unit.now, most=FRONT, **names)


async def admit(unit: Unit, limit: int) -> Admitted:
    moved, more = 0, False
    instants: list[int] = []
    for name, values in (("sweep_gates", {}), ("hand_on", {"every": False}), ("hand_on", {"every": True})):
        row = await unit.row(name, now=unit.now, most=limit, **values)
        assert row is not None
        moved += row["moved"]
        more |= row["more"]
        instants += [] if row["next_at"] is None else [row["next_at"]]
    await quotas.adopt(unit)
    let_go, look_again = await sweep_alone(unit)
    moved += let_go
    instants += [] if look_again is None else [look_again]
    step = unit.database.ageing_step
    names = [name for (name,) in await unit.rows("stepped_queues", step=step, now=unit.now)]
    ranked = await unit.value("rank_anew", names=names, step=step, most=limit, reach=None) if names else 0
    await unit.run("boost", now=unit.now)
    ranked += await unit.run("rank_strays", step=step, most=limit)
    forward = ranked + await unit.run("put_forward", step=unit.database.ageing_step, most=limit)
    upcoming = await unit.value("next_boost")
    instants += [] if upcoming is None else [upcoming]
    if moved or forward:
        unit.topics |= {Topic.READY, Topic.DUE, Topic.NEWS}
    return Admitted(moved + forward, more or forward >= limit, min(instants, default=None))


async def sweep_alone(unit: Unit) -> tuple[int, Instant | None]:
    """Like `store.sqlite.alone.sweep`, but only after the claims that don't know of the gate have ended."""
    if not await unit.value("any_alone"):
        return 0, None
    await unit.begin()
    rows = await unit.rows("alone_jobs", now=unit.now)
    if not rows:  # other nodes have locked them
        return 0, None
    now: Instant = rows[0]["now"]
    unproved = [row["gate"] for row in rows if row["gate"] is not None and not row["proved"]]
    if unproved:
        await unit.run("note_claims", ids=unproved)
    alone = dict(await unit.rows("alone_of", ids=[row["id"] for row in rows]))
    going: list[str] = []
    yielded = 0
    for row in rows:
        wish = read_requirements(row["requirements"]).alone
        match alone_step(wish, row["since"], alone[row["id"]], now):
            case AloneStep.GO:
                going.append(row["id"])
            case AloneStep.CANCEL:
                if await unit.run("cancel_beside", gate=row["gate"]):
                    unit.topics.add(Topic.CANCEL)
            case AloneStep.YIELD if wish is not None:
                yielded += await unit.run("yield_alone", id=row["id"], at=now + wish.drain, now=now, reason=YIELDED)
    if going:
        await unit.run("let_alone_go", ids=going)
    return len(going) + yielded, now + (LOOK_AT_CLAIMS if unproved else LOOK_AGAIN)
