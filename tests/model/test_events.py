"""Events: their names, the entries that tell of many jobs, and filters."""

from __future__ import annotations

import pytest

from rota.errors import InvalidInput
from rota.model.events import EventFilter, EventInfo, expand, read_place


def event(kind: str = "job.failed", subject: str = "j", **data: object) -> EventInfo:
    (made,) = expand(1, 0, kind, "ann", subject, data)
    return made


def test_an_entry_tells_of_each_of_its_jobs() -> None:
    found = list(expand(58, 0, "job.succeeded", "ann", "", {"task": "t", "jobs": ["a", "b"]}))
    assert [(one.id, one.subject, one.data) for one in found] == [
        ("58.0", "a", {"task": "t"}), ("58.1", "b", {"task": "t"}),
    ]  # fmt: skip
    assert [read_place(one.id).name for one in found] == ["58.0", "58.1"]
    assert event("node.died", "n", jobs=3).data == {"jobs": 3}


@pytest.mark.parametrize("text", ["", "x", "1.", ".1", "-1", "1.2.3", "9" * 19, "1 "])
def test_names_that_are_none(text: str) -> None:
    with pytest.raises(InvalidInput):
        read_place(text)


@pytest.mark.parametrize(
    ("which", "kind", "subject", "fits"),
    [
        (EventFilter(), "node.died", "n", True),
        (EventFilter(kinds=("job.*",)), "job.failed", "j", True),
        (EventFilter(kinds=("job.f?iled", "x")), "job.failed", "j", True),
        (EventFilter(kinds=("job.*",)), "node.died", "n", False),
        (EventFilter(job="j"), "job.failed", "j", True),
        (EventFilter(job="k"), "job.failed", "j", False),
        (EventFilter(job="j"), "gate.closed", "j", False),
        (EventFilter(task="ma*"), "job.failed", "j", True),
        (EventFilter(task="mi*"), "job.failed", "j", False),
        (EventFilter(queue="q"), "job.failed", "j", True),
        (EventFilter(queue="q"), "queue.paused", "q", True),
        (EventFilter(queue="q"), "queue.paused", "r", False),
        (EventFilter(queue="q"), "schedule.added", "q", False),
        (EventFilter(schedule="s"), "schedule.added", "s", True),
        (EventFilter(schedule="s"), "schedule.added", "t", False),
        (EventFilter(workflow="w"), "schedule.added", "s", False),
    ],
)
def test_filters(which: EventFilter, kind: str, subject: str, fits: bool) -> None:
    assert which.fits(event(kind, subject, task="mail", queue="q")) is fits


@pytest.mark.parametrize(
    ("kinds", "watches"),
    [
        ((), True),
        (("job.*",), True),
        (("job.failed", "job.started"), True),
        (("job.o*",), True),
        (("job.failed", "node.*"), False),
        (("watch.began",), False),
    ],
)
def test_who_wants_orders_or_starts_is_told_what_is_missing(kinds: tuple[str, ...], watches: bool) -> None:
    which = EventFilter(kinds=kinds, task="mail.*")
    (began,) = expand(1, 0, "watch.began", "ann", "ann", {"since": None})
    assert (which.watches, which.fits(began)) == (watches, watches)
