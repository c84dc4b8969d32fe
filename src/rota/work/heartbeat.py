"""Renews the node's lease about every second, and learns from the answer which attempts should stop.

Between two renewals it waits for nothing: it passes news on by calls that neither wait nor write.

It runs on the node's own loop, where no handler runs. When a renewal has not succeeded for too long, the attempts are
stopped while the lease still lasts; the keeper kills the rest at the deadline, also if this process is stopped or
stuck.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rota.clock import Clock
from rota.lease import BEAT, Lease
from rota.model.job import Ref
from rota.model.principal import SYSTEM
from rota.store.base import Store
from rota.work.attempt import Stop
from rota.work.worker import Worker


class Heartbeat:
    name = "heartbeat"

    def __init__(
        self,
        store: Store,
        clock: Clock,
        incarnation: str,
        lease: Lease,
        worker: Worker | None,
        extend: Callable[[float], None],
        lost: Callable[[str], None],
    ) -> None:
        self._store, self._clock, self._incarnation = store, clock, incarnation
        self._lease, self._worker, self._extend, self._lost = lease, worker, extend, lost
        self.before: Callable[[], None] = lambda: None
        self.heard_holds: Callable[[Sequence[Ref]], None] = lambda _: None
        self.stopping = False
        self.term: int | None = None  # of its leadership, while it leads
        self.feedback: tuple[str, ...] = ()  # queues whose flows are charged

    async def tick(self) -> float:
        self.before()
        asked = self._clock.monotonic()
        news = await self._store.renew(SYSTEM, self._incarnation, self.stopping)
        if not news.known:
            self._lost("it was declared dead")
            return BEAT
        self._lease.renewed(asked)
        self.term, self.feedback = news.term, news.feedback
        self._extend(self._lease.deadline)
        if self._worker is not None:
            for ref, why in news.cancels:
                self._worker.stop_attempt(ref, Stop.CANCEL, why)
            self.heard_holds(news.holds)
        return BEAT


class LeaseGuard:
    """Watches the lease itself, apart from the renewals: they may hang."""

    name = "lease guard"
    PERIOD = 0.25
    CLOSELY = 0.05  # while the node is exposed: every tenth of a second counts

    def __init__(self, lease: Lease, extend: Callable[[float], None], lost: Callable[[str], None]) -> None:
        self._lease, self._extend, self._lost = lease, extend, lost
        self._was_exposed = False

    async def tick(self) -> float:
        exposed = self._lease.exposed
        if exposed or self._was_exposed:
            self._extend(self._lease.deadline)  # the deadline moved: earlier while exposed, or back again
        self._was_exposed = exposed
        if self._lease.endangered:
            self._lost("it could not be renewed in time")
        return self.CLOSELY if exposed else self.PERIOD
