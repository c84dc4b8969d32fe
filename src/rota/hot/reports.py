"""The news of running jobs, spread over the members of the hot tier. All news of one job stand at the same member.

    p/<job>  the newest progress of an attempt: (fence, number of the note)
    d/<job>  the job as a reader found it in the store: (fence, instant of the read); or nothing, with a number that no
             read has: this attempt has ended
    c/<job>  the job has changed: (instant, 0). What was read before is out of date
    r/       somebody reads the cache: (instant, 0)

A report that can't be written or read is lost, and nobody depends on it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from rota.hot.lane import HotAway, HotRefused, Report
from rota.hot.member import Member
from rota.hot.placement import keeper_of

PROGRESS, JOB, CHANGED, READERS = "p/", "d/", "c/", "r/"
# The server counts in floating point: the highest number that is exact there, later than every instant.
TOP = 2**53 - 1
MEMORY = 64 << 20


class JobNews(NamedTuple):
    progress: Report | None = None
    job: Report | None = None
    changed: Report | None = None


NO_NEWS = JobNews()


class Reports:
    """`memory`: bytes that all reports may take, on all members together."""

    def __init__(self, members: Sequence[Member], memory: int) -> None:
        self._members = members
        self._places = tuple(member.place for member in members)
        self._most = memory // max(len(members), 1)

    async def put(self, reports: Sequence[Report], life: float) -> list[bool]:
        """Whether each report was taken, or a later one is there."""
        taken = [False] * len(reports)
        shares = self._shares([one.job[2:] for one in reports])

        async def tell(member: Member, places: list[int]) -> None:
            share = [reports[place] for place in places]
            try:
                await member.call(lambda lane: lane.report(share, life, self._most))
            except (HotAway, HotRefused):
                return
            for place in places:
                taken[place] = True

        await asyncio.gather(*(tell(self._members[index], places) for index, places in shares.items()))
        return taken

    async def read(self, jobs: Sequence[str]) -> list[JobNews]:
        """What is there about each job."""
        found = [NO_NEWS] * len(jobs)

        async def ask(member: Member, places: list[int]) -> None:
            names = [kind + jobs[place] for place in places for kind in (PROGRESS, JOB, CHANGED)]
            try:
                reports = await member.call(lambda lane: lane.reports(names))
            except (HotAway, HotRefused):
                return
            for number, place in enumerate(places):
                found[place] = JobNews(*reports[3 * number : 3 * number + 3])

        await asyncio.gather(*(ask(self._members[index], places) for index, places in self._shares(jobs).items()))
        return found

    async def readers(self) -> Report | None:
        """Raises HotAway or HotRefused."""
        member = self._members[keeper_of("", self._places)]
        (found,) = await member.call(lambda lane: lane.reports([READERS]))
        return found

    async def reached(self, patience: float) -> None:
        """Returns when all members have answered or failed to, or after so many seconds."""
        late = [member for member in self._members if not member.tried.is_set()]
        if late:
            tries = [asyncio.create_task(member.tried.wait()) for member in late]
            try:
                await asyncio.wait(tries, timeout=patience)
            finally:
                for task in tries:
                    task.cancel()

    def _shares(self, jobs: Sequence[str]) -> dict[int, list[int]]:
        """The places of the jobs, by the index of their member."""
        if len(self._places) == 1:
            return {0: [*range(len(jobs))]} if jobs else {}
        shares: dict[int, list[int]] = {}
        for place, job in enumerate(jobs):
            shares.setdefault(keeper_of(job, self._places), []).append(place)
        return shares
