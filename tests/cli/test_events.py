"""`rota events`: what happened, and what happens."""

from __future__ import annotations

import msgspec
import pytest

from tests.cli.program import Rota, refused


def test_what_happened(rota: Rota) -> None:
    job, other = rota.ok("submit", "--", "true"), rota.ok("submit", "--name", "tea", "--", "true")
    rota.ok("job", "cancel", job, other, "--reason", "enough")
    rota.ok("queue", "pause", "mail")
    lines = rota.ok("events").splitlines()
    assert [line.split()[2:4] for line in lines] == [
        ["job.cancelled", job], ["job.cancelled", other], ["queue.paused", "mail"],
    ]  # fmt: skip
    assert "reason=enough" in lines[0]
    assert rota.ok("events", "--kind", "queue.*").split()[2:4] == ["queue.paused", "mail"]
    (line,) = rota.ok("--json", "events", "--job", job).splitlines()
    event = msgspec.json.decode(line)
    assert (event["subject"], event["kind"], event["data"]["queue"]) == (job, "job.cancelled", "default")
    assert rota.ok("events", "--after", event["id"], "--task", "true", "--kind", "job.c*") == ""
    (line,) = rota.ok("events", "--after", event["id"], "--task", "true").splitlines()
    assert line.split()[2:] == ["watch.began", "local", "kinds=job.ordered,job.started"], "others were not told before"
    assert other in rota.ok("events", "--task", "te?")


def test_ids_that_are_not_kept(rota: Rota, capsys: pytest.CaptureFixture[str]) -> None:
    rota.ok("submit", "--", "true")
    assert "--after" in refused(rota, capsys, "events", "--after", "57")
    assert "--after" in refused(rota, capsys, "events", "--after", "x")
    assert "kind" in refused(rota, capsys, "events", "--kind", "A B")


@pytest.mark.slow
def test_what_happens(rota: Rota) -> None:
    job = rota.ok("submit", "--", "true")
    following = rota.start("events", "--follow", "--json", "--after", "0")
    try:
        rota.ok("job", "cancel", job)
        assert job in following.read_until("job.cancelled", "out")
    finally:
        following.kill()
