"""The output of attempts as a tail knows it: how far each attempt was read, and the lines that have not ended.

An attempt is kept for as long as its chunks may be seen again. Its lines that wait for their end are bounded all
together, and what is known of old attempts is forgotten, so a tail needs little memory however long it runs.
"""

from __future__ import annotations

import msgspec

from rota.clients.tail_places import PlaceKeeper, TailPlace, name_of
from rota.lines.levels import level_of
from rota.lines.splitter import End, Split, Splitter
from rota.model.job import Ref
from rota.model.query.evaluate import OutputLine, line_holds
from rota.model.query.tree import EVERYTHING, NOTHING, Condition
from rota.model.times import Instant
from rota.store.found_lines import FoundLine
from rota.store.values import CUT, Chunk

# Attempts that are known. More end within the longest look back only if no tail could keep up.
MOST_KNOWN = 50_000
# Bytes of lines that have not ended, of all attempts.
MOST_HELD = 16 << 20


class TailedAttempt(msgspec.Struct):
    position: int  # the number of the last chunk that was read
    joined: bool  # its lines that have not ended are known
    left: Condition | None = None  # what its lines must fit; None: not decided
    task: str = ""
    owner: str = ""
    number: int = 0
    last_at: Instant = 0  # when its last chunk was written
    streams: dict[str, Splitter] = {}

    @property
    def unwanted(self) -> bool:
        return self.left == NOTHING


class TailOutput:
    """`told`: lines with the places behind them, until they are taken. `places`: whether places are wanted at all."""

    def __init__(self, place: TailPlace, places: bool) -> None:
        self.told: list[tuple[FoundLine, str]] = []
        self.places = PlaceKeeper(place.kept_at, place.told) if places else None
        self._before = dict(place.told)  # how far streams were told before this tail began
        self._attempts: dict[Ref, TailedAttempt] = {}
        self._waiting: dict[tuple[Ref, str], float] = {}  # streams with a line that has not ended: since when
        self._held = 0  # bytes of these lines
        self._forgotten = place.kept_at

    # -- attempts ----------------------------------------------------------------------------------------------------
    def get(self, ref: Ref) -> TailedAttempt | None:
        return self._attempts.get(ref)

    def meet(self, ref: Ref, number: int) -> TailedAttempt:
        """The attempt; if it is not known, all chunks before this one were told, or are no concern of this tail."""
        if ref not in self._attempts:
            self._attempts[ref] = TailedAttempt(number - 1, joined=number == 0)
        return self._attempts[ref]

    def know(self, ref: Ref, number: int) -> None:
        """All chunks up to this one are no concern of this tail."""
        self._attempts[ref] = TailedAttempt(number, joined=False)

    def meet_sealed(self, ref: Ref, chunks: list[Chunk]) -> bool:
        """Whether there may be something new among chunks that were found in a segment. Nothing says when they were
        kept, so for an attempt that is not known the time of writing decides."""
        known = self._attempts.get(ref)
        if known is not None:
            return not known.unwanted and chunks[-1].number > known.position
        new = [chunk.number for chunk in chunks if chunk.written_at > self._forgotten]
        if new:
            self.meet(ref, new[0])
        return bool(new)

    def forget(self) -> None:
        """Forgets those that were silent for longest."""
        while len(self._attempts) > MOST_KNOWN:
            ref = next(iter(self._attempts))
            self.drop_lines([(ref, stream) for stream in self._attempts[ref].streams])
            self._forgotten = max(self._forgotten, self._attempts.pop(ref).last_at)

    # -- chunks ------------------------------------------------------------------------------------------------------
    def seed(self, ref: Ref, chunk: Chunk) -> None:
        """A chunk of before: only a line that has not ended in it counts."""
        if chunk.stream != CUT:
            splitter = self._stream(ref, self._attempts[ref], chunk.stream)
            self._held -= splitter.held
            splitter.feed(chunk)
            self._held += splitter.held

    def add(self, ref: Ref, chunk: Chunk, clock: float, now: Instant) -> None:
        attempt = self._attempts[ref] = self._attempts.pop(ref)  # the latest in the order of forgetting
        attempt.position, attempt.last_at = chunk.number, chunk.written_at
        if chunk.stream == CUT:
            self._add_mark(ref, attempt, chunk, now)
            return
        splitter = self._stream(ref, attempt, chunk.stream)
        self._held -= splitter.held
        for split in splitter.feed(chunk):
            self._tell(ref, attempt, chunk.stream, split, now)
        self._held += splitter.held
        self._waiting.pop((ref, chunk.stream), None)
        if splitter.held:
            self._waiting[ref, chunk.stream] = clock
        if self._held > MOST_HELD:
            self.end_lines(list(self._waiting), now)

    def _stream(self, ref: Ref, attempt: TailedAttempt, stream: str) -> Splitter:
        if stream not in attempt.streams:
            before = self._before.get(name_of(ref.job_id, ref.fence, stream)) if self._before else None
            attempt.streams[stream] = Splitter(before)
        return attempt.streams[stream]

    def _add_mark(self, ref: Ref, attempt: TailedAttempt, chunk: Chunk, now: Instant) -> None:
        """What stands in the place of output that was cut: it ends all lines."""
        self.end_lines([(ref, stream) for stream in attempt.streams], now)
        before = self._before.get(name_of(ref.job_id, ref.fence, CUT))
        if before is None or chunk.number > before.number:
            body = chunk.body.strip(b"\r\n")
            end = End(chunk.number, len(chunk.body))
            split = Split(chunk.number, chunk.body.find(body), chunk.written_at, body, end)
            self._tell(ref, attempt, CUT, split, now)

    # -- lines -------------------------------------------------------------------------------------------------------
    def waiting(self, until: float) -> list[tuple[Ref, str]]:
        """Streams with a line that waits for its end since then or longer."""
        return [key for key, since in self._waiting.items() if since <= until]

    def end_lines(self, streams: list[tuple[Ref, str]], now: Instant) -> None:
        """Tells lines without waiting for their ends."""
        for ref, stream in streams:
            self._waiting.pop((ref, stream), None)
            attempt = self._attempts.get(ref)
            if attempt is not None and stream in attempt.streams:
                self._held -= attempt.streams[stream].held
                for split in attempt.streams[stream].flush():
                    self._tell(ref, attempt, stream, split, now)

    def drop_lines(self, streams: list[tuple[Ref, str]]) -> None:
        """Forgets lines that have not ended: their jobs were deleted."""
        for ref, stream in streams:
            self._waiting.pop((ref, stream), None)
            if ref in self._attempts and (splitter := self._attempts[ref].streams.pop(stream, None)) is not None:
                self._held -= splitter.held

    def _tell(self, ref: Ref, attempt: TailedAttempt, stream: str, split: Split, now: Instant) -> None:
        text = split.body.decode("utf-8", "replace")
        level = level_of(text.encode(), stream)
        if stream != CUT and attempt.left is not None and attempt.left != EVERYTHING:
            line = OutputLine(text, split.at, stream, attempt.number, level)
            if not line_holds(attempt.left, line):
                return
        found = FoundLine(
            number=split.number, offset=split.offset, written_at=split.at, stream=stream, body=split.body,
            job_id=ref.job_id, fence=ref.fence, attempt=attempt.number, task=attempt.task, owner=attempt.owner,
            level=None if stream == CUT else level,
        )  # fmt: skip
        place = ""
        if self.places is not None:
            self.places.tell(name_of(ref.job_id, ref.fence, stream), split.end, now)
            place = self.places.text
        self.told.append((found, place))
