"""One reader of the outbox for all event streams of a process.

Streams with the same user and filter share a *channel*: an event is encoded once, matched once for each channel, and a
stream costs only its writes. While events keep coming the feed delivers four times a second, so that a write carries
many events; the first event after a quiet time goes out at once.

A stream buffers what its caller has not taken yet, up to a bound. Beyond it the stream is cut off: its last event says
where to go on.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress

import msgspec

from rota.clients.events import PAGE, EventsClient, EventSelection, EventWatch, events_after
from rota.errors import StoreError
from rota.model.events import EventFilter, EventInfo, EventPlace
from rota.model.principal import SYSTEM, Principal
from rota.store.base import Store
from rota.store.values import Topic

PERIOD = 0.25  # between two deliveries while events keep coming
POLL = 1.0  # wake-ups may get lost, and starts of jobs have none
PING_EVERY = 10.0
MOST_BUFFERED = 1 << 20  # bytes of one stream
# How long a caller that was cut off may take to read the last event.
LAST_WORDS = 30.0
PING = b": ping\n\n"
_TOPICS = frozenset(Topic) - {Topic.CANCEL, Topic.DEAF}
_encode = msgspec.json.Encoder().encode


def piece(kind: str, value: object, name: str | None = None) -> bytes:
    """One event of an event stream; `name` is what a caller that comes back goes on behind."""
    head = b"" if name is None else f"id: {name}\n".encode()
    return b"%sevent: %s\ndata: %s\n\n" % (head, kind.encode(), _encode(value))


class _Channel:
    def __init__(self, store: Store, who: Principal, filter_: EventFilter) -> None:
        self.who, self.selection = who, EventSelection(store, who, filter_)
        self.streams: set[EventStream] = set()

    def sees(self, event: EventInfo) -> bool:
        return event.user == self.who.user or (self.who.operates and event.user == SYSTEM.user)


class EventFeed:
    def __init__(self, store: Store) -> None:
        self.store, self.watch = store, EventWatch(store)
        self._channels: dict[tuple[Principal, EventFilter], _Channel] = {}
        self._task: asyncio.Task[None] | None = None
        self._woken = asyncio.Event()
        self.position: int | None = None  # entries up to here were delivered; None: nobody listens

    async def join(self, stream: EventStream) -> int:
        """From now on the stream gets all events behind the position that is returned."""
        if self.position is None:
            last = (await self.store.outbox_span(SYSTEM)).last
            if self.position is None:  # nobody else has joined meanwhile
                self.position = last
                self._task = asyncio.create_task(self._run())
        key = stream.who, stream.filter
        if key not in self._channels:
            self._channels[key] = _Channel(self.store, stream.who, stream.filter)
        self._channels[key].streams.add(stream)
        return self.position

    def leave(self, stream: EventStream) -> None:
        key = stream.who, stream.filter
        channel = self._channels.get(key)
        if channel is not None:
            channel.streams.discard(stream)
            if not channel.streams:
                del self._channels[key]
        if not self._channels and self._task is not None:
            self._task.cancel()
            self._task, self.position = None, None

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        unlisten = self.store.listen(_TOPICS, self._woken.set)
        next_ping = loop.time() + PING_EVERY
        try:
            while True:
                self._woken.clear()
                delivered = False
                with suppress(StoreError):  # the store may be back at the next look
                    for channel in list(self._channels.values()):
                        await self.watch.renew(channel.who, channel.selection.filter)
                    delivered = await self._deliver()
                if loop.time() >= next_ping:
                    next_ping += PING_EVERY
                    self._ping()
                if delivered:
                    await asyncio.sleep(PERIOD)
                    continue
                with suppress(TimeoutError):
                    async with asyncio.timeout(POLL):
                        await self._woken.wait()
        finally:
            unlisten()

    async def _deliver(self) -> bool:
        """Reads what is new; returns whether there was anything."""
        any_ = False
        while self.position is not None and (rows := await self.store.events(SYSTEM, self.position, PAGE)):
            any_ = True
            await self._spread(events_after(rows, EventPlace(self.position)))
            self.position = rows[-1].seq
            if len(rows) < PAGE:
                break
            await asyncio.sleep(0)
        return any_

    async def _spread(self, events: list[EventInfo]) -> None:
        chosen: dict[_Channel, list[EventInfo]] = {}
        # A stream that joins while this waits was told the old position, so these events are for it, too.
        while new := [channel for channel in self._channels.values() if channel not in chosen]:
            for channel in new:
                chosen[channel] = await channel.selection.of(event for event in events if channel.sees(event))
        encoded: dict[str, bytes] = {}
        for channel in self._channels.values():
            if not (mine := chosen[channel]):
                continue
            for event in mine:
                if event.id not in encoded:
                    encoded[event.id] = piece(event.kind, event, event.id)
            body = b"".join([encoded[event.id] for event in mine])
            for stream in channel.streams:
                stream.put(body, mine[-1].id)

    def _ping(self) -> None:
        for channel in list(self._channels.values()):
            for stream in list(channel.streams):
                stream.ping()


class EventStream:
    """The events for one caller, as pieces of an event stream."""

    def __init__(self, feed: EventFeed, who: Principal, filter_: EventFilter) -> None:
        self._feed, self.who, self.filter = feed, who, filter_
        self._buffer: deque[tuple[bytes, str]] = deque()  # pieces, each with the id of its last event
        self._size = 0
        self._filled = asyncio.Event()
        self._overflow: float | None = None  # since when
        self._sent = ""  # the id of the last event that the caller was given
        self._task: asyncio.Task[object] | None = None

    # -- the feed's side ---------------------------------------------------------------------------------------------
    def put(self, body: bytes, last: str) -> None:
        if self._overflow is not None:
            return
        if self._size + len(body) > MOST_BUFFERED:
            self._overflow = asyncio.get_running_loop().time()
            self._buffer.clear()
        else:
            self._buffer.append((body, last))
            self._size += len(body)
        self._filled.set()

    def ping(self) -> None:
        if self._overflow is not None and asyncio.get_running_loop().time() > self._overflow + LAST_WORDS:
            if self._task is not None:
                self._task.cancel()  # it does not even read the last event
        elif self._overflow is None and not self._buffer:
            self._buffer.append((PING, ""))
            self._filled.set()

    # -- the caller's side -------------------------------------------------------------------------------------------
    async def pieces(self, after: EventPlace | None) -> AsyncIterator[bytes]:
        """`after`: where the caller has left off; None: events from now on. The first piece comes when all that happens
        from then on will be told."""
        try:
            await self._feed.watch.renew(self.who, self.filter)
            if after is None:
                self._sent = str(await self._feed.join(self))
            yield b"retry: 1000\n\n"
            self._task = asyncio.current_task()
            if after is not None:
                async for body in self._catch_up(after):
                    yield body
            while True:
                await self._filled.wait()
                self._filled.clear()
                while self._buffer:
                    body, last = self._take()
                    yield body
                    self._sent = last or self._sent
                if self._overflow is not None:
                    detail = "this stream was read too slowly; go on behind the id `after`"
                    yield piece("cut", {"detail": detail, "after": self._sent})
                    return
        finally:
            self._feed.leave(self)

    def _take(self) -> tuple[bytes, str]:
        """All that has come since, in one piece."""
        body = b"".join([one for one, _ in self._buffer])
        last = next((name for _, name in reversed(self._buffer) if name), "")
        self._buffer.clear()
        self._size = 0
        return body, last

    async def _catch_up(self, after: EventPlace) -> AsyncIterator[bytes]:
        """Events up to the position at which the stream joins the feed."""
        store = self._feed.store
        span = await store.outbox_span(self.who)
        if not span.first - 1 <= after.seq <= span.last:
            old = after.seq < span.first
            goes_on = EventPlace(span.first - 1 if old else span.last)
            detail = "events behind this id are not kept any more" if old else "there was no such event yet"
            yield piece("gap", {"detail": detail, "asked": after.name, "after": goes_on.name}, goes_on.name)
            after = goes_on
        self._sent = after.name
        client, selection = EventsClient(store, self.who), EventSelection(store, self.who, self.filter)
        until: int | None = None
        while True:
            events, after, more = await client.page(after, selection, until=until)
            if events:
                yield b"".join([piece(event.kind, event, event.id) for event in events])
                self._sent = events[-1].id
            if more:
                continue
            if until is not None:
                return
            until = await self._feed.join(self)
