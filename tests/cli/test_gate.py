"""`rota gate ...`: closing, looking, opening."""

from __future__ import annotations

import json

import pytest

from rota.model.principal import SYSTEM
from tests.cli.program import Rota, behind, claim, on_terminal, refused


@pytest.fixture
def waiting(rota: Rota) -> list[str]:
    """Three jobs that nobody runs."""
    return [rota.ok("submit", "--name", name, "--label", name[0], "--", "true") for name in ("mail.a", "mail.b", "db")]


def close(rota: Rota, *words: str) -> str:
    return rota.ok("gate", *words).partition(" ")[0]


def states(rota: Rota, ids: list[str]) -> list[str]:
    return [rota.job(job)["state"] for job in ids]


def test_a_gate_holds_what_fits_until_it_is_opened(rota: Rota, waiting: list[str]) -> None:
    gate = close(rota, "pause", "--task", "mail.*", "--reason", "smtp is down")
    assert claim(rota) == waiting[2:]
    assert states(rota, waiting) == ["held", "held", "running"]
    header, row = rota.ok("gate", "list").splitlines()
    assert header.split() == ["ID", "EFFECT", "MATCHES", "BY", "SINCE", "UNTIL", "HELD", "DROPPED", "REASON"]
    assert row.split()[:5] == [gate[-8:], "pause", "task", "mail.*", "local"]
    assert row.endswith("2     0        smtp is down")
    assert rota.ok("gate", "open", gate[-8:].upper()) == f"{gate} opened; 2 that it held go on"
    behind(rota, lambda store: store.admit(SYSTEM, 100))
    assert states(rota, waiting) == ["ready", "ready", "running"]
    assert rota.json("gate", "list") == []


def test_a_gate_that_drops(rota: Rota, waiting: list[str]) -> None:
    close(rota, "drop", "--label", "m", "--reason", "not needed any more")
    behind(rota, lambda store: store.admit(SYSTEM, 100))
    assert states(rota, waiting) == ["dropped", "dropped", "ready"]
    (gate,) = rota.json("gate", "list")
    assert (gate["effect"], gate["dropped"], gate["held"], gate["matches"]) == ("drop", 2, 0, "label m")
    assert rota.ok("job", "explain", waiting[0]) == "it was dropped by a gate: not needed any more"


def test_all_that_is_given_must_fit(rota: Rota, waiting: list[str]) -> None:
    said = rota.ok(
        "gate", "pause", "--task", "*", "--queue", "default", "--user", "local", "--label", "d", "--reason", "x"
    )
    assert said.partition(" ")[2] == "holds task * in queue default, label d, user local"
    assert claim(rota) == waiting[:2]


def test_a_gate_over_everything_in_json(rota: Rota, waiting: list[str]) -> None:
    gate = rota.json("gate", "pause", "--all", "--reason", " new \u00fcdisk ", "--until", "2090-01-01T00:00:00+01:00")
    assert gate["match"] == {"task": None, "queue": None, "user": None, "label": None}
    assert (gate["matches"], gate["reason"], gate["until"]) == (
        "everything", "new \u00fcdisk", "2089-12-31T23:00:00.000000+00:00",
    )  # fmt: skip
    assert claim(rota) == []
    assert rota.json("gate", "open", gate["id"])["held"] == 3


def test_a_gate_for_some_time(rota: Rota, waiting: list[str]) -> None:
    said = rota.ok("gate", "pause", "--all", "--reason", "lunch", "--for", "2h")
    assert " holds everything until 20" in said
    assert "in 119m" in rota.ok("gate", "list")


def test_what_holds_a_job_is_shown_with_it(rota: Rota, waiting: list[str]) -> None:
    gate = close(rota, "pause", "--task", "db", "--reason", "vacuum it")
    claim(rota)
    sentence = f"a gate of local holds task db: vacuum it (gate {gate})"
    assert f"held by  {sentence}\n" in rota.ok("job", "show", waiting[2])
    (reason,) = rota.job(waiting[2])["held_by"]
    assert (reason["kind"], reason["text"], reason["data"]["gate"]) == ("gate", sentence, gate)
    assert rota.ok("job", "explain", waiting[2]).splitlines()[0] == sentence
    assert rota.job(waiting[0])["held_by"] == []


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (["open", "zzz"], "no gate 'zzz'", 1),
        (["open", ""], "no gate ''", 1),
        (["open", "\udcff"], "ID: '\\udcff' is not valid; expected a text in UTF-8", 2),
        (["pause", "--all", "--reason", ""], "reason: '' is not valid; expected a text of up to", 2),
        (["pause", "--all", "--reason", " "], "reason: ' ' is not valid", 2),
        (["pause", "--all", "--reason", "a\x1b[31m"], "reason: 'a\\x1b[31m' is not valid", 2),
        (["drop", "--all", "--reason", "x", "--until", "2001-01-01T00:00:00Z"], "expected a time to come", 2),
    ],
)
def test_what_is_refused_changes_nothing(
    rota: Rota, waiting: list[str], words: list[str], said: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in refused(rota, capsys, "gate", *words, code=code)
    assert rota.json("gate", "list") == []
    assert claim(rota) == waiting


def test_an_end_that_fits_two_gates(rota: Rota, waiting: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    gates = [close(rota, "pause", "--label", label, "--reason", "x") for label in ("a", "b")]
    err = refused(rota, capsys, "gate", "open", gates[0][:4])
    assert f"an id that fits one only; it fits {gates[0]} and {gates[1]}" in err
    assert len(rota.json("gate", "list")) == 2


@pytest.mark.slow
def test_gates_on_a_terminal(rota: Rota, waiting: list[str]) -> None:
    close(rota, "drop", "--task", "[red]*", "--reason", "x" * 200)
    code, shown = on_terminal(rota.folder, "gate", "list", env={"COLUMNS": "80"})
    assert code == 0
    assert "task [red]*" in shown
    assert "\x1b[31mdrop" in shown


@pytest.mark.slow
def test_gates_of_others_are_not_shown(rota: Rota, waiting: list[str]) -> None:
    close(rota, "pause", "--all", "--reason", "mine")
    done = rota("gate", "list", "--json", env={"ROTA_USER": "eve"})
    assert json.loads(done.stdout) == []


@pytest.mark.slow
def test_whoever_waits_is_told_of_the_gate(served: Rota) -> None:
    close(served, "pause", "--label", "told", "--reason", "not now")
    running = served.start("run", "--label", "told", "--", "true")
    running.read_until("rota: waiting: a gate of local holds label told: not now")
    (gate,) = served.json("gate", "list")
    served.ok("gate", "open", gate["id"])
    assert running.end() == 0
