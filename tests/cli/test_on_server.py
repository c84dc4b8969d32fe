"""Every verb of a client says the same on a server as on a store: a long session, run both ways and compared."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

import pytest

from rota.cli.main import main
from rota.model.access import Role
from tests.cli.program import APP, LATER, environment
from tests.remote.serving import key_of, server_on

WORKFLOW = {
    "name": "nightly-run",
    "jobs": [
        {"name": "first", "command": ["true"]},
        {"name": "second", "command": ["echo", "x"], "after": "first"},
        {"name": "call", "http": {"method": "GET", "url": "https://example.com/"}, "after": {"first": "finish"}},
    ],
}
# A word in braces is what an earlier verb has printed: `{job}` is the first id that was shown.
SESSION = f"""
job list
lock list
lock release none --yes
lock run report -- true
lock run report -- false
job show nothing
submit --name one --label db --priority 2 -- echo hi
submit --in 1h --key once --timeout 5m -- sleep 5
submit --in 1h --key once --timeout 5m -- sleep 5
submit --key once -- other
submit --queue mails --limit db=5 --http POST https://example.com/ --json-body [1]
submit --queue bad^queue -- true
submit unknown {{}}
submit hello {{"name":"ann"}} --app shop:app
task list
task show hello
submit hello {{"nome":"ann"}}
job list
job list --json
job list --label db
job show {{job}}
job show {{job}} --json
job explain {{job}}
job priority {{job}} 7
job wait {{job}} --timeout 10ms
job logs {{job}}
job cancel {{job}} --reason enough
job cancel {{job}}
job retry {{job}}
job cancel --all --label db --yes
job list --state cancelled
job list -state:cancelled OR label:db --sort task --limit 2
job list stat:failed
job list state:live --columns task,label,priority
job list --facets task:*
job list --count state:ended
job cancel --all key:none queue:nothing --yes
job cancel --all stat:x --yes
dead list
workflow submit flow.json
workflow list
workflow show nightly-run
workflow cancel nightly-run
workflow retry nightly-run
calendar add closed 2027-01-01
calendar list
calendar show closed
schedule add nightly {LATER} --exclude closed -- echo x
schedule add nightly {LATER} --exclude closed -- echo x
schedule add nightly {LATER} --replace --exclude closed -- echo y
schedule list
schedule show nightly
schedule next nightly
schedule pause nightly --note holiday
schedule fire nightly
schedule resume nightly
schedule history nightly
calendar remove closed
schedule remove nightly
calendar remove closed
schedule show nightly
gate pause --queue mails --reason busy
gate list
gate open nothing
gate pause --reason nothing
limit set db --at-once 3
limit list
limit remove db
limit remove db
queue pause mails --note later
queue list
queue resume mails
queue set mails --step 5m --feedback on
flow list
node list
stats --queue nothing --json
user add bob
user list
user set bob --quota waiting=5
user remove bob
audit --limit 3
logout
"""

UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[78][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\b")
# Whatever depends on the moment, or on who asks: times, ages, positions of columns, the key in the audit.
CHANGING = [
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?"), "<time>"),
    (re.compile(r"\b(just now|now|in \S+|\S+ ago)\b"), "<age>"),
    (re.compile(r"\b\d+(\.\d+)?(ms|s|m|h|d)(\d+(ms|s|m|h))*\b"), "<span>"),
    (re.compile(r"(?<=local) +[0-9a-f]{12}(?= )"), ""),
    (re.compile(r"\b[0-9a-f]{8}\b"), "<end of an id>"),
    (re.compile(r'("oldest_age"|"per_minute"|"per_hour"): [\d.]+'), r"\1: <number>"),
    (re.compile(r" 0\.\d(?= )"), " <rate>"),
    (re.compile(r'"(seq|at|step|rank)": ?[\d.]+'), "<number>"),
    (re.compile(r" +"), " "),
    (re.compile(r"-{3,}"), "---"),
]


class Session:
    """The words of each verb, and what it said, without what changes from run to run."""

    def __init__(self, folder: Path, **env: str) -> None:
        self.folder, self.env, self.ids = folder, environment(**env), dict[str, str]()
        folder.mkdir()
        (folder / "shop.py").write_text(APP)
        (folder / "flow.json").write_text(json.dumps(WORKFLOW))

    def run(self) -> Iterator[tuple[str, int, str]]:
        for line in SESSION.strip().splitlines():
            yield line, *self._verb(line)

    def _verb(self, line: str) -> tuple[int, str]:
        first = next(iter(self.ids), "")
        words = [first if word == "{job}" else word for word in _split(line)]
        if "--app" in words:  # a process of its own: this one imports an app once
            command = [sys.executable, "-m", "rota", *words]
            done = subprocess.run(command, cwd=self.folder, env=self.env, capture_output=True, text=True, timeout=60)
            return done.returncode, self._plain(done.stdout + done.stderr)
        out = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
        with (
            redirect_stdout(out),
            redirect_stderr(out),
            chdir(self.folder),
            patch.dict(os.environ, self.env, clear=True),
        ):
            try:
                code = main(words)
            except SystemExit as end:
                code = int(str(end.code))
        out.seek(0)
        return code, self._plain(out.read())

    def _plain(self, said: str) -> str:
        said = said.replace(str(self.folder), "<folder>")
        for found in UUID.findall(said):
            self.ids.setdefault(found, f"<id {len(self.ids) + 1}>")
        said = UUID.sub(lambda found: self.ids[found[0]], said)
        for pattern, replacement in CHANGING:
            said = pattern.sub(replacement, said)
        return said


def _split(line: str) -> list[str]:
    rule = LATER.replace(" ", "_")
    return [word.replace("_", " ") if word == rule else word for word in line.replace(LATER, rule).split()]


@pytest.mark.slow
def test_a_session_says_the_same_both_ways(tmp_path: Path) -> None:
    direct = Session(tmp_path / "direct", ROTA_STORE=f"sqlite:///{tmp_path}/direct.db")
    assert direct._verb("migrate")[0] == 0
    with server_on(tmp_path / "served.db") as server:
        over = Session(tmp_path / "over", ROTA_SERVER=server.url, ROTA_KEY=key_of(Role.ADMIN))
        codes = set()
        for (line, *expected), (_, *found) in zip(direct.run(), over.run(), strict=True):
            assert found == expected, line
            codes.add(expected[0])
    assert codes >= {0, 1, 2}
