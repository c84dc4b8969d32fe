"""Changes of many jobs: `job cancel --all`, `job retry --all`, and what they show before they do it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.program import Rota, on_terminal


@pytest.fixture
def waiting(served: Rota) -> Iterator[list[str]]:
    """Seven jobs that wait, five of them mails."""
    ids = [
        served.ok("submit", "--in", "1h", "--name", name, "--label", name, "--", "true")
        for name in ("mail", "mail", "mail", "mail", "mail", "report", "report")
    ]
    yield ids
    served.ok("job", "cancel", "--all", "--state", "scheduled", "--yes")


def states(served: Rota, ids: list[str]) -> list[str]:
    return [served.job(job)["state"] for job in ids]


def test_the_filters_choose(served: Rota, waiting: list[str]) -> None:
    *mails, first, second = waiting
    dry = served.ok("job", "cancel", "--all", "--task", "rep*", "--dry-run")
    assert dry == f"{second} report scheduled\n{first} report scheduled\n2 jobs would be cancelled"
    assert set(states(served, waiting)) == {"scheduled"}
    done = served.ok("job", "cancel", "--all", "--label", "report", "--yes", "--reason", "month is closed")
    assert done == "2 jobs cancelled"
    assert served.job(first)["reason"] == "month is closed"
    assert set(states(served, mails)) == {"scheduled"}
    assert served.json("job", "cancel", "--all", "--task", "mail", "--queue", "none", "--yes") == {
        "cancelled": 0, "matched": 0, "dry_run": False,
    }  # fmt: skip
    assert served.json("job", "cancel", "--all", "--task", "mail", "--dry-run")["matched"] == 5
    listed = served.json("job", "list", "--label", "report", "--state", "cancelled", "--error", "month")
    assert [job["id"] for job in listed] == [second, first]


def test_a_query_chooses_with_the_filters(served: Rota, waiting: list[str]) -> None:
    *mails, first, second = waiting
    dry = served.ok("job", "cancel", "--all", "-label:mail", "state:live", "--dry-run")
    assert dry == f"{second} report scheduled\n{first} report scheduled\n2 jobs would be cancelled"
    assert served.ok("job", "cancel", "--all", "label:report", "--state", "ready", "--yes") == "0 jobs cancelled"
    assert served.ok("job", "priority", "--all", "task:rep*", "--yes", "created>-1h", "3") == "2 jobs reprioritised"
    assert [served.job(job)["priority"] for job in (first, mails[0])] == [3, 5]
    assert served.ok("job", "cancel", "--all", "priority:3", "--yes") == "2 jobs cancelled"
    assert served.ok("job", "retry", "--all", "priority:3", "state:cancelled", "--yes") == "2 jobs retried"
    assert set(states(served, mails)) == {"scheduled"}


@pytest.mark.slow
def test_it_shows_the_first_few_and_asks(served: Rota, waiting: list[str]) -> None:
    refused = served("job", "cancel", "--all", "--state", "scheduled")
    assert refused.returncode == 2
    assert "cancel --all: 'no terminal to ask on' is not valid; expected --yes" in refused.stderr
    code, shown = on_terminal(served.folder, "job", "cancel", "--all", "--state", "scheduled", answer="n\n")
    assert code == 1
    assert "cancel 7 jobs? [y/N]" in shown
    assert "nothing was changed" in shown
    assert waiting[6] in shown
    assert waiting[2] in shown
    assert waiting[1] not in shown
    assert "... and 2 more" in shown
    assert set(states(served, waiting)) == {"scheduled"}
    code, shown = on_terminal(served.folder, "job", "cancel", "--all", "--task", "report", answer="y\n")
    assert (code, "2 jobs cancelled" in shown) == (0, True)
    assert states(served, waiting) == ["scheduled"] * 5 + ["cancelled"] * 2


@pytest.mark.slow
def test_retry_takes_many_too(served: Rota, waiting: list[str]) -> None:
    assert served.ok("job", "retry", "--all", "--task", "report", "--state", "scheduled", "--yes") == "2 jobs retried"
    served.ok("job", "wait", *waiting[5:])
    assert states(served, waiting[5:]) == ["succeeded"] * 2
    done = served("job", "retry", "--dry-run", waiting[0], waiting[5])
    assert (done.returncode, done.stdout) == (1, f"{waiting[0]} would be retried\n")
    assert done.stderr == f"rota: job {waiting[5]} would not be retried: it is succeeded\n"
    assert served.ok("job", "cancel", "--dry-run", waiting[0]) == f"{waiting[0]} would be cancelled"


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("cancel",), "say which: `rota job cancel ID...`, or --all with filters"),
        (("cancel", "abc", "--all"), "say which"),
        (("cancel", "state:failed"), "a query goes with --all: rota job cancel --all state:failed"),
        (("cancel", "--all", "stat:failed", "--yes"), "query, character 1: there is no field"),
        (("retry", "abc", "--task", "x"), "filters go with --all, not with ids"),
        (("cancel", "--all", "--state", "gone", "--yes"), "--state: 'gone' is not valid; expected some of"),
        (("cancel", "--all", "--workflow", "none", "--yes"), "no workflow 'none'"),
        (("cancel", "--all", "--task", "x", "--yes", "--reason", "x" * 3_000), "reason: 'xxx"),
    ],
)
def test_what_makes_no_sense_is_refused(served: Rota, words: tuple[str, ...], message: str) -> None:
    done = served("job", *words)
    assert done.returncode in (1, 2)
    assert message in done.stderr
