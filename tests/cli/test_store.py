"""`rota node list`, `rota migrate`, `rota doctor`."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from rota.store.sqlite.migrate import known_version
from tests.cli.program import Rota


def test_nodes_are_listed_live_stopped_and_killed(rota: Rota) -> None:
    node = rota.up("--queues", "default:3,mail:2", "--node", "one", "--roles", "worker")
    try:
        (live,) = rota.json("node", "list")
        assert (live["id"], live["state"], live["roles"], live["running"]) == ("one", "live", ["worker"], 0)
        assert live["queues"] == {"default": 3, "mail": 2}
        assert (live["slots"], live["leader"]) == (5, False)
        assert live.keys() >= {"seen_at", "started_at", "version", "lease"}
        header, row = rota("node", "list").stdout.splitlines()
        assert header.split()[:7] == ["ID", "STATE", "ROLES", "QUEUES", "SLOTS", "RUNNING", "LEADER"]
        assert "default:3, mail:2" in row
        assert rota("up", "--node", "one").returncode == 2
        node.signal(signal.SIGKILL)
        node.end()
        assert [node["state"] for node in rota.json("node", "list")] == ["gone"]
    finally:
        node.kill()


@pytest.mark.slow
def test_nodes_that_left_are_past(rota: Rota) -> None:
    assert rota.up("--node", "one").stop() == 0
    assert rota.json("node", "list") == []
    assert [node["state"] for node in rota.json("node", "list", "--past")] == ["left"]


def test_migrate(rota: Rota) -> None:
    newest = known_version()
    assert rota("migrate").stdout == f"sqlite:///rota.db migrated from schema 0 to {newest}\n"
    assert rota.ok("migrate") == f"sqlite:///rota.db is up to date: schema {newest}"
    assert rota.json("migrate") == {"store": "sqlite:///rota.db", "before": newest, "after": newest}


def test_doctor(rota: Rota) -> None:
    sick = rota("doctor")
    assert sick.returncode == 1
    assert "BAD  store     no store at rota.db; start one with `rota up`" in sick.stdout
    assert not list(rota.folder.glob("rota.db*"))
    rota.ok("migrate")
    assert "none; start one with `rota up`" in rota.ok("doctor")
    findings = rota.json("doctor")
    assert {"settings", "store", "schema", "integrity", "nodes"} <= {finding["name"] for finding in findings}
    assert all(finding["ok"] for finding in findings)
    rota.ok("submit", "--", "true")
    waiting = rota("doctor")
    assert waiting.returncode == 1
    assert "none; start one with `rota up`: 1 jobs are ready to run" in waiting.stdout


def test_doctor_says_where_settings_come_from(rota: Rota) -> None:
    Path(rota.folder / "rota.toml").write_text('grace = "1m"')
    said = rota("doctor", "--store", "sqlite:///other.db", env={"ROTA_QUEUES": "a:1"}).stdout
    assert "rota.toml, ROTA_KILL_GRACE, ROTA_QUEUES, ROTA_ROLES, --store" in said
    assert "no store at other.db" in said
