"""Running jobs as bytes: they come back exactly, or are not kept."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from rota.hot import kept_jobs
from rota.hot.kept_jobs import LAG, LARGEST, KeptJob, KnownJobs, Moment, ended, kept_job, read_kept
from rota.hot.lane import Report
from rota.hot.reports import TOP, JobNews
from rota.model.gates import match
from rota.model.job import AttemptInfo, JobInfo, Kind
from rota.model.lifecycle import State
from rota.model.limits import Key
from rota.model.outcome import Ending, Problem, Usage
from rota.model.progress import Progress
from rota.model.requirements import Alone, Requirements
from rota.model.retry import Retry
from rota.model.times import SECOND

AT = datetime(2026, 7, 1, 12, 0, 0, 123_457, UTC)
READ = 1_800_000_000_000_000
ODD = {
    "": None,
    "a": [1, 1.0, -0.0, True, 2**64 - 1, -(2**63), 1e300, "\0é🜚", {"b": [[], {}]}],
    "t": "2026-01-01T00:00:00Z",
}


def job(**changes: Any) -> JobInfo:
    given: dict[str, Any] = {
        "id": "01900000-0000-7000-8000-000000000001", "owner": "alice", "task": "t", "kind": Kind.FUNCTION,
        "spec": {"name": "t"}, "args": {}, "queue": "default", "priority": 1, "state": State.RUNNING, "run_at": AT,
        "created_at": AT, "started_at": AT, "fence": 3,
    }  # fmt: skip
    return JobInfo(**given | changes)


FULL = job(
    spec=ODD, args=ODD, meta=ODD, result=ODD, reason="why", expires_at=AT, timeout=timedelta(microseconds=1),
    retry=Retry(3, "1s", 0.5), node="box", cancelling=True, key="k", schedule="nightly", fire_time=AT, workflow="w",
    name="n", requirements=Requirements(("x",), (Key("k", 2),), Alone(match(label="x"), None, 5, True), "f"),
    progress=Progress(0.1 + 0.2, "…\x1b", AT), error=Problem("a.B", "m", "trace"),
    attempts=[AttemptInfo(1, 2, "box", AT, AT, Ending.FAILED, -9, Problem("a.B", "m"), Usage(cpu_time=1)),
              AttemptInfo(2, 3, "box", AT)],
)  # fmt: skip


def read(report: Report | None, at: int = READ, **news: Report) -> JobInfo | None:
    found = read_kept(FULL.id, JobNews(job=report, **news), Moment(at, at))
    return found and found.info


@pytest.mark.parametrize("info", [job(), FULL, job(timeout=timedelta(days=99_999, microseconds=7))])
def test_a_job_comes_back_as_it_was(info: JobInfo) -> None:
    back = read(kept_job(info, READ))
    assert back == info
    assert msgspec.json.encode(back) == msgspec.json.encode(info), "1 and 1.0 are equal"


@pytest.mark.parametrize(
    "info",
    [
        job(args={"a": 2**64}),
        job(args={"a": -(2**63) - 1}),
        job(args={"a": "x" * LARGEST}),
        job(state=State.READY),
        job(state=State.SUCCEEDED),
        job(started_at=None),
    ],
)
def test_what_would_not_come_back_or_does_not_run_is_not_kept(info: JobInfo) -> None:
    assert kept_job(info, READ) is None


def test_a_job_is_shown_until_it_is_too_old_whatever_the_server_says() -> None:
    report = kept_job(FULL, READ)
    assert read(report, READ + LAG) == FULL
    assert read(report, READ + LAG + 1) is None
    assert read(report, READ - 1) is None, "it can't have been read in the future"
    doubtful = Moment(READ + LAG - SECOND, READ + LAG + 1)
    assert read_kept(FULL.id, JobNews(job=report), doubtful) is None


def test_what_was_read_before_a_change_is_not_shown() -> None:
    report = kept_job(FULL, READ)
    for at, shown in ((READ - 1, FULL), (READ, None), (READ + 1, None)):
        assert read(report, READ + 2, changed=Report(f"c/{FULL.id}", (at, 0), b"")) == shown


def test_an_end_comes_after_every_read() -> None:
    report = kept_job(FULL, READ)
    assert report is not None
    assert ended(FULL.id, 3).version > report.version
    assert ended(FULL.id, 3).version[1] == TOP < 2**53
    following = kept_job(job(fence=4), READ - 1)
    assert following is not None
    assert ended(FULL.id, 3).version < following.version
    assert read(ended(FULL.id, 3)) is None


def test_bytes_of_others_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    report = kept_job(FULL, READ)
    assert report is not None
    for content in (b"\xc1", b"\x93", report.content[:-1], report.content + b"x", msgspec.msgpack.encode([1, 2, 3])):
        assert read(report._replace(content=content)) is None
    assert read(report._replace(version=(4, READ))) is None
    assert read_kept("another", JobNews(job=report), Moment(READ, READ)) is None
    monkeypatch.setattr(kept_jobs, "__version__", "9.9")
    assert read(report) is None, "another version may know other fields"


def test_a_process_shows_nothing_that_is_older_than_what_it_knows() -> None:
    known = KnownJobs()
    three = KeptJob(FULL, READ)
    assert known.allows(FULL.id, three)
    known.shown(FULL.id, 3, READ)
    assert known.allows(FULL.id, three)
    known.shown(FULL.id, 3, READ + 1)
    assert not known.allows(FULL.id, three)
    assert known.allows(FULL.id, KeptJob(job(fence=4), READ - 5))
    known.ended(FULL.id, 3)
    assert not known.allows(FULL.id, KeptJob(FULL, READ + 100))
    known.changed(FULL.id, READ + 7)
    assert not known.allows(FULL.id, KeptJob(job(fence=4), READ + 7))
    assert known.allows(FULL.id, KeptJob(job(fence=4), READ + 8))


def test_what_a_process_remembers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_jobs, "REMEMBERED", 2)
    known = KnownJobs()
    for name in ("a", "b", "a", "c"):
        known.ended(name, 3)
    assert [known.allows(name, KeptJob(FULL, READ)) for name in "abc"] == [False, True, False]
