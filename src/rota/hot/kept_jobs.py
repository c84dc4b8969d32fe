"""Running jobs as they stand in the hot tier, and what this process knows of each.

A job is shown from the hot tier for `LAG` after the store was read for it, and no longer: its bytes say when that was,
by the store's clock, so neither the server's clock nor an old snapshot of it matters. A process never shows a state
that is older than one it has shown or made itself: it remembers the latest of each job.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

import msgspec

from rota import __version__
from rota.hot.lane import Report
from rota.hot.reports import JOB, TOP, JobNews
from rota.model.job import JobInfo
from rota.model.lifecycle import State
from rota.model.times import SECOND, Duration, Instant

LAG: Duration = 2 * SECOND
LARGEST = 64 << 10  # bytes of a job that is kept
REMEMBERED = 20_000  # jobs


class _Kept(msgspec.Struct, frozen=True, array_like=True):
    rota: str  # the version that wrote it: others may know other fields
    read_at: Instant
    info: JobInfo


class Moment(NamedTuple):
    """The store's time, somewhere between these."""

    earliest: Instant
    latest: Instant


class KeptJob(NamedTuple):
    info: JobInfo
    read_at: Instant


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Kept).decode


def kept_job(info: JobInfo, read_at: Instant) -> Report | None:
    """None for a job that is not kept: it does not run, it is too large, or it would not come back as it was."""
    if info.state is not State.RUNNING or info.started_at is None:
        return None
    kept = _Kept(__version__, read_at, info)
    try:
        content = _encode(kept)
        whole = len(content) <= LARGEST and _decode(content) == kept
    except (msgspec.MsgspecError, OverflowError, ValueError, RecursionError):
        return None
    return Report(JOB + info.id, (info.fence, read_at), content) if whole else None


def ended(job: str, fence: int) -> Report:
    """Takes the place of all that was read about an attempt."""
    return Report(JOB + job, (fence, TOP), b"")


def read_kept(job: str, news: JobNews, now: Moment) -> KeptJob | None:
    """The job, if what the hot tier has may be shown."""
    report = news.job
    if report is None or not report.content:
        return None
    try:
        kept = _decode(report.content)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    info, read_at = kept.info, kept.read_at
    fits = kept.rota == __version__ and info.id == job and report.version == (info.fence, read_at)
    outdated = news.changed is not None and news.changed.version[0] >= read_at
    if not fits or outdated or not now.latest - LAG <= read_at <= now.latest or info.state is not State.RUNNING:
        return None
    return KeptJob(info, read_at)


class _Known(NamedTuple):
    fence: int = 0
    read_at: Instant = 0  # when a state with this fence was read
    changed_at: Instant = 0  # what was read before is out of date


class KnownJobs:
    """The latest that this process has shown, or done, of the last jobs."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, _Known] = OrderedDict()

    def shown(self, job: str, fence: int, read_at: Instant) -> None:
        known = self._known.get(job, _Known())
        if (fence, read_at) > known[:2]:
            known = known._replace(fence=fence, read_at=read_at)
        self._remember(job, known)

    def ended(self, job: str, fence: int) -> None:
        self.shown(job, fence, TOP)

    def changed(self, job: str, at: Instant) -> None:
        known = self._known.get(job, _Known())
        self._remember(job, known._replace(changed_at=max(known.changed_at, at)))

    def allows(self, job: str, kept: KeptJob) -> bool:
        known = self._known.get(job, _Known())
        return (kept.info.fence, kept.read_at) >= known[:2] and kept.read_at > known.changed_at

    def _remember(self, job: str, known: _Known) -> None:
        self._known[job] = known
        self._known.move_to_end(job)
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
