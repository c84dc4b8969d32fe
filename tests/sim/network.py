"""The network between one machine and a server, and what goes wrong on it.

A packet takes a moment. While a direction is cut, packets wait: the kernel sends them again when the cut is mended, and
gives up after a while (TCP_USER_TIMEOUT). So a request may arrive long after its caller has given up waiting for it.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

import asyncpg

from tests.sim.loop import Process
from tests.sim.wire import WRITES

if TYPE_CHECKING:
    from tests.sim.world import World

GIVE_UP = 10.0
REFUSALS = ("28P01", "42501", "3D000", "53200", "58030", "XX000", "42P01", "25006", "26000", "ZZ999")
# After so long without a sign from the other side a server ends a connection (keepalive: 5 s idle, 3 probes of 2 s).
KEEPALIVE = 11.0


class Link:
    def __init__(self, world: World, name: str) -> None:
        self._world, self.name = world, name
        self._rng = Random(f"{world.plan.seed}/link/{name}")
        self.up = self.down = True  # towards the server, and back
        self.cuts = 0
        self._kept: list[tuple[float, bool, Callable[[], None]]] = []

    def cut(self, up: bool, down: bool, seconds: float) -> None:
        self.up, self.down = self.up and not up, self.down and not down
        self.cuts += 1
        number = self.cuts
        self._world.witness.note(self.name, "cut", up=up, down=down, seconds=seconds)
        self._world.later(seconds, lambda: self.mend() if self.cuts == number else None)
        self._world.later(KEEPALIVE, lambda: self._silent() if self.cuts == number and not self.whole else None)

    def mend(self) -> None:
        if self.whole:
            return
        self.up = self.down = True
        self._world.witness.note(self.name, "mended")
        kept, self._kept = self._kept, []
        for sent, up, act in kept:
            if self._world.loop.time() - sent < GIVE_UP:
                self._world.later(self._rng.uniform(0, 1), self._arrive, up, act)

    @property
    def whole(self) -> bool:
        return self.up and self.down

    def _silent(self) -> None:
        if self._world.server:
            self._world.server.hear_nothing_of(self)

    def carry(self, up: bool, latency: float, act: Callable[[], None]) -> None:
        self._world.later(latency, self._arrive, up, act)

    def _arrive(self, up: bool, act: Callable[[], None]) -> None:
        if self.up if up else self.down:
            act()
        else:
            self._kept.append((self._world.loop.time(), up, act))


class Port:
    """One process's end of the link: a node's or the customer's."""

    def __init__(self, world: World, name: str, link: Link, process: Process | None) -> None:
        self._world, self.name, self.link, self.process = world, name, link, process
        self.context = process.context if process else contextvars.copy_context()
        self._rng = Random(f"{world.plan.seed}/wire/{name}")
        self._refusals = Random(f"{world.plan.seed}/refusals/{name}")
        self.healed = world.healed
        self._traps: dict[tuple[str, str], Callable[[], None]] = {}

    def heal(self) -> None:
        self.healed = True
        self.link.mend()

    def set_trap(self, verb: str, moment: str, act: Callable[[], None]) -> None:
        """The next time such a call is "sent" or "applied" (and not yet answered), `act` is called, once."""
        self._traps[verb, moment] = act

    def passes(self, verb: str, moment: str) -> None:
        if act := self._traps.pop((verb, moment), None):
            act()

    def send(self, act: Callable[[], None]) -> None:
        self.link.carry(True, self._latency(), act)

    def reply(self, act: Callable[[], None]) -> None:
        self.link.carry(False, self._latency(), act)

    def tell(self, act: Callable[[], None]) -> None:
        """An ending or a notice: nothing that a slow statement could hold up."""
        self.link.carry(False, self._rng.uniform(0.0001, 0.0005), act)

    def mishap(self) -> str | None:
        """What becomes of a packet: `reset` ends the connection, `hang` loses the packet without a word."""
        if self.healed:
            return None
        plan, drawn = self._world.plan, self._rng.random()
        if drawn < plan.error_rate / 2:
            return "reset"
        return "hang" if drawn < (plan.error_rate + plan.hang_rate) / 2 else None

    def refusal(self, verb: str) -> asyncpg.PostgresError | None:
        """What a server in trouble says to a write: of authentication, rights, files, memory, or of nothing known."""
        if verb not in WRITES or self.healed or self._refusals.random() >= self._world.plan.refuse_rate:
            return None
        self._world.witness.note(self.name, "refused", verb=verb)
        fields = {"S": "ERROR", "C": self._refusals.choice(REFUSALS), "M": "simulated: something is broken"}
        refusal: asyncpg.PostgresError = asyncpg.PostgresError.new(fields)
        return refusal

    def deaf(self) -> bool:
        return not self.healed and self._rng.random() < self._world.plan.deaf_rate

    def _latency(self) -> float:
        if not self.healed and self._rng.random() < self._world.plan.slow_rate:
            return self._rng.uniform(0.05, 3)
        return self._rng.uniform(0.0001, 0.002)
