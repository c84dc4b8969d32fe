"""Whatever is wrong with an order: one clear line, exit 2, and nothing written."""

from __future__ import annotations

import sys
from pathlib import Path

import apsw
import pytest

from rota.cli.main import main
from rota.store.sqlite.migrate import known_version
from tests.cli.program import Rota


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "shop", raising=False)
    for name in ("ROTA_STORE", "ROTA_CONFIG", "ROTA_MAX_ARGS"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("verb", ["run", "submit"])
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "command: [] is not valid; expected a program and its arguments; it is empty"),
        ([""], "it is empty"),
        (["a\udcff"], "texts in UTF-8"),
        (["--timeout", "soon", "--", "ls"], "timeout: 'soon' is not valid; expected a duration such as 90s"),
        (["--timeout", "0s", "--", "ls"], "a duration longer than 0s"),
        (["--in", "-5s", "--", "ls"], "expected one argument"),
        (["--in=-5s", "--", "ls"], "delay: '-5s' is not valid; expected a duration"),
        (["--expires", "9999999d", "--", "ls"], "at most 100 years"),
        (["--at", "tomorrow", "--", "ls"], "at: 'tomorrow' is not valid; expected a time in ISO 8601 with offset"),
        (["--at", "2030-01-01T10:00:00", "--", "ls"], "the offset is missing"),
        (["--at", "2030-02-30T10:00:00Z", "--", "ls"], "expected a time in ISO 8601"),
        (["--priority", "-1", "--", "ls"], "priority: -1 is not valid; expected a whole number from 0"),
        (["--priority", "10", "--", "ls"], "priority: 10 is not valid"),
        (["--retries", "-1", "--", "ls"], "retries: -1 is not valid"),
        (["--backoff", "often", "--", "ls"], "backoff: 'often' is not valid"),
        (["--queue", "a b", "--", "ls"], "queue: 'a b' is not valid"),
        (["--queue", "", "--", "ls"], "queue: '' is not valid"),
        (["--key", "", "--", "ls"], "key: '' is not valid"),
        (["--memory", "much", "--", "ls"], "--memory: 'much' is not valid; expected a size such as 512MB or 2GiB"),
        (["--memory", "1KB", "--", "ls"], "at least 4MiB"),
        (["--cpu", "0s", "--", "ls"], "--cpu: '0s' is not valid; expected a duration longer than 0s"),
        (["--processes", "0", "--", "ls"], "--processes: '0' is not valid; expected a whole number from 1"),
        (["--files", "x", "--", "ls"], "--files: 'x' is not valid"),
        (["--file-size", "1XB", "--", "ls"], "--file-size: '1XB' is not valid"),
        (["--nice", "20", "--", "ls"], "--nice: '20' is not valid; expected a whole number from 0 to 19"),
        (["--user", "", "--", "ls"], "user: '' is not valid; expected the name or number of a user"),
        (["--group", "a b", "--", "ls"], "group: 'a b' is not valid"),
        (["--env-from", "A=B", "--", "ls"], "--env-from: 'A=B' is not valid; expected the name of"),
        (["--stdin", "@/no/such/file", "--", "ls"], "--stdin: '@/no/such/file' is not valid; expected a file"),
        (["--stdin", "a\udcff", "--", "ls"], "expected text in UTF-8"),
        (["--exclusive", "", "--", "ls"], "exclusive: '' is not valid"),
        (["--exclusive", "a{", "--", "ls"], "key: 'a{' is not valid"),
        (["--exclusive", "user:{id}", "--", "ls"], "field {id} of the key: 'id' is not valid; expected no field"),
        (["--exclusive", "a\udcff", "--", "ls"], "1 to 200 printable characters"),
        (["--exclusive", "x" * 201, "--", "ls"], "1 to 200 printable characters"),
        (["--rate", "often", "--", "ls"], "rate: 'often' is not valid; expected a number of starts per window such as"),
        (["--rate", "0/1m", "--", "ls"], "with 1 to 100,000 starts"),
        (["--limit", "", "--", "ls"], "--limit: '' is not valid; expected KEY=5 (at once), KEY=60/1m (starts), or KEY"),
        (["--limit", "=5", "--", "ls"], "--limit: '=5' is not valid"),
        (["--limit", "db=", "--", "ls"], "--limit: 'db=' is not valid"),
        (["--limit", "db=0", "--", "ls"], "--limit: 'db=0' is not valid"),
        (["--limit", "db=-1", "--", "ls"], "--limit: 'db=-1' is not valid"),
        (["--limit", "db=many", "--", "ls"], "--limit: 'db=many' is not valid"),
        (["--limit", "db=" + "9" * 5000, "--", "ls"], "--limit: 'db=999"),
        (["--limit", "db\udcff=5", "--", "ls"], "a text in UTF-8"),
        (["--limit", " db =5", "--", "ls"], "without blanks around them"),
        ([word for n in range(21) for word in ("--limit", f"k{n}=5")] + ["--", "ls"], "at most 20 keys for a job"),
        (["--full", "maybe", "--", "ls"], "full: 'maybe' is not valid; expected one of wait, skip, replace"),
        (["--label", "", "--", "ls"], "label: '' is not valid"),
        (["--label", "two words", "--", "ls"], "label: 'two words' is not valid; expected letters, digits and"),
        ([word for n in range(21) for word in ("--label", f"l{n}")] + ["--", "ls"], "at most 20 labels"),
        (["--env", "NAME", "--", "ls"], "--env: 'NAME' is not valid; expected NAME=VALUE"),
        (["--env", "=x", "--", "ls"], "--env: '=x' is not valid"),
        (["--name", "a\nb", "--", "ls"], "task name: 'a\\nb' is not valid"),
        (["--cwd", "", "--", "ls"], "--cwd: '' is not valid"),
        (["--fatal-exit-codes", "x", "--", "ls"], "--fatal-exit-codes: 'x' is not valid; expected exit codes"),
        (["--fatal-exit-codes", "0", "--", "ls"], "fatal exit code: 0 is not valid"),
        (["--store", "rota.db", "--", "ls"], "store: 'rota.db' is not valid; expected an address such as sqlite:///"),
    ],
)  # fmt: skip
def test_a_bad_order(verb: str, words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = words[: words.index("--")] if "--" in words else []
    command = words[words.index("--") :] if "--" in words else ["--", *words]
    check([verb, *before, *command], said, 2, capsys)


def check(words: list[str], said: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        ended = main(words)
    except SystemExit as leaving:
        ended = leaving.code  # type: ignore[assignment]
    shown = capsys.readouterr()
    assert (ended, shown.out) == (code, ""), shown
    assert shown.err.startswith("rota: ")
    assert shown.err.count("\n") == 1
    assert said in shown.err
    assert not list(Path.cwd().glob("rota.db*"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["submit", "hello"], "unknown task 'hello'; no node has registered any: start one with `rota up --app"),
        (["job", "list"], "no store at rota.db; start one with `rota up`"),
        (["job", "show", "x"], "no store at rota.db"),
        (["job", "logs", "x"], "no store at rota.db"),
        (["job", "cancel", "x"], "no store at rota.db"),
        (["job", "wait", "x"], "no store at rota.db"),
        (["dead", "list"], "no store at rota.db"),
        (["dead", "purge", "--all", "--yes"], "no store at rota.db"),
        (["node", "list"], "no store at rota.db"),
        (["gate", "list"], "no store at rota.db"),
        (["gate", "pause", "--all", "--reason", "x"], "no store at rota.db"),
        (["gate", "open", "x"], "no store at rota.db"),
        (["limit", "list"], "no store at rota.db"),
        (["limit", "set", "db", "--at-once", "1"], "no store at rota.db"),
        (["limit", "remove", "db"], "no store at rota.db"),
        (["queue", "list"], "no store at rota.db"),
        (["queue", "pause", "mail"], "no store at rota.db"),
        (["queue", "resume", "mail"], "no store at rota.db"),
        (["job", "priority", "x", "0"], "no store at rota.db"),
        (["job", "explain", "x"], "no store at rota.db"),
        (["job", "priority", "x", "10"], "priority: 10 is not valid; expected a whole number from 0"),
        (["job", "priority", "x", "-1"], "priority: -1 is not valid"),
        (["gate", "pause", "--task", "", "--reason", "x"], "task: '' is not valid"),
        (["gate", "pause", "--label", "a b", "--reason", "x"], "label: 'a b' is not valid"),
        (["gate", "pause", "--all", "--reason", "x", "--for", "soon"], "--for: 'soon' is not valid"),
        (["gate", "pause", "--all", "--reason", "x", "--for", "0s"], "--for: '0s' is not valid"),
        (["gate", "pause", "--all", "--reason", "x", "--until", "noon"], "--until: 'noon' is not valid"),
        (["gate", "pause", "--all", "--reason", "\udcff"], "--reason: '\\udcff' is not valid"),
        (["limit", "list", ""], "key: '' is not valid"),
        (["limit", "set", "", "--at-once", "1"], "key: '' is not valid"),
        (["limit", "set", "db", "--at-once", "0"], "--at-once: 0 is not valid; expected a whole number from 1"),
        (["limit", "set", "db", "--rate", "fast"], "rate: 'fast' is not valid"),
        (["limit", "remove", "\udcff"], "KEY: '\\udcff' is not valid"),
        (["queue", "pause", "a b"], "queue: 'a b' is not valid"),
        (["queue", "pause", "mail", "--note", "\udcff"], "--note: '\\udcff' is not valid"),
        (["queue", "resume", ""], "queue: '' is not valid"),
        (["job", "list", "--state", "done"], "--state: 'done' is not valid; expected some of blocked, scheduled"),
        (["job", "wait", "x", "--timeout", "soon"], "--timeout: 'soon' is not valid"),
        (["dead", "purge", "--all", "--older-than", "soon"], "--older-than: 'soon' is not valid"),
        (["migrate", "--store", "sqlite:///no/such/folder/x.db"], "does not exist"),
        (["up", "--store", "sqlite:///no/such/folder/x.db"], "does not exist"),
        (["run", "--store", "sqlite:///.", "--", "ls"], "can't open /"),
        (["up", "--queues", "a"], "queues: 'a' is not valid; expected queues with their slots such as"),
        (["up", "--roles", "boss"], "roles: 'boss' is not valid; expected a list of control, worker, api"),
        (["up", "--node", "a b"], "node: 'a b' is not valid"),
        (["up", "--grace", "long"], "grace: 'long' is not valid; expected a duration"),
    ],
)  # fmt: skip
def test_verbs_that_can_not_do_their_work(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = 1 if "no store" in said or "does not exist" in said or "can't open" in said else 2
    check(words, said, code, capsys)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no json", 'expected a JSON object such as \'{"name": "you"}\''),
        ("[1]", "JSON: [1] is not valid; expected a JSON object"),
        ("7", "JSON: 7 is not valid"),
        ('{"name": NaN}', "expected a JSON object"),
        ('{"name": 1e999}', "expected a JSON object"),
        ('{"name": ' + "[" * 5000, "expected a JSON object"),
        ("@missing.json", "JSON: '@missing.json' is not valid; expected a file that can be read (No such file"),
        ('{"nam": "x"}', "arguments of task 'hello'"),
        ("{}", "arguments of task 'hello'"),
        ('{"name": ["x"]}', "arguments of task 'hello': 'name' must be str, not ['x']"),
        ('{"name": "x", "times": "many"}', "'times' must be int"),
        ('{"name": "' + "x" * 1_100_000 + '"}', "bytes is too large; at most 1048576 bytes are allowed"),
    ],
)
def test_bad_arguments(rota: Rota, text: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    if len(text) > 100_000:
        Path("large.json").write_text(text)
        text = "@large.json"
    check(["submit", "--app", "shop:app", "hello", text], said, 2, capsys)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--exclusive", "user:{id}"], "field {id} of the key: 'id' is not valid; expected one of 'name'"),
        (["--limit", "a{name}=5", "--limit", "a{times}"], "field {times} of the key"),
        (["--rate", "1"], "rate: '1' is not valid"),
    ],
)
def test_keys_that_an_order_can_not_have(
    rota: Rota, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    check(["submit", "--app", "shop:app", *words, "hello", '{"name": "x"}'], said, 2, capsys)


def test_a_command_that_is_too_large(capsys: pytest.CaptureFixture[str]) -> None:
    check(["submit", "--", "echo", "x" * 1_100_000], "command: 1100", 2, capsys)


def test_names_near_an_unknown_task_are_offered(rota: Rota, capsys: pytest.CaptureFixture[str]) -> None:
    check(["submit", "--app", "shop:app", "helo"], "unknown task 'helo'; did you mean hello?", 2, capsys)
    check(["submit", "--app", "shop:app", "zzz"], "shop:app has boom, far, hello, numbers, stuck", 2, capsys)


def test_a_store_of_a_newer_schema_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["migrate"]) == 0
    connection = apsw.Connection("rota.db")
    connection.pragma("user_version", 99)
    connection.close()
    capsys.readouterr()
    for words in (["job", "list"], ["submit", "--", "ls"], ["run", "--", "ls"], ["migrate"], ["up"], ["node", "list"]):
        assert main(words) == 1
        assert capsys.readouterr().err.startswith(
            f"rota: the store has schema 99, this rota knows up to {known_version()}; install"
        )
    assert main(["doctor"]) == 1
    assert "BAD  schema" in capsys.readouterr().out


def test_files_of_others_are_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    connection = apsw.Connection("other.db")
    connection.execute("CREATE TABLE mine (a)")
    connection.close()
    Path("text.db").write_text("no database at all, " * 100)
    for words in (["job", "list"], ["migrate"], ["submit", "--", "ls"]):
        assert main(["--store", "sqlite:///other.db", *words]) == 1
        assert "is a SQLite database of another program" in capsys.readouterr().err
        assert main(["--store", "sqlite:///text.db", *words]) == 1
        assert "is not a SQLite database" in capsys.readouterr().err
    assert apsw.Connection("other.db").execute("SELECT name FROM sqlite_schema").get == "mine"


def test_an_old_schema_is_not_migrated_by_looking(capsys: pytest.CaptureFixture[str]) -> None:
    Path("rota.db").touch()
    assert main(["job", "list"]) == 1
    assert capsys.readouterr().err == f"rota: the store has schema 0, {known_version()} is needed; run `rota migrate`\n"
    assert main(["submit", "--", "ls"]) == 0


def test_settings_that_are_wrong_are_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("ROTA_LEASE", "1s")
    check(["job", "list"], "ROTA_LEASE: '1s' is not valid; expected a duration from 5s to 5m", 2, capsys)
    monkeypatch.delenv("ROTA_LEASE")
    monkeypatch.setenv("ROTA_LAESE", "1s")
    check(["job", "list"], "environment variable: 'ROTA_LAESE' is not valid; expected the name of a setting", 2, capsys)
    monkeypatch.delenv("ROTA_LAESE")
    Path("rota.toml").write_text("stor = 1")
    check(["job", "list"], "setting in rota.toml: 'stor' is not valid; expected one of", 2, capsys)
