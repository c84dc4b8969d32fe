"""Status: what people see of running jobs, from the hot tier where it has them.

A job that is not there is read from the store, and kept for the next reader. One that is read again and again is
renewed before it is out of date: all such jobs of a process together, in one read of the store every `GATHER`. So the
store is asked as often whether there are ten readers or ten thousand.

Whoever ends or changes a running job says so after the commit, if anybody reads the cache at all. That may get lost;
then the job is shown as it was for at most `LAG`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from rota.batching import Batcher
from rota.errors import StoreError
from rota.hot.batches import pieces
from rota.hot.behind import told
from rota.hot.counts import Counts
from rota.hot.kept_jobs import LAG, KeptJob, KnownJobs, Moment, ended, kept_job, read_kept
from rota.hot.lane import HotAway, HotRefused, Report
from rota.hot.reports import CHANGED, NO_NEWS, READERS, JobNews, Reports
from rota.model.job import JobInfo, Ref
from rota.model.lifecycle import State
from rota.model.principal import SYSTEM, Principal
from rota.model.times import SECOND, Duration
from rota.store.base import Store
from rota.store.cells import is_id
from rota.store.loops import may_be_abandoned

PATIENCE = 0.25  # seconds that the first read of a process waits for the members
AT_ONCE = 100  # jobs of one read of the hot tier
STORE_AT_ONCE = 500  # jobs of one read of the store
OLD: Duration = SECOND  # a job that is read when it is as old is renewed
GATHER = 0.5  # seconds in which jobs to renew are gathered
MARK_LIFE = 10.0  # of what says that a job has changed; nobody shows what he read that long ago
# How often a reader says that it reads, how long that holds, and how long others believe what they have found.
SAY, HOLDS, BELIEVE = 10.0, 60.0, 1.0


class Status:
    """Belongs to one event loop."""

    def __init__(self, store: Store, reports: Reports, counts: Counts) -> None:
        self._store, self._reports, self._counts = store, reports, counts
        self._known = KnownJobs()
        self._reads = Batcher(self._read, AT_ONCE)
        self._queue: dict[str, tuple[Report, float]] = {}  # to be put, with their lives
        self._putting: asyncio.Task[None] | None = None
        self._old: dict[str, None] = {}  # jobs to be renewed
        self._renewed: dict[str, None] = {}  # just now
        self._renewing: asyncio.Task[None] | None = None
        self._said_at = float("-inf")  # that this process reads
        self._looked_at = float("-inf")  # for readers,
        self._others_read = True  # and what was found

    # -- reads -------------------------------------------------------------------------------------------------------
    async def glance(self, who: Principal, ids: Sequence[str]) -> list[JobInfo | None]:
        wanted = [*dict.fromkeys(ids)]
        await self._reports.reached(PATIENCE)
        self._say()
        asked = [job for job in wanted if is_id(job)]
        news = dict.fromkeys(wanted, NO_NEWS)
        news |= zip(asked, await asyncio.gather(*map(self._reads.put, asked)), strict=True)
        found: dict[str, JobInfo] = {}
        missing: list[str] = []
        now = self._moment()
        for job in wanted:
            info = self._kept(job, news[job], now)
            if info is None:
                missing.append(job)
            elif who.sees in (None, info.owner):
                found[job] = info
        self._counts.status_hits += len(wanted) - len(missing)
        self._counts.status_misses += len(missing)
        found |= {info.id: info for info in await self._from_store(who, missing)}
        return [_with_progress(found[job], news[job]) if job in found else None for job in ids]

    async def _read(self, jobs: list[str]) -> list[JobNews]:
        return await self._reports.read(jobs)

    def _kept(self, job: str, news: JobNews, now: Moment) -> JobInfo | None:
        kept = read_kept(job, news, now)
        if kept is None or not self._known.allows(job, kept):
            return None
        self._known.shown(job, kept.info.fence, kept.read_at)
        if now.latest - kept.read_at > OLD and job not in self._renewed:
            self._renew(job)
        return kept.info

    async def _from_store(self, who: Principal, jobs: Sequence[str]) -> list[JobInfo]:
        """Reads jobs, and keeps those that run."""
        found = await self._read_store(who, jobs) if jobs else []
        self._remember(found)
        self._put(self._to_keep(found), LAG / SECOND)
        return [one.info for one in found]

    async def _read_store(self, who: Principal, jobs: Sequence[str]) -> list[KeptJob]:
        read_at = self._moment().earliest
        return [KeptJob(info, read_at) for info in await self._store.get_many(who, jobs) if info is not None]

    def _to_keep(self, found: Iterable[KeptJob]) -> list[Report]:
        newest = [one for one in found if self._known.allows(one.info.id, one)]
        return [report for one in newest if (report := kept_job(one.info, one.read_at))]

    def _remember(self, found: Iterable[KeptJob]) -> None:
        for info, read_at in found:
            self._known.shown(info.id, info.fence, read_at)

    def _renew(self, job: str) -> None:
        self._old[job] = None
        if self._renewing is None:
            self._renewing = may_be_abandoned(asyncio.get_running_loop().create_task(self._renew_all()))

    async def _renew_all(self) -> None:
        try:
            while self._old:
                await asyncio.sleep(GATHER)
                await self.renew()
        finally:
            self._renewing = None

    async def renew(self) -> None:
        """Reads all jobs again that are about to be out of date. If that fails, their readers ask the store. Until what
        was read is there for all, this process too shows what was there before."""
        self._renewed, self._old = self._old, {}
        try:
            for jobs in pieces([*self._renewed], STORE_AT_ONCE):
                found = await self._read_store(SYSTEM, jobs)
                await self._reports.put(self._to_keep(found), LAG / SECOND)
                self._remember(found)
        except StoreError:
            return
        finally:
            self._renewed = {}

    def _moment(self) -> Moment:
        now, doubt = self._store.now(), self._store.doubt()
        return Moment(now - doubt, now + doubt)

    # -- changes -----------------------------------------------------------------------------------------------------
    def ended(self, refs: Sequence[Ref]) -> None:
        """The attempts have ended, or may have."""
        if not self._worth_saying():
            return
        known = [ref for ref in refs if is_id(ref.job_id)]
        for ref in known:
            self._known.ended(ref.job_id, ref.fence)
        self._put([ended(ref.job_id, ref.fence) for ref in known], MARK_LIFE)

    def changed(self, jobs: Sequence[str]) -> None:
        """The jobs were changed, or may have been; nobody knows the fences of their attempts."""
        if not jobs or not self._worth_saying():
            return
        at = self._moment().latest
        for job in jobs:
            self._known.changed(job, at)
        self._put([Report(CHANGED + job, (at, 0), b"") for job in jobs], MARK_LIFE)

    # -- into the hot tier -------------------------------------------------------------------------------------------
    def _say(self) -> None:
        """This process reads, so others must say what they change."""
        now = asyncio.get_running_loop().time()
        if now - self._said_at > SAY:
            self._said_at = now
            self._put([Report(READERS, (self._store.now(), 0), b"")], HOLDS)

    def _put(self, reports: Iterable[Report], life: float) -> None:
        """Soon; the caller does not wait for it."""
        self._queue |= {one.job: (one, life) for one in reports}
        if self._queue and self._putting is None:
            self._putting = may_be_abandoned(asyncio.get_running_loop().create_task(self._put_all()))

    async def _put_all(self) -> None:
        try:
            while self._queue:
                queue, self._queue = [*self._queue.values()], {}
                for life in (HOLDS, MARK_LIFE, LAG / SECOND):
                    reports = [one for one, its_life in queue if its_life == life]
                    if reports and (life != MARK_LIFE or await self._someone_reads()):
                        await self._reports.put(reports, life)
        finally:
            self._putting = None

    async def settled(self) -> None:
        """Returns when all that this process had to say is said."""
        while self._putting is not None:
            await asyncio.wait([self._putting])

    def _worth_saying(self) -> bool:
        """False if nobody reads, by the last look. So nodes that nobody watches have next to nothing to do."""
        now = asyncio.get_running_loop().time()
        return self._others_read or now - self._said_at < HOLDS or now - self._looked_at > BELIEVE

    async def _someone_reads(self) -> bool:
        now = asyncio.get_running_loop().time()
        if now - self._said_at < HOLDS:
            return True
        if now - self._looked_at > BELIEVE:
            self._looked_at = now
            try:
                self._others_read = await self._reports.readers() is not None
            except (HotAway, HotRefused):
                self._others_read = True
        return self._others_read

    def end(self) -> None:
        for task in (self._putting, self._renewing):
            if task is not None:
                task.cancel()


def _with_progress(info: JobInfo, news: JobNews) -> JobInfo:
    """With the progress of the hot tier, if that is newer and of the attempt that runs."""
    if info.state is not State.RUNNING or news.progress is None or news.progress.version[0] != info.fence:
        return info
    progress = told(news.progress)
    if progress is None or (info.progress is not None and info.progress.at > progress.at):
        return info
    return replace(info, progress=progress)
