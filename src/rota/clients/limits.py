"""The client for gates, limits and queues. `App.admissions()` and the command line use it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rota.clock import Chance
from rota.errors import InvalidInput, NotFound
from rota.model.feedback import read_feedback
from rota.model.gates import Effect, Gate, Match, match
from rota.model.job import queue_name
from rota.model.limits import Limit, concurrency, key_name, rate
from rota.model.principal import Principal
from rota.model.rank import ageing_step
from rota.model.readers import printable, whole
from rota.model.times import Instant, instant
from rota.store.admission import FlowInfo, LimitInfo, NewGate, QueueInfo
from rota.store.base import Store

LONGEST_REASON = 1_000
_EXPECTED_REASON = f"a text of up to {LONGEST_REASON} printable characters"
MOST_SHOWN = 1_000_000


def gate_reason(given: object) -> str:
    text = given.strip() if isinstance(given, str) and given.isprintable() else None
    if text is None or not 0 < len(text) <= LONGEST_REASON:
        raise InvalidInput("reason", given, _EXPECTED_REASON)
    return text


def queue_note(given: object) -> str:
    return printable(given, "note", 0, LONGEST_REASON, _EXPECTED_REASON)


class LimitsClient:
    def __init__(self, store: Store, who: Principal, chance: Chance) -> None:
        self._store, self._who, self._chance = store, who, chance

    async def pause(self, *, reason: object, until: object = None, **which: Any) -> Gate:
        """Holds matching jobs until the gate opens: `task="mail.*"` (a glob), `queue`, `user`, `label`, or
        `everything=True`. Running jobs go on."""
        return await self._close(Effect.PAUSE, match(**which), reason, until)

    async def drop(self, *, reason: object, until: object = None, **which: Any) -> Gate:
        """Ends matching jobs, waiting ones and new ones, as `dropped`, until the gate opens."""
        return await self._close(Effect.DROP, match(**which), reason, until)

    async def _close(self, effect: Effect, which: Match, reason: object, until: object) -> Gate:
        text = gate_reason(reason)
        now = self._store.now()
        end: Instant | None = None if until is None else instant(until, "until")
        if end is not None and end <= now:
            raise InvalidInput("until", until, "a time to come")
        if which.user is not None and self._who.sees not in (None, which.user):
            raise InvalidInput("user", which.user, f"{self._who.user!r}: a gate concerns its author's own jobs")
        (gate_id,) = self._chance.job_ids(now, 1)
        return await self._store.close_gate(self._who, NewGate(gate_id, which, effect, text, end))

    async def open(self, gate: str | Gate) -> Gate:
        """Opens this gate, or the one whose id begins or ends with this text; its held jobs go on."""
        part = gate.id if isinstance(gate, Gate) else gate
        if not isinstance(part, str):
            raise InvalidInput("gate", part, "a gate or its id")
        low = part.lower()
        fitting = [one for one in await self.gates() if low and (one.id.startswith(low) or one.id.endswith(low))]
        if not fitting:
            raise NotFound("gate", part)
        if len(fitting) > 1:
            raise InvalidInput("gate", part, f"an id that fits one only; it fits {fitting[0].id} and {fitting[1].id}")
        if fitting[0].job is not None:
            whose = (
                f"one that a person has closed; this is of job {fitting[0].job}, which wants to be alone: cancel that"
            )
            raise InvalidInput("gate", part, whose)
        await self._store.open_gate(self._who, fitting[0].id)
        return fitting[0]

    async def gates(self) -> list[Gate]:
        return await self._store.gates(self._who)

    async def set_limit(
        self, key: str, *, at_once: object = None, starts: object = None, version: str | None = None
    ) -> Limit:
        """Bounds holders (`at_once=5`), starts per window (`starts="60/1m"`), or both. It replaces the bounds that jobs
        bring, at once."""
        if at_once is None and starts is None:
            raise InvalidInput("limit", key, "how many at once, how many starts per window, or both")
        limit = Limit(
            key_name(key),
            None if at_once is None else concurrency(at_once, "at_once"),
            None if starts is None else rate(starts),
        )
        await self._store.set_limit(self._who, limit, version)
        return limit

    async def remove_limit(self, key: str, version: str | None = None) -> None:
        if not await self._store.remove_limit(self._who, key_name(key), version):
            raise NotFound("limit", key)

    async def limits(self, keys: Sequence[str] | None = None) -> list[LimitInfo]:
        """These keys, or up to 1,000 that have a limit, are held or are waited for."""
        if keys is not None and not isinstance(keys, list | tuple | set | frozenset):
            raise InvalidInput("keys", keys, "a list of keys")
        return await self._store.limits(self._who, None if keys is None else [key_name(key) for key in keys])

    async def pause_queue(self, name: str, note: object = "") -> None:
        """No job of the queue starts until it is resumed. Running jobs go on."""
        await self._store.pause_queue(self._who, queue_name(name), queue_note(note))

    async def resume_queue(self, name: str) -> bool:
        return await self._store.resume_queue(self._who, queue_name(name))

    async def set_step(self, name: str, step: object, version: str | None = None) -> None:
        """The ageing step of the queue: a duration (`0s`: first come, first served), `strict`, or `default`."""
        await self._store.set_step(self._who, queue_name(name), ageing_step(step), version)

    async def set_feedback(
        self,
        name: str,
        on: bool = True,
        *,
        quantum: object = None,
        levels: object = None,
        boost: object = None,
        version: str | None = None,
    ) -> None:
        """Feedback levels: flows (mostly a user's jobs of a task) that use many slots fall behind the others."""
        if on not in (True, False):
            raise InvalidInput("on", on, "True or False")
        given = {"quantum": quantum, "levels": levels, "boost": boost}
        rule = read_feedback(**{what: value for what, value in given.items() if value is not None})
        await self._store.set_feedback(self._who, queue_name(name), rule if on else None, version)

    async def flows(self, limit: int = 100) -> list[FlowInfo]:
        return await self._store.flows(self._who, whole(limit, "limit", 1, MOST_SHOWN))

    async def queues(self) -> list[QueueInfo]:
        return await self._store.queues(self._who)
