"""How a worker's slots are shared between its queues; idle slots are lent to busy queues.

A queue has a share of the slots. Free slots go, in this order, to
1. busy queues that run less than their share: the share is a promise;
2. one slot for each idle queue, so that a job that arrives there need not wait for a long job of another queue;
3. busy queues beyond their share, in proportion to the shares: lent until those jobs end.

Running jobs are never stopped for it: a queue that wakes up gets its one slot at once, and the rest of its share as
lent slots become free. With three or more queues, a queue that wakes up may meanwhile use (by 1) the slots kept by 2.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping


def wants(
    shares: Mapping[str, int], running: Mapping[str, int], dry: Collection[str], lend: bool = True
) -> dict[str, int]:
    """How many more jobs to ask for of each queue; together never more than there are free slots.

    `running` may exceed the share by lent slots. `dry` are the queues whose last claim found fewer jobs than asked for.
    They are asked again only for free slots that no other queue uses.
    """
    short = {queue: max(0, share - running.get(queue, 0)) for queue, share in shares.items()}
    if not lend:
        return short
    free = max(0, sum(shares.values()) - sum(running.values()))
    busy = [queue for queue in shares if queue not in dry]
    idle = [queue for queue in shares if queue in dry]

    own = _part(free, {queue: short[queue] for queue in busy})
    free -= sum(own.values())
    keepers = [queue for queue in idle if len(shares) > 1 and shares[queue] and not running.get(queue, 0)]
    kept = _part(free, dict.fromkeys(keepers, 1))
    free -= sum(kept.values())
    lent = _lent(free, {queue: shares[queue] for queue in busy}, running)
    free -= sum(lent.values())
    asked = _part(free, {queue: short[queue] - kept.get(queue, 0) for queue in idle})
    return {queue: sum(of.get(queue, 0) for of in (own, kept, lent, asked)) for queue in shares}


def _lent(slots: int, shares: Mapping[str, int], running: Mapping[str, int]) -> dict[str, int]:
    """The *total* of lent slots follows the shares. Lending each freed slot alone would always favour the largest."""
    before = {queue: max(0, running.get(queue, 0) - share) for queue, share in shares.items()}
    weights = shares if any(shares.values()) else dict.fromkeys(shares, 1)
    aim = _divided(slots + sum(before.values()), weights)
    return _part(slots, {queue: max(0, aim[queue] - before[queue]) for queue in aim})


def _part(slots: int, needs: Mapping[str, int]) -> dict[str, int]:
    """The needs, or a proportional part of them if there are too few slots."""
    return dict(needs) if sum(needs.values()) <= slots else _divided(slots, needs)


def _divided(slots: int, weights: Mapping[str, int]) -> dict[str, int]:
    """By largest remainder, ties by name. Nothing if there is no weight at all."""
    total = sum(weights.values())
    if not total:
        return dict.fromkeys(weights, 0)
    parts = {queue: slots * weight // total for queue, weight in weights.items()}
    by_remainder = sorted(weights, key=lambda queue: (-(slots * weights[queue] % total), queue))
    for queue in by_remainder[: slots - sum(parts.values())]:
        parts[queue] += 1
    return parts
