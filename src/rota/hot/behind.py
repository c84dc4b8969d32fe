"""Write-behind of progress: the hot tier gets every report at once, the store the newest of each job now and then.

A state that an attempt saves is never written behind: a save returns when it is durable, so that the next attempt
repeats no work. What can be lost is the progress of the last `PERIOD` of a process that dies, and nobody misses it in
the hot tier before its life is over. Before an attempt ends, its last progress is written.

A report is in the hot tier or in the store when `note` returns. The store takes what the hot tier does not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress

import msgspec

from rota.errors import InvalidInput
from rota.hot.batches import pieces
from rota.hot.counts import Counts
from rota.hot.lane import Report
from rota.hot.reports import PROGRESS, Reports
from rota.model.job import Verdict
from rota.model.principal import SYSTEM
from rota.model.progress import Progress
from rota.refusals import anyones
from rota.store.base import Store
from rota.store.cells import is_id
from rota.store.loops import may_be_abandoned
from rota.store.values import Note

PERIOD = 2.0  # seconds between two writes to the store
LIFE = 10.0  # of progress in the hot tier, in seconds
CLOSING = 5.0  # seconds that the last write may take
AT_ONCE = 500  # notes of one write: as many as other writes of a worker have
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Progress).decode


class WriteBehind:
    """Belongs to one event loop."""

    def __init__(self, store: Store, reports: Reports, counts: Counts) -> None:
        self._store, self._reports, self._counts = store, reports, counts
        self._pending: dict[str, Note] = {}  # the newest of each job that is not in the store yet
        self._writes: dict[asyncio.Task[None], set[str]] = {}  # under way, with their jobs
        self._pump: asyncio.Task[None] | None = None
        self._closed = False

    # -- notes -------------------------------------------------------------------------------------------------------
    async def note(self, notes: Sequence[Note]) -> list[Verdict]:
        """APPLIED for a report that only the hot tier has: the store may find later that it was stale."""
        verdicts = [Verdict.APPLIED] * len(notes)
        direct = [place for place, one in enumerate(notes) if not _only_progress(one)]
        behind = [place for place, one in enumerate(notes) if _only_progress(one)]
        answers, refused = await asyncio.gather(
            self._save([notes[place] for place in direct]), self._tell([notes[place] for place in behind])
        )
        late = [behind[place] for place in refused]
        if late:
            answers += await self._store.note(SYSTEM, [notes[place] for place in late])
        for place, verdict in zip([*direct, *late], answers, strict=True):
            verdicts[place] = verdict
        return verdicts

    async def _save(self, notes: Sequence[Note]) -> list[Verdict]:
        """Writes saved states to the store, with the progress that was told before them."""
        if not notes:
            return []
        whole = [self._with_progress(one) for one in notes]
        shown = [_report(one) for one in whole if one.progress is not None and is_id(one.job_id)]
        verdicts, _ = await asyncio.gather(self._store.note(SYSTEM, whole), self._reports.put(shown, LIFE))
        for one in whole:
            pending = self._pending.get(one.job_id)
            if one.progress is not None and pending is not None and _version(pending) <= _version(one):
                del self._pending[one.job_id]
        return verdicts

    def _with_progress(self, note: Note) -> Note:
        """With the newest progress, so that both fit together after a crash."""
        pending = self._pending.get(note.job_id)
        earlier = pending is not None and pending.fence == note.fence and pending.number < note.number
        if pending is None or not earlier or note.progress is not None or note.state is None:
            return note
        return msgspec.structs.replace(note, progress=pending.progress)

    async def _tell(self, notes: Sequence[Note]) -> list[int]:
        """Puts progress into the hot tier; returns the places of those that it did not take."""
        if not notes:
            return []
        taken = await self._reports.put([_report(one) for one in notes], LIFE)
        self._counts.notes_behind += sum(taken)
        self._keep(one for one, kept in zip(notes, taken, strict=True) if kept)
        return [place for place, kept in enumerate(taken) if not kept]

    def _keep(self, notes: Iterable[Note]) -> None:
        for one in notes:
            pending = self._pending.get(one.job_id)
            if pending is None or _version(pending) < _version(one):
                self._pending[one.job_id] = one
        if self._pending and self._pump is None and not self._closed:
            self._pump = may_be_abandoned(asyncio.get_running_loop().create_task(self._run()))

    # -- into the store ----------------------------------------------------------------------------------------------
    async def before_end(self, jobs: Iterable[str]) -> None:
        """Writes what is pending of attempts that end now: one batch, or the one that is under way. It never fails:
        progress must not keep an attempt from its end."""
        if not self._pending and not self._writes:
            return
        ending = set(jobs)
        self._begin([self._pending[job] for job in ending & self._pending.keys()])
        if under_way := [task for task, names in self._writes.items() if not ending.isdisjoint(names)]:
            await asyncio.wait(under_way)

    async def flush(self) -> None:
        """Writes all that is pending. What the store can't take now stays pending, unless it never will."""
        for notes in pieces([*self._pending.values()], AT_ONCE):
            if task := self._begin([one for one in notes if self._pending.get(one.job_id) is one]):
                await asyncio.wait([task])

    async def _run(self) -> None:
        try:
            while self._pending:
                await asyncio.sleep(PERIOD)
                await self.flush()
        finally:
            self._pump = None

    def _begin(self, notes: Sequence[Note]) -> asyncio.Task[None] | None:
        """A task of its own: who waits for it may be cancelled."""
        if not notes:
            return None
        for one in notes:
            del self._pending[one.job_id]
        task = may_be_abandoned(asyncio.get_running_loop().create_task(self._write(notes)))
        self._writes[task] = {one.job_id for one in notes}
        task.add_done_callback(self._writes.pop)
        return task

    async def _write(self, notes: Sequence[Note]) -> None:
        try:
            await self._store.note(SYSTEM, notes)
        except Exception as error:
            if len(notes) > 1 and not anyones(error):  # one may be bad, and must not fail the others
                for one in notes:
                    await self._write([one])
            elif not isinstance(error, InvalidInput):
                self._keep(notes)

    async def close(self) -> None:
        self.end()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSING):
                await self.flush()

    def end(self) -> None:
        self._closed = True
        if self._pump is not None:
            self._pump.cancel()


def told(report: Report) -> Progress | None:
    """The progress of a report."""
    try:
        return _decode(report.content)
    except msgspec.MsgspecError:
        return None


def _only_progress(note: Note) -> bool:
    return note.state is None and note.progress is not None and is_id(note.job_id)


def _version(note: Note) -> tuple[int, int]:
    return note.fence, note.number


def _report(note: Note) -> Report:
    return Report(PROGRESS + note.job_id, _version(note), _encode(note.progress))
