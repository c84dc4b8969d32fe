"""`--help`, usage errors, and the promise that both are quick."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import pytest

from rota.cli.main import main
from rota.cli.parser import build
from rota.cli.reference import option_tables, options, rewritten, verbs
from rota.model.option_table import CALLS, COMMANDS, JOBS

ROOT = Path(__file__).parents[2]
VERBS = {verb.prog: verb for verb in verbs(build())}


def test_the_verbs_are_those_of_the_design() -> None:
    jobs = ("list", "show", "logs", "cancel", "retry", "priority", "explain", "wait")
    workflows = ("list", "show", "cancel", "retry", "replay", "submit", "wait")
    changing = ("pause", "resume", "fire", "backfill")
    imports = ("import crontab", "import celery-beat", "import apscheduler")
    schedules = ("add", "list", "show", "next", *changing, "history", *imports, "remove")
    calendars = ("add", "list", "show", "remove")
    dead = ("list", "show", "replay", "purge")
    gates, limits, queues = (
        ("list", "pause", "drop", "open"),
        ("list", "set", "remove"),
        ("list", "pause", "resume", "set"),
    )
    nouns = {
        "job": jobs, "logs": ("search", "tail"), "workflow": workflows, "schedule": schedules, "calendar": calendars,
        "gate": gates, "limit": limits, "lock": ("list", "release", "run"), "queue": queues, "flow": ("list",),
        "dead": dead,
    }  # fmt: skip
    expected = ["up", "run", "submit", "stats", "events"]
    expected += [f"{noun} {verb}" for noun, verbs in nouns.items() for verb in verbs]
    others = ["task list", "task show", "node list", "node check"]
    others += [f"user {verb}" for verb in ("add", "list", "show", "set", "remove")]
    others += [f"key {verb}" for verb in ("add", "list", "revoke", "rotate")]
    others += [
        "store copy",
        "hot status",
        "hot refill",
        "hot check",
        "audit",
        "login",
        "logout",
        "migrate",
        "doctor",
        "completion",
    ]
    assert list(VERBS) == [f"rota {verb}" for verb in [*expected, *others]]


NOUNS = [
    "job",
    "workflow",
    "schedule",
    "schedule import",
    "calendar",
    "gate",
    "limit",
    "lock",
    "queue",
    "dead",
    "node",
    "user",
    "key",
    "store",
]


@pytest.mark.parametrize("words", [*VERBS, "rota", *(f"rota {noun}" for noun in NOUNS)])
def test_every_verb_has_help(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*words.split()[1:], "--help"])
    shown = capsys.readouterr()
    assert ended.value.code == 0
    assert shown.out.startswith(f"usage: {words}")
    assert not shown.err


@pytest.mark.parametrize("verb", VERBS.values(), ids=list(VERBS))
def test_every_option_says_what_it_does_and_every_verb_takes_json(verb: argparse.ArgumentParser) -> None:
    assert all(option.help for option in options(verb))
    assert {"--json", "--store"} <= {name for option in options(verb) for name in option.option_strings}


def test_the_page_documents_every_verb_and_option() -> None:
    page = (ROOT / "docs/cli.md").read_text("utf-8")
    assert page == rewritten(page), "run: python -m rota.cli.reference docs"
    for name, verb in VERBS.items():
        assert f"## {name}\n" in page
        assert all(text in page for option in options(verb) for text in option.option_strings)


def test_the_page_of_options_is_made_from_their_table() -> None:
    page = (ROOT / "docs/options.md").read_text("utf-8")
    assert page == option_tables(page), "run: python -m rota.cli.reference docs"
    assert all(f"| `{option.name}` |" in page for option in (*JOBS, *COMMANDS, *CALLS) if not option.part_of)


def test_help_imports_nothing_heavy() -> None:
    heavy = "{'apsw', 'msgspec', 'asyncio', 'rich', 'ssl', 'concurrent', 'rota.app', 'rota.config'}"
    program = (
        "import sys; from rota.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        f"sys.exit(', '.join({heavy} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"imported: {done.stderr}"


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    import rota

    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"rota {rota.__version__}\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "required: VERB (see `rota --help`)"),
        (["jbo"], "invalid choice: 'jbo' (choose from "),
        (["job"], "required: VERB (see `rota job --help`)"),
        (["job", "show"], "required: ID (see `rota job show --help`)"),
        (["job", "list", "--limit", "0"], "--limit: '0' is not a number from 1 to 1000000"),
        (["job", "show", "abc", "surplus"], "unrecognized arguments: surplus"),
        (["job", "list", "--", "ls"], "only `rota run`, `rota submit`, `rota schedule add` and `rota lock run` take a"),
        (["job", "list", "--lim", "3"], "unrecognized arguments: --lim"),
        (["run"], "give a command after `--`, as in: rota run -- echo hello"),
        (["run", "echo", "hi"], "the command goes after `--`, as in: rota run -- echo hi"),
        (["submit"], "give a TASK, --http METHOD URL, or a command after `--`"),
        (["submit", "hello", "--", "ls"], "not both ('hello' and 'ls')"),
        (["submit", "hello", "--cwd", "."], "--cwd is for commands, not for the task 'hello'"),
        (["submit", "hello", "--fatal-exit-codes", "3"], "--fatal-exit-codes is for commands"),
        (["submit", "hello", "{}", "surplus"], "unrecognized arguments: surplus"),
        (["submit", "--at", "x", "--in", "1s", "hello"], "--in: not allowed with argument --at"),
        (["submit", "--priority", "high", "--", "ls"], "--priority: 'high' is not a whole number"),
        (["up", "--slots", "2", "--queues", "a:1"], "not allowed with argument"),
        (["up", "--slots", "-2"], "--slots: '-2' is not a number from 1"),
        (["dead", "replay"], "say which: `rota dead replay ID...`, or --all with filters"),
        (["dead", "purge", "abc", "--all"], "say which: `rota dead purge ID...`, or --all"),
        (["dead", "purge", "abc", "--task", "x"], "filters go with --all, not with ids"),
        (["workflow"], "required: VERB (see `rota workflow --help`)"),
        (["workflow", "show"], "required: ID (see `rota workflow show --help`)"),
        (["workflow", "submit"], "required: FILE (see `rota workflow submit --help`)"),
        (["submit", "--on", "finish", "--", "ls"], "--on says what --after needs; give --after too"),
        (["gate"], "required: VERB (see `rota gate --help`)"),
        (["gate", "open"], "required: ID (see `rota gate open --help`)"),
        (["gate", "pause", "--all"], "required: --reason (see `rota gate pause --help`)"),
        (["gate", "pause", "--reason", "x"], "say which jobs: --task, --queue, --user and --label, or --all"),
        (["gate", "drop", "--all", "--queue", "q", "--reason", "x"], "--all goes alone: --task, --queue"),
        (["gate", "drop", "--all", "--reason", "x", "--until", "y", "--for", "1h"], "not allowed with argument"),
        (["limit", "set", "db"], "give --at-once N, --rate N/WINDOW, or both"),
        (["limit", "set", "db", "--at-once", "few"], "--at-once: 'few' is not a whole number"),
        (["limit", "set"], "required: KEY (see `rota limit set --help`)"),
        (["limit", "remove"], "required: KEY"),
        (["queue", "pause"], "required: QUEUE (see `rota queue pause --help`)"),
        (["job", "priority", "abc"], "required: PRIORITY (see `rota job priority --help`)"),
        (["job", "priority", "abc", "high"], "PRIORITY: 'high' is not a whole number"),
        (["job", "priority", "abc", "--json"], "required: PRIORITY (see `rota job priority --help`)"),
        (["job", "priority", "--all"], "required: PRIORITY (see `rota job priority --help`)"),
        (["job", "priority", "--all", "abc", "3"], "say which: `rota job priority ID...`, or --all with filters"),
        (["job", "priority", "abc", "3", "--queue", "q"], "filters go with --all, not with ids"),
        (["job", "explain"], "required: ID (see `rota job explain --help`)"),
        (["schedule"], "required: VERB (see `rota schedule --help`)"),
        (["schedule", "import", "crontab"], "required: FILE (see `rota schedule import crontab --help`)"),
        (["schedule", "add", "n"], "required: RULE (see `rota schedule add --help`)"),
        (["schedule", "add", "n", "@daily"], "give a TASK, --http METHOD URL, or a command after `--`"),
        (["schedule", "add", "n", "@daily", "hello", "--", "ls"], "not both ('hello' and 'ls')"),
        (["schedule", "add", "n", "@daily", "--tz", "UTC", "hello", "{}", "surplus"], "arguments: surplus"),
        (["schedule", "add", "n", "@daily", "--note", "x", "--", "ls"], "--note says why it is paused; give --paused"),
        (["schedule", "add", "n", "@daily", "--key", "x", "--", "ls"], "unrecognized arguments: --key x"),
        (["schedule", "add", "n", "@daily", "--limit", "0", "--", "ls"], "--limit: '0' is not a number from 1"),
        (["schedule", "next"], "give the NAME of a schedule, or a --rule to try out"),
        (["schedule", "next", "n", "--tz", "UTC"], "--tz goes with --rule, not with a schedule"),
        (["schedule", "next", "n", "-n", "0"], "-n: '0' is not a number from 1 to 1000000"),
        (["schedule", "pause"], "required: NAME (see `rota schedule pause --help`)"),
        (["schedule", "backfill", "n"], "required: --from, --to"),
        (["calendar", "add", "c"], "one of the arguments --dates --ics is required"),
        (["calendar", "add", "c", "--dates", "2027-01-01", "--tz", "UTC"], "--tz goes with --ics, not with --dates"),
        (["job", "\x1b[31mx"], "invalid choice: '\\x1b[31mx'"),
    ],
)
def test_a_usage_error_is_one_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    shown = capsys.readouterr()
    assert ended.value.code == 2
    assert not shown.out
    assert shown.err.startswith("rota: ")
    assert shown.err.count("\n") == 1
    assert said in shown.err
    assert "\x1b" not in shown.err
