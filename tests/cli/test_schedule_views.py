"""`rota schedule fire`, `history` and `backfill`: jobs that schedules make, and what became of them."""

from __future__ import annotations

import pytest

from tests.cli.program import LATER, Rota, on_terminal, refused, sql


# -- fire, history ---------------------------------------------------------------------------------------------------
def test_fires_become_jobs(served: Rota) -> None:
    served.ok("schedule", "add", "hi", LATER, "--tz", "Asia/Kathmandu", "hello", '{"name": "{fire_time}"}')
    job_id = served.ok("schedule", "fire", "hi", "--wait")
    job = served.job(job_id)
    assert (job["state"], job["schedule"]) == ("succeeded", "hi")
    assert job["args"]["name"].endswith("+05:45")
    shown = served.ok("job", "show", job_id)
    assert "\nschedule   hi\nfire time  " in shown
    assert served.json("schedule", "fire", "hi")["schedule"] == "hi"
    lines = [line.split() for line in served.ok("schedule", "history", "hi", "--limit", "5").splitlines()]
    assert lines[0] == ["FIRE", "TIME", "UTC", "WHAT", "JOB", "STATE"]
    assert lines[2][-4:] == ["made:", "manual", job_id, "succeeded"]
    assert "+05:45" in lines[2][1]
    served.ok("schedule", "remove", "hi")
    assert [fire["kind"] for fire in served.json("schedule", "history", "hi")] == ["manual", "manual"]


def test_a_rule_fires_by_itself(served: Rota) -> None:
    served.ok("schedule", "add", "tick", "every 1s", "--limit", "1", "--", "echo", "{fire_time}")
    while not (found := served.json("schedule", "history", "tick")):
        pass
    job = served.job(found[0]["job"])
    assert (job["schedule"], job["fire_time"]) == ("tick", found[0]["fire_time"])
    assert job["spec"]["argv"][1][:19] == found[0]["fire_time"][:19]
    served.ok("job", "wait", found[0]["job"])
    assert served.json("schedule", "show", "tick")["state"] == "ended"


def test_a_fire_that_fails_or_is_skipped(served: Rota, capsys: pytest.CaptureFixture[str]) -> None:
    served.ok("schedule", "add", "bad", LATER, "boom")
    assert served.here("schedule", "fire", "bad", "--wait")[0] == 1
    assert "failed: no luck" in capsys.readouterr().err
    served.ok("schedule", "add", "one", LATER, "--overlap", "skip", "--queue", "nowhere", "--", "ls")
    served.ok("schedule", "fire", "one")
    said = refused(served, capsys, "schedule", "fire", "one", code=1)
    assert "schedule 'one' was not fired: an earlier job of it still lives, and its overlap is skip" in said
    made = [(fire["made"], fire["reason"]) for fire in served.json("schedule", "history", "one")]
    assert made == [(False, "overlap"), (True, None)]


@pytest.mark.slow
def test_a_fire_that_waits_for_another_says_so(served: Rota) -> None:
    served.ok("schedule", "add", "queued", LATER, "--overlap", "queue", "--", "sh", "-c", "test -e go || sleep 60")
    first = served.ok("schedule", "fire", "queued")
    waiting = served.start("schedule", "fire", "queued", "--wait")
    waiting.read_until("waiting until the jobs before it have ended, as the overlap of schedule 'queued' says")
    (served.folder / "go").touch()
    served.ok("job", "cancel", first)
    assert waiting.end() == 0


def test_runs_of_skipped_fires_are_one_line(kept: Rota) -> None:
    row = "INSERT INTO skips (owner, name, first, last, count, reason, at) VALUES ('local', 'nightly', ?, ?, ?, ?, 1)"
    day, first = 86_400_000_000, 1_800_000_000_000_000
    sql(kept, row, first, first + 4 * day, 5, "paused")
    sql(kept, row, first + 5 * day, first + 5 * day, 1, "missed")
    sql(kept, row, first + 6 * day, first + 9 * day, None, "missed")
    lines = kept.ok("schedule", "history", "nightly").splitlines()
    assert "2027-01-15 09:00:00+01:00..2027-01-19 09:00:00+01:00 (5) " in lines[3]
    assert " 2027-01-15 08:00:00Z..2027-01-19 08:00:00Z " in lines[3]
    assert lines[3].endswith("skipped: paused")
    assert lines[2].startswith("2027-01-20 09:00:00+01:00     ")
    assert "(many)" in lines[1]
    assert len(kept.json("schedule", "history", "nightly", "--limit", "2")) == 2


# -- backfill --------------------------------------------------------------------------------------------------------
SPAN = ("--from", "2026-01-01T00:00:00Z", "--to", "2026-01-10T00:00:00Z")


@pytest.mark.slow
def test_a_backfill_makes_what_was_not_made(kept: Rota) -> None:
    dry = kept.ok("schedule", "backfill", "nightly", *SPAN, "--dry-run")
    assert dry.startswith("9 fires, from 2026-01-01 03:00:00+01:00 to 2026-01-09 03:00:00+01:00; ")
    assert kept.json("job", "list") == []
    found = kept.json(
        "schedule", "backfill", "nightly", "--from", "2026-01-01T00:00:00Z", "--to", "2026-01-02T12:00:00Z"
    )
    assert (found["total"], found["made"], found["already"], found["dry_run"]) == (2, 2, 0, False)
    assert (found["first"], found["last"]) == ("2026-01-01T02:00:00Z", "2026-01-02T02:00:00Z")
    again = kept("schedule", "backfill", "nightly", *SPAN)
    assert again.stdout.endswith(": 7 made, 0 queued, 2 made before\n")
    assert not again.stderr
    assert len(kept.json("job", "list")) == 9
    assert {fire["kind"] for fire in kept.json("schedule", "history", "nightly")} == {"backfill"}
    none = ("--from", "2026-01-01T10:00:00Z", "--to", "2026-01-01T11:00:00Z")
    assert kept.ok("schedule", "backfill", "nightly", *none) == "it has no fires in that time"


def test_a_backfill_tells_a_terminal_how_far_it_is(kept: Rota) -> None:
    code, shown = on_terminal(kept.folder, "schedule", "backfill", "nightly", *SPAN)
    assert code == 0
    assert "\r\x1b[K0 of 9 (0 %)\r\x1b[K\r\x1b[K9 of 9 (100 %)\r\x1b[K9 fires, from " in shown


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("span", "said"),
    [
        (("x", "2026-01-01T00:00:00Z"), "--from: 'x' is not valid; expected a time in ISO 8601"),
        (("2026-01-01T00:00:00Z", "x"), "--to: 'x' is not valid"),
        (("2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z"), "to: '2026-01-01T00:00:00.000000+00:00' is not valid"),
        (("2026-01-02T00:00:00Z", "2090-01-01T00:00:00Z"), "expected a time that has passed"),
        (("2026-01-01T00:00:00Z", "2026-01-01T04:00:00Z"), "more than 10,000 fires' is not valid; expected at most"),
    ],
)
def test_a_bad_backfill(kept: Rota, span: tuple[str, str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    kept.ok("schedule", "add", "often", "every 1s", "--", "ls")
    words = ("schedule", "backfill", "often", "--from", span[0], "--to", span[1])
    assert said in refused(kept, capsys, *words)
    if "10,000" in said:
        assert kept.ok(*words, "--yes", "--dry-run").startswith("14,401 fires, ")
    assert kept.json("job", "list") == []
