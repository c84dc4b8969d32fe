"""Wake-ups between processes by the hot tier, instead of the store's own.

Who sends one must know that everyone hears it. So every listener proves to itself that it hears: when a channel was
quiet for a while, somebody sends a beat, and who misses the beats is *deaf*. A deaf process says so by the store's own
wake-ups, again and again, and everyone who hears that wakes by the store too. Nobody trusts the hot tier before it has
listened for that long itself. A process that listens to nothing never sends by the hot tier.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence, Set
from contextlib import suppress
from contextvars import ContextVar

from rota.errors import StoreError
from rota.hot.counts import Counts
from rota.hot.lane import HotAway, HotRefused
from rota.hot.member import Member
from rota.store.base import Store
from rota.store.loops import may_be_abandoned
from rota.store.notifier import Notifier
from rota.store.values import Topic

# Seconds between two looks; a channel that was quiet for this long gets a beat; without one for that long we are deaf.
LOOK, QUIET, DEAF = 0.25, 0.5, 1.5
# How often somebody says that it is deaf, and how long that holds.
SAY, HOLDS = 1.0, 3.0
# In place of Topic.DUE: the heap of due jobs knows what appeared.
KNOWN_DUE = "D"
_TOPICS = {topic.value: topic for topic in Topic} | {KNOWN_DUE: Topic.DUE}
# Set while a wake-up about due times is given that the heap knows about.
known_to_heap: ContextVar[bool] = ContextVar("known_to_heap", default=False)


class Wakes:
    """Belongs to one event loop. `token` names this process to others."""

    def __init__(self, store: Store, members: Sequence[Member], token: str, counts: Counts) -> None:
        self._store, self._members, self._token, self._counts = store, members, token, counts
        self._heard: dict[str, float] = {}  # when, by place
        self._subscribed: set[str] = set()
        self._notifier = Notifier(self._publish)
        self._started_at: float | None = None
        self._deaf = True
        self._deafness_at = float("-inf")  # when somebody last said that it is deaf
        self._said_at = float("-inf")
        self._task: asyncio.Task[None] | None = None
        self._tending: dict[str, asyncio.Task[None]] = {}  # by place
        self._looked_at = float("-inf")

    def start(self) -> Callable[[], None]:
        """From now on this process listens; returns the call that ends it."""
        loop = asyncio.get_running_loop()
        self._started_at = loop.time()
        self._task = may_be_abandoned(loop.create_task(self._watch()))
        return self._store.listen(frozenset({Topic.DEAF}), self._someone_is_deaf)

    @property
    def trusted(self) -> bool:
        """Whether all processes hear what this one sends by the hot tier."""
        now = asyncio.get_running_loop().time()
        return (
            self._started_at is not None
            and now - self._started_at > HOLDS
            and not self._deaf
            and now - self._heard_by_all() <= DEAF
            and now - self._looked_at < DEAF  # a process that stood still may not know yet that somebody is deaf
            and now - self._deafness_at > HOLDS
        )

    def _heard_by_all(self) -> float:
        """When this process last heard something on the channel that has been quiet for longest."""
        return min(self._heard.get(member.place, float("-inf")) for member in self._members)

    def carry(self, topics: Set[str]) -> bool:
        """Sends a wake-up, if it will be heard; otherwise the caller must."""
        if not self.trusted:
            self._counts.wakes_by_store += 1
            return False
        self._notifier.ring(topics)
        return True

    async def _publish(self, letters: str) -> None:
        text = f"{letters}/{self._token}"
        for member in self._members:
            if member.healthy:
                try:
                    await member.call(lambda lane: lane.publish(text))
                except (HotAway, HotRefused):
                    continue
                self._counts.wakes_sent += 1
                return
        self._counts.wakes_by_store += 1
        with suppress(StoreError):
            await self._store.tell({_TOPICS[letter] for letter in letters})

    def _hear(self, place: str, text: str) -> None:
        self._heard[place] = asyncio.get_running_loop().time()
        letters, _, sender = text.partition("/")
        if not letters or sender == self._token:
            return
        self._counts.wakes_heard += 1
        before = known_to_heap.set(Topic.DUE.value not in letters)
        self._store.heard({_TOPICS[letter] for letter in letters if letter in _TOPICS})
        known_to_heap.reset(before)

    def _someone_is_deaf(self) -> None:
        self._deafness_at = asyncio.get_running_loop().time()

    # -- proving to hear ---------------------------------------------------------------------------------------------
    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                for member in self._members:
                    if member.healthy and member.place not in self._tending:
                        self._tending[member.place] = may_be_abandoned(asyncio.create_task(self._tend(member)))
                if self._tending:  # a server that hangs must not put off the judgement
                    await asyncio.wait(self._tending.values(), timeout=LOOK)
                await self._judge()
            except Exception as error:  # of a listener, say: a watch that ended would take silence for news for ever
                loop.call_exception_handler({"message": "watching wake-ups failed; it goes on", "exception": error})
            await asyncio.sleep(LOOK)

    async def _tend(self, member: Member) -> None:
        place = member.place
        try:
            if place not in self._subscribed:
                self._subscribed.add(place)
                await member.call(
                    lambda lane: lane.subscribe(
                        lambda text: self._hear(place, text), lambda: self._subscribed.discard(place)
                    )
                )
            if asyncio.get_running_loop().time() - self._heard.get(place, float("-inf")) > QUIET:
                await member.call(lambda lane: lane.publish(f"/{self._token}"))
        except (HotAway, HotRefused):
            self._subscribed.discard(place)
        finally:
            self._tending.pop(place, None)

    async def _judge(self) -> None:
        now = self._looked_at = asyncio.get_running_loop().time()
        was_deaf, self._deaf = self._deaf, now - self._heard_by_all() > DEAF
        if self._deaf and not was_deaf:
            self._store.heard(frozenset(Topic) - {Topic.DEAF})  # one may have been missed
        others_said = now - self._deafness_at < SAY * 0.9
        if self._deaf and now - self._said_at > SAY and not others_said:
            self._said_at = now
            with suppress(StoreError):
                await self._store.tell({Topic.DEAF})

    async def close(self) -> None:
        """Sends what is pending: other processes may wait for it."""
        await self._notifier.close()
        self.end()

    def end(self) -> None:
        for task in (self._task, *self._tending.values()):
            if task is not None:
                task.cancel()
        self._task = None
