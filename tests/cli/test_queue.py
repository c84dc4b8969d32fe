"""`rota queue ...`, `rota job priority` and `rota job explain`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.program import APP, Rota, claim, on_terminal, refused
from tests.store.postgres.backends import migrated_database

HEADER = ["NAME", "READY", "RUNNING", "HELD", "SCHEDULED", "BLOCKED", "OLDEST", "ENDED/S", "NODES"]
HEADER += ["SLOTS", "FEEDBACK", "PAUSED"]


class Placed(Rota):
    """Its verbs are on a store of our choice."""

    def __init__(self, folder: Path, store: str) -> None:
        super().__init__(folder)
        self.store = store

    def here(self, *words: str) -> tuple[int, str]:
        return super().here("--store", self.store, *words)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Placed]:
    (tmp_path / "shop.py").write_text(APP)
    if request.param == "sqlite":
        yield Placed(tmp_path, f"sqlite:///{tmp_path / 'rota.db'}")
        return
    with migrated_database() as url:
        yield Placed(tmp_path, url)


def test_queues_as_they_stand(place: Placed) -> None:
    parent = place.ok("submit", "--", "true")
    for words in (["--in", "1h"], ["--after", parent], ["--queue", "mail"], ["--limit", "db=1"], ["--limit", "db=1"]):
        place.ok("submit", *words, "--", "true")
    claim(place, count=5, store=place.store)
    place.ok("submit", "--", "true")
    header, default, mail = place.ok("queue", "list").splitlines()
    assert header.split() == HEADER
    assert default.split()[:6] == ["default", "1", "2", "1", "1", "1"]
    assert default.split()[7:] == ["0.0", "1", "5"]
    assert mail.split()[:2] == ["mail", "1"]
    wire = {info["name"]: info for info in place.json("queue", "list")}
    assert (wire["default"]["running"], wire["default"]["ended_per_second"]) == (2, 0.0)
    assert wire["mail"]["oldest"].endswith("+00:00")


def test_tasks_that_no_node_has_ever_offered_are_named(place: Placed, capsys: pytest.CaptureFixture[str]) -> None:
    job = place.ok("submit", "--app", "shop:app", "hello", '{"name": "ada"}')
    capsys.readouterr()
    assert len(place.ok("queue", "list").splitlines()) == 2
    told = "rota: queue default: jobs wait for tasks that no node has ever offered: hello\n"
    assert capsys.readouterr().err == told
    assert place.json("queue", "list")[0]["unoffered"] == ["hello"]
    assert "no node has ever offered that task" in place.ok("job", "explain", job)


def test_nothing_of_a_paused_queue_starts(place: Placed) -> None:
    job = place.ok("submit", "--", "true")
    assert place.ok("queue", "pause", "default", "--note", "new disk") == "default paused"
    assert claim(place, store=place.store) == []
    assert place.ok("queue", "list").splitlines()[1].endswith(" ago: new disk")
    assert "queue 'default' was paused by local: new disk" in place.ok("job", "explain", job)
    assert place.json("queue", "pause", "default")["note"] == "new disk"  # what was noted then still holds
    assert place.json("queue", "pause", "default", "--note", "newer")["note"] == "newer"
    assert place.ok("queue", "resume", "default") == "default resumed"
    assert claim(place, store=place.store) == [job]
    assert place.json("queue", "list")[0]["paused_by"] is None


def test_pausing_twice_resuming_twice(place: Placed, capsys: pytest.CaptureFixture[str]) -> None:
    place.ok("migrate")
    assert place.ok("queue", "pause", "mial") == "mial paused; so far it has no jobs, and no node serves it"
    assert place.json("queue", "resume", "mial") == {"name": "mial", "resumed": True}
    assert refused(place, capsys, "queue", "resume", "mial", code=1) == "rota: queue 'mial' was not paused\n"


def test_a_note_that_is_none(place: Placed, capsys: pytest.CaptureFixture[str]) -> None:
    place.ok("migrate")
    assert "note: 'a\\x1b' is not valid" in refused(place, capsys, "queue", "pause", "mail", "--note", "a\x1b")
    assert all(info["paused_at"] is None for info in place.json("queue", "list"))


def test_what_runs_goes_on(place: Placed) -> None:
    place.ok("submit", "--", "true")
    claim(place, store=place.store)
    assert place.ok("queue", "pause", "default") == "default paused; 1 that run go on"


@pytest.mark.slow
def test_queues_on_a_narrow_terminal(served: Rota) -> None:
    served.ok("submit", "--queue", "far", "--", "true")
    code, shown = on_terminal(served.folder, "queue", "list", env={"COLUMNS": "60", "NO_COLOR": "1"})
    assert code == 0
    assert "far" in shown
    assert "BLOCKED" not in shown


# -- priority --------------------------------------------------------------------------------------------------------
def test_a_job_that_became_urgent_goes_first(place: Placed) -> None:
    first, second, third = (place.ok("submit", "--", "true") for _ in range(3))
    assert place.ok("job", "priority", third[-12:], second, "0") == f"{third} has priority 0\n{second} has priority 0"
    assert place.job(third)["priority"] == 0
    assert claim(place, count=2, store=place.store) == [second, third]
    code, said = place.here("--json", "job", "priority", first, second, "9")
    assert code == 1
    assert '"answer": "refused"' in said


def test_what_does_not_wait_keeps_its_priority(place: Placed, capsys: pytest.CaptureFixture[str]) -> None:
    job = place.ok("submit", "--", "true")
    claim(place, store=place.store)
    err = refused(place, capsys, "job", "priority", job, "0", code=1)
    assert err == f"rota: job {job} does not wait any more: it is running\n"
    assert refused(place, capsys, "job", "priority", job, "zzz", "0", code=1) == "rota: no job 'zzz'\n"


def test_many_get_another_priority_by_filters(place: Placed, capsys: pytest.CaptureFixture[str]) -> None:
    here, other = place.ok("submit", "--queue", "q", "--", "true"), place.ok("submit", "--", "true")
    assert (
        place.ok("job", "priority", "--all", "--queue", "q", "--dry-run", "2")
        == f"{here} true ready\n1 job would be reprioritised"
    )
    assert place.ok("job", "priority", here, "--dry-run", "2") == f"{here} would be reprioritised"
    refused(place, capsys, "job", "priority", "--all", "2", code=2)
    assert place.ok("job", "priority", "2", "--all", "--queue", "q", "--yes") == "1 job reprioritised"
    assert [place.job(job)["priority"] for job in (here, other)] == [2, 5]
    assert place.ok("job", "priority", here, "--store", place.store, "7") == f"{here} has priority 7"


# -- explain ---------------------------------------------------------------------------------------------------------
def test_reasons_come_one_a_line_and_as_data(place: Placed) -> None:
    job = place.ok("submit", "--priority", "3", "--queue", "q\u00e4", "--", "true")
    worker, rank = place.ok("job", "explain", job[-12:]).splitlines()
    assert worker.startswith("no live node serves queue 'q\u00e4'; it has been ready since 20")
    assert rank.startswith("it is ready in queue 'q\u00e4' with priority 3: it is the next of yours")
    found = place.json("job", "explain", job)
    assert (found["job"], found["state"]) == (job, "ready")
    assert [reason["kind"] for reason in found["reasons"]] == ["worker", "rank"]


def test_what_others_wrote_does_not_act_on_the_terminal(served: Rota) -> None:
    _, job = served.here("submit", "--wait", "boom", '{"text": "\\u001b]0;owned\\u0007"}')
    said = served.ok("job", "explain", job)
    assert said == "it failed for good: \\x1b]0;owned\\x07 (after 1 attempt, 1 failed, 0 crashed)"


def test_a_job_that_nobody_has(place: Placed, capsys: pytest.CaptureFixture[str]) -> None:
    place.ok("migrate")
    assert refused(place, capsys, "job", "explain", "zzz", code=1) == "rota: no job 'zzz'\n"


def test_how_a_queue_ranks_its_jobs(place: Placed) -> None:
    later = place.ok("submit", "--priority", "9", "--", "true")
    first = place.ok("submit", "--priority", "0", "--", "true")
    said = place.ok("queue", "set", "default", "--step", "0s")
    assert said == "default: step 0s; feedback off"
    assert claim(place, count=1, store=place.store) == [later]
    assert place.json("queue", "set", "default", "--step", "strict")["step"] == "strict"
    assert place.json("queue", "set", "default", "--step", "default")["step"] is None
    wire = place.json(
        "queue", "set", "default", "--feedback", "on", "--quantum", "5s", "--levels", "3", "--boost", "2m"
    )
    assert wire["feedback"] == {"quantum": "5s", "levels": 3, "boost": "2m"}
    assert " 3 levels" in place.ok("queue", "list")
    assert place.ok("flow", "list").split() == ["QUEUE", "FLOW", "LEVEL", "USED"]
    assert place.json("flow", "list") == []
    assert place.ok("queue", "set", "default", "--feedback", "off").endswith("feedback off")
    assert "it is the next of yours" in place.ok("job", "explain", first)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "expected --step or --feedback, or both"),
        (["--step", "soon"], "step: 'soon' is not valid; expected a duration from 0s to 1d, strict, or default"),
        (["--step", "2d"], "expected a duration from 0s to 1d"),
        (["--quantum", "5s"], "expected them together with --feedback on"),
        (["--feedback", "on", "--levels", "9"], "levels: 9 is not valid"),
        (["--feedback", "on", "--quantum", "0s"], "quantum: "),
    ],
)
def test_a_queue_is_not_set_to_nonsense(
    place: Placed, capsys: pytest.CaptureFixture[str], words: list[str], text: str
) -> None:
    place.ok("submit", "--", "true")
    assert text in refused(place, capsys, "queue", "set", "default", *words)
    (info,) = place.json("queue", "list")
    assert (info["step"], info["feedback"]) == (None, None)
