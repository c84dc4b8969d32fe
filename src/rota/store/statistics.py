"""The contract of a store, part statistics; see `store.base` for what all verbs share.

Statistics must not read a million ended jobs each time someone looks. So the control service `tallier` counts ended
jobs into *tallies* (`model.statistics`), a row per bucket of time, owner, queue and task, and a reader adds only the
jobs that ended since. The cursor and the tallies of a step are one write, so each end of a job is counted once, however
many nodes try. Tallies outlive the jobs that they count.
"""

from __future__ import annotations

from abc import abstractmethod

from rota.model.principal import Principal
from rota.model.statistics import History, Statistics, Window
from rota.model.times import SECOND, Duration
from rota.store.verbs import NODE, READ, WRITE, Verbs, verb

# A job's end may be committed a moment after its time stamp; a write on PostgreSQL is cut off after 30 s. Ends that
# became visible later than this are not counted.
SETTLED: Duration = 40 * SECOND


class Counted(Verbs):
    @verb(READ, stale_ok=True)
    @abstractmethod
    async def statistics(self, who: Principal, /, window: Window) -> Statistics:
        """Counts, rates and latencies of a window, in total and by queue. Everyone's jobs for operators (unless
        `window.own`), and the principal's own jobs for others."""

    @verb(READ, stale_ok=True)
    @abstractmethod
    async def history(self, who: Principal, /, window: Window) -> History:
        """The same jobs in buckets of `window.step`, oldest first; the last bucket is the current one."""

    @verb(WRITE, NODE, "count ended")
    @abstractmethod
    async def tally(self, who: Principal, /, limit: int) -> bool:
        """Counts about `limit` jobs that ended at least SETTLED ago and were not counted yet, and deletes tallies that
        are too old. True: there are more to count."""
