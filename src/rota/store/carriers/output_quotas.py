"""Quotas for kept output: what is beyond one is left out, and a mark stands in its place.

The row of a user with such a quota keeps a number of bytes: as counted, plus all that was kept since, less what marks
of attempts have replaced since. Appends of such users hold the row, so several nodes count one after the other. Output
that retention or a purge deletes is seen by the next count, which reads the sizes of all output of the user: control
nodes do that, outside of any write. Marks are not counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from rota.model.job import Ref
from rota.model.output_marks import QuotaMark, read_mark
from rota.model.times import MINUTE, SECOND, Duration
from rota.store.carriers.unit import Columns, Unit
from rota.store.values import CUT, Chunk

# Pauses between two counts: while the quota seems to be used up, and otherwise.
COUNT_AGAIN: Duration = 10 * SECOND
COUNT_ANYWAY: Duration = 10 * MINUTE
# A quota with less room than this counts as used up: the largest chunk may not fit any more.
NEARLY = 64 << 10


class Judged(NamedTuple):
    """What is to be appended instead; and for each given chunk its place there, None if it was left out before."""

    chunks: list[Chunk]
    places: list[int | None]


class _Attempt(msgspec.Struct):
    last: int = -1  # the last number that was kept or left out
    mark: QuotaMark | None = None  # if the last chunk is one,
    since: int | None = None  # its number in the store
    place: int | None = None  # and its place among the chunks to append


async def judge(
    unit: Unit, chunks: Sequence[Chunk], owners: Sequence[str], kept: Collection[int], cut: Mapping[str, int]
) -> Judged:
    """Chunks of running attempts of users with the quota, and their owners. `kept`: the places of those that the store
    has. `cut`: bytes that marks have just replaced, by user. Must be one transaction with the append that follows."""
    rows = await unit.rows("hold_output", names=sorted(set(owners)))
    allowed = {name: bound for name, bound, _ in rows}
    used = {name: max(size - cut.get(name, 0), 0) for name, _, size in rows}
    attempts = await _attempts(unit, chunks)
    judged = Judged([], [])
    for place, (chunk, owner) in enumerate(zip(chunks, owners, strict=True)):
        one = attempts[Ref(chunk.job_id, chunk.fence)]
        if chunk.stream == CUT or place in kept or owner not in allowed:
            _append(judged, chunk)
        elif chunk.number <= one.last:
            judged.places.append(None)
        elif used[owner] + len(chunk.body) <= allowed[owner]:
            used[owner] += len(chunk.body)
            one.last, one.mark, one.since, one.place = chunk.number, None, None, None
            _append(judged, chunk)
        else:
            _leave_out(judged, one, chunk, owner, allowed[owner])
    columns: Columns = {"names": list(used), "sizes": list(used.values())}
    await unit.run("save_output", columns)
    return judged


async def _attempts(unit: Unit, chunks: Sequence[Chunk]) -> defaultdict[Ref, _Attempt]:
    found: defaultdict[Ref, _Attempt] = defaultdict(_Attempt)
    refs = sorted({(chunk.job_id, chunk.fence) for chunk in chunks})
    columns: Columns = {"jobs": [job for job, _ in refs], "fences": [fence for _, fence in refs]}
    for job, fence, number, stream, body in await unit.rows("last_output", columns):
        mark = read_mark(body) if stream == CUT else None
        found[Ref(job, fence)] = _Attempt(number, mark, None if mark is None else number)
    return found


def _append(judged: Judged, chunk: Chunk) -> None:
    judged.places.append(len(judged.chunks))
    judged.chunks.append(chunk)


def _leave_out(judged: Judged, one: _Attempt, chunk: Chunk, owner: str, allowed: int) -> None:
    one.last, one.mark = chunk.number, (one.mark or QuotaMark()).and_of(chunk.body)
    text = one.mark.text(owner, allowed).encode()
    mark = msgspec.structs.replace(chunk, stream=CUT, body=text, since=one.since)
    if one.place is None:
        one.place = len(judged.chunks)
        judged.chunks.append(mark)
    else:
        judged.chunks[one.place] = mark
    judged.places.append(one.place)


# -- counts ----------------------------------------------------------------------------------------------------------
class Count(NamedTuple):
    user: str
    before: int  # the number that its row had
    size: int


async def next_counts(unit: Unit) -> list[Count]:
    """The kept output of users whose count is due."""
    pauses = {"again": COUNT_AGAIN, "anyway": COUNT_ANYWAY, "nearly": NEARLY}
    names = [name for (name,) in await unit.rows("uncounted_output", now=unit.now, **pauses)]
    return [Count(*row) for row in await unit.rows("count_output", names=names)] if names else []


async def keep_counts(unit: Unit, counts: Iterable[Count]) -> None:
    """What was kept since a count began is added to it."""
    found = list(counts)
    columns: Columns = {
        "names": [one.user for one in found], "before": [one.before for one in found],
        "sizes": [one.size for one in found],
    }  # fmt: skip
    await unit.run("keep_output_counts", columns, now=unit.now)
