"""Completion in shells: what is offered where, and that a Tab is harmless."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import time
from contextlib import chdir
from pathlib import Path

import pytest

from rota.cli import completion
from rota.cli.parser import build
from rota.cli.query_completion import conditions
from rota.model.query.parse import parse
from tests.cli.program import LONG, Rota, environment

SLOW = 30.0


def patiently(source: str, place: str | None) -> list[completion.Candidate]:
    return asyncio.run(completion.read_store(SLOW, completion.read_of(source), place))


def never(source: str, place: str | None) -> list[completion.Candidate]:
    pytest.fail(f"the store was asked for {source}")


def offered(*words: str) -> list[str]:
    return [word for word, _ in completion.candidates(words, never)]


def known(rota: Rota, *words: str) -> list[str]:
    with chdir(rota.folder):
        return [word for word, _ in completion.candidates(words, patiently)]


def test_verbs_options_and_choices_come_from_the_parser() -> None:
    assert {"up", "job", "schedule", "doctor", "completion"} <= set(offered(""))
    assert offered("sch") == ["schedule"]
    assert offered("job", "ca") == ["cancel"]
    assert {"--all", "--task", "--reason", "--store"} <= set(offered("job", "cancel", "--"))
    assert offered("job", "cancel", "--all", "--al") == []
    assert offered("completion", "") == ["bash", "zsh", "fish"]
    assert offered("job", "list", "--state", "fa") == ["failed"]
    assert offered("job", "list", "--state", "failed,ca") == ["failed,cancelled"]
    assert offered("--json", "job", "li") == ["list"]
    assert offered("job", "list", "--limit", "") == []
    assert offered("job", "logs", "--stream", "std") == ["stdout", "stderr"]
    assert offered("logs", "search", "--stream", "l") == ["log"]
    assert offered("run", "--", "rm", "") == []
    assert offered("nonsense", "--") != []


def test_every_verb_is_offered_with_its_help() -> None:
    found = dict(completion.candidates([""], never))
    (verbs,) = [action for action in build()._actions if action.dest == "==SUPPRESS=="]
    assert set(found) == set(verbs.choices or ())
    assert all(found.values())


def test_ids_and_names_come_from_the_store(served: Rota) -> None:
    job = served.ok("submit", "--in", "1h", "--queue", "mail", "--", "true")
    served.ok("schedule", "add", "nightly", "0 3 * * *", "--", "true")
    assert job in known(served, "job", "show", job[:8])
    assert known(served, "job", "cancel", "x", job) == [job]
    assert "hello" in known(served, "submit", "he")
    assert "hello" in known(served, "job", "list", "--task", "")
    assert known(served, "task", "show", "hel") == ["hello"]
    assert known(served, "schedule", "pause", "ni") == ["nightly"]
    assert "mail" in known(served, "queue", "pause", "")
    assert known(served, "submit", "--after", job) == [job]
    assert job not in known(served, "dead", "show", "")
    served.ok("schedule", "remove", "nightly")
    served.ok("job", "cancel", job)


def test_groups_of_errors_come_with_their_titles(served: Rota) -> None:
    served.here("submit", "--retries", "0", "--wait", "--name", "report", "--", "sh", "-c", "exit 3")
    (group,) = served.json("dead", "list", "--groups")
    with chdir(served.folder):
        found = completion.candidates(["dead", "replay", "--group", group["id"][:3]], patiently)
    assert found == [(group["id"], "report rota.ExitCode: exit code 3")]
    assert known(served, "dead", "list", "--group", "none") == []
    served.ok("dead", "purge", "--all", "--yes")


def test_conditions_of_queries_come_from_the_language() -> None:
    assert offered("job", "list", "sta") == ["state:", "started:"]
    assert offered("job", "list", "x:y", "-use") == ["-user:"]
    assert offered("job", "list", "took") == ["took:"], "a > would send the output of the shell to a file"
    assert offered("job", "list", "state:fai") == ["state:failed"]
    assert offered("dead", "list", "state:failed,ca") == ["state:failed,cancelled"]
    assert offered("job", "list", "finished:-1") == ["finished:-15m..", "finished:-1h..", "finished:-1d.."]
    assert "finished:today" in offered("job", "list", "finished:")
    assert offered("job", "cancel", "--all", "state:re") == ["state:ready"]
    assert offered("job", "priority", "--yes", "--all", "a:b", "arg") == ["args."]
    assert offered("job", "list", "--sort", "-fin") == ["-finished"]
    assert offered("job", "list", "--columns", "id,arg") == ["id,args."]
    assert offered("job", "list", "nonsense:") == []
    assert "--watch" in offered("job", "list", "state:failed", "--")
    assert offered("node", "list", "sta") == []


def test_what_a_word_stands_for_can_be_read() -> None:
    for word in ("finished:", "took:", "state:", "created:", "kind:"):
        for found in offered("job", "list", word):
            parse(found, 1_800_000_000_000_000)


def test_values_of_conditions_come_from_the_store(rota: Rota) -> None:
    for name in ("mail.send", "mail.read", "report"):
        rota.ok("submit", "--name", name, "--label", "nightly", "--", "true")
    assert known(rota, "job", "list", "task:ma") == ["task:mail.read", "task:mail.send"]
    assert known(rota, "job", "list", "x:y", "-task:x,rep") == ["-task:x,report"]
    assert known(rota, "job", "cancel", "--all", "label:ni") == ["label:nightly"]
    assert known(rota, "job", "list", "user:") == ["user:local"]


def test_values_that_a_shell_would_not_take_as_they_are_are_left_out() -> None:
    found = conditions("schedule:x,", lambda asked: ["nightly", "a b", "$(evil)", 'a"b', "x>y", "süß"])
    assert [word for word, _ in found] == ["schedule:x,nightly"]


def tab(folder: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rota", "__complete", *words],
        cwd=folder, capture_output=True, text=True, timeout=LONG, env=environment(**env), check=False,
    )  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize(
    "store", ["sqlite:///none.db", "sqlite:///broken.db", "postgresql://127.0.0.1:1/none", "nonsense://"]
)
def test_without_a_store_it_is_silent_and_makes_none(tmp_path: Path, store: str) -> None:
    (tmp_path / "broken.db").write_bytes(b"no database" * 1_000)
    done = tab(tmp_path, "job", "show", "", ROTA_STORE=store)
    assert (done.stdout, done.stderr) == ("", "")
    assert [path.name for path in tmp_path.iterdir()] == ["broken.db"]


@pytest.mark.slow
def test_a_server_that_says_nothing_is_not_waited_for(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        start = time.monotonic()
        done = tab(tmp_path, "job", "show", "", ROTA_STORE=f"postgresql://127.0.0.1:{silent.getsockname()[1]}/x")
    assert (done.stdout, done.stderr) == ("", "")
    assert time.monotonic() - start < 10, "asyncpg alone would wait for a minute"


# Prints what is imported once the store has its time.
LATE_IMPORTS = """
import sys
from rota.cli import completion
before = set()
completion.signal.setitimer = lambda which, seconds: seconds and before.update(sys.modules)
found = completion.candidates(sys.argv[1:], completion._ask_in_time)
late = [name for name in sys.modules if name not in before and name.startswith(("rota", "asyncpg"))]
print(found, bool(before), late)
"""


def test_imports_are_not_a_part_of_the_time_of_a_store(rota: Rota) -> None:
    """On a busy machine they take longer than a store may."""
    rota.ok("submit", "--name", "mail.send", "--", "true")
    for store in ("sqlite:///rota.db", "postgresql://127.0.0.1:1/none"):
        done = subprocess.run(
            [sys.executable, "-c", LATE_IMPORTS, "job", "list", "state:ready", "task:ma"],
            cwd=rota.folder, env=environment(ROTA_STORE=store),
            capture_output=True, text=True, timeout=LONG, check=True,
        )  # fmt: skip
        assert done.stdout.endswith(" True []\n"), done.stdout + done.stderr


SHELL = """
eval "$(rota completion bash)"
compopt() { echo "$@"; }
line() { COMP_LINE=$1; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _rota; echo "${COMPREPLY[@]}"; }
line "rota job can" rota job can
line "rota completion " rota completion ""
line "rota job list x:y state:failed,ca" rota job list x : y state : failed,ca
line "rota job list  sched" rota job list sched
complete -p rota
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A PATH on which this `rota` comes first."""
    program = tmp_path / "rota"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m rota "$@"\n')
    program.chmod(0o755)
    return f"{tmp_path}:{os.environ['PATH']}"


def test_bash_completes(tmp_path: Path, path: str) -> None:
    done = subprocess.run(
        ["bash", "--norc", "-c", SHELL], cwd=tmp_path, capture_output=True, text=True, timeout=LONG,
        env=environment(PATH=path), check=True,
    )  # fmt: skip
    assert done.stdout.splitlines() == [
        "cancel", "bash zsh fish", "failed,cancelled", "-o nospace", "schedule:",
        "complete -o bashdefault -o default -F _rota rota",
    ]  # fmt: skip
    assert done.stderr == ""


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_other_scripts_are_understood_by_their_shells(tmp_path: Path, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    script = tmp_path / "script"
    script.write_text(completion.SCRIPTS[shell])
    subprocess.run([shell, "-n", str(script)], check=True, timeout=LONG)
