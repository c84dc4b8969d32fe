"""The heap of jobs that will be due soon, spread over the members of the hot tier."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence, Set
from functools import partial
from typing import NamedTuple, TypeVar

from rota.hot.counts import Counts
from rota.hot.lane import Due, HotAway, HotRefused, Lane, Look
from rota.hot.member import Member
from rota.hot.placement import keeper
from rota.model.times import HOUR, Duration, Instant

A = TypeVar("A")
T = TypeVar("T")
# Jobs that are due later are not in the heap yet: the next refill brings them.
HORIZON: Duration = HOUR
PAGE = 5_000
# Before the name of an epoch that will begin when all jobs are there.
FILLING = "filling "


def filled(epoch: str) -> str:
    """The epoch of a heap; "": it is not filled, or not yet."""
    return "" if epoch.startswith(FILLING) else epoch


class Placed(NamedTuple):
    earliest: bool  # an entry is the first of its member now
    lost: frozenset[str]  # places of members that an entry may not have been added to


class DueHeap:
    def __init__(self, members: Sequence[Member], counts: Counts) -> None:
        self.members, self._counts = members, counts
        self._places = [member.place for member in members]
        self.epochs: dict[str, str] = {}  # as last seen, by place

    async def add(self, entries: Sequence[Due]) -> Placed:
        shares = self._shares(entries)
        answers = await _each(shares, lambda lane, share: lane.add_due(share))
        lost: set[str] = set()
        for (member, share), added in zip(shares, answers, strict=True):
            if added is None:
                lost.add(member.place)
            else:
                self._counts.added += len(share)
                self.epochs[member.place] = filled(added.epoch)
        return Placed(any(added and added.earliest for added in answers), frozenset(lost))

    async def look(self, until: Instant, limit: int) -> Look | None:
        """The first entries of all members. None: the heap is not whole, since a member is away or not filled."""
        looks = await _each([(member, limit) for member in self.members], lambda lane, most: lane.look(until, most))
        due: list[Due] = []
        later: list[Instant] = []
        for member, found in zip(self.members, looks, strict=True):
            self.epochs[member.place] = filled(found.epoch) if found else ""
            if found is None or not filled(found.epoch):
                continue
            due += found.due
            if found.upcoming is not None and (found.upcoming > until or len(found.due) >= limit):  # or it is a lie
                later.append(found.upcoming)
        if not self.whole:
            return None
        due.sort(key=lambda one: (one.at, one.job))
        later += [due[limit].at] if len(due) > limit else []
        return Look("", due[:limit], min(later, default=None))

    @property
    def reached(self) -> bool:
        """All members can be used, as far as we know."""
        return all(member.healthy for member in self.members)

    @property
    def whole(self) -> bool:
        """All members were there and filled when they were last asked."""
        return all(self.epochs.get(place) for place in self._places)

    async def drop(self, entries: Sequence[Due]) -> None:
        await _each(self._shares(entries), lambda lane, share: lane.drop_due(share))

    async def begin_filling(self, name: str) -> dict[str, str]:
        """Marks members that are not filled, so that it shows if one is emptied meanwhile. Returns the marks or epochs
        of all members that answer, by place."""
        marks = await self._marks()
        bare = [member for member in self.members if not filled(marks.get(member.place, name))]
        answers = await _each([(member, FILLING + name) for member in bare], _begin)
        return marks | {member.place: FILLING + name for member, begun in zip(bare, answers, strict=True) if begun}

    async def emptied(self, before: Mapping[str, str]) -> frozenset[str]:
        """The places of members that do not have the marks any more that they had before."""
        marks = await self._marks()
        return frozenset(place for place in self._places if not marks.get(place) or marks[place] != before.get(place))

    async def _marks(self) -> dict[str, str]:
        looks = await _each([(member, 0) for member in self.members], lambda lane, none: lane.look(none, none))
        return {member.place: found.epoch for member, found in zip(self.members, looks, strict=True) if found}

    async def begin_epoch(self, epoch: str, lacking: Set[str] = frozenset()) -> None:
        """Not of members at the places in `lacking`: they stay as they are."""
        whole = [member for member in self.members if member.place not in lacking]
        answers = await _each([(member, epoch) for member in whole], _begin)
        self.epochs |= {member.place: epoch if begun else "" for member, begun in zip(whole, answers, strict=True)}

    async def entries(self) -> AsyncIterator[Due]:
        """All entries in the order of their times. Raises HotAway or HotRefused."""
        pages = [_pages(member) for member in self.members]
        heads: list[tuple[Instant, str, int]] = []
        for index, page in enumerate(pages):
            async for one in page:
                heads.append((one.at, one.job, index))
                break
        heapq.heapify(heads)
        while heads:
            at, job, index = heads[0]
            yield Due(job, at)
            following = await anext(pages[index], None)
            if following is None:
                heapq.heappop(heads)
            else:
                heapq.heapreplace(heads, (following.at, following.job, index))

    def _shares(self, entries: Sequence[Due]) -> list[tuple[Member, list[Due]]]:
        if len(self.members) == 1:
            return [(self.members[0], list(entries))] if entries else []
        shares: dict[int, list[Due]] = {}
        for entry in entries:
            shares.setdefault(keeper(entry.at, self._places), []).append(entry)
        return [(self.members[index], share) for index, share in shares.items()]


async def _each(calls: Sequence[tuple[Member, A]], work: Callable[[Lane, A], Awaitable[T]]) -> list[T | None]:
    """The answers of members; None where there was none."""

    async def ask(member: Member, about: A) -> T | None:
        try:
            return await member.call(lambda lane: work(lane, about))
        except (HotAway, HotRefused):
            return None

    return list(await asyncio.gather(*(ask(member, about) for member, about in calls)))


async def _begin(lane: Lane, epoch: str) -> bool:
    await lane.begin_epoch(epoch)
    return True


async def _pages(member: Member) -> AsyncIterator[Due]:
    after: Due | None = Due("", 0)
    while after:
        page = await member.call(partial(_page, after=after))
        for entry in page:
            yield entry
        after = page[-1] if page else None


async def _page(lane: Lane, after: Due) -> list[Due]:
    return await lane.page_due(after, PAGE)
