"""What docs/logs.md shows of tails is understood and works."""

from __future__ import annotations

import asyncio
import re
import shlex
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rota.cli.main import parse
from rota.cli.query_words import query_text
from rota.model.query.fields import Searched
from rota.model.query.parse import parse as parse_query
from rota.store.found_lines import FoundLine
from rota.views.found_lines import FoundLineView
from tests.docs.pages import ROOT, blocks
from tests.node.running import LONG, make_app, running

PAGE = "docs/logs.md"


def test_the_commands_are_understood() -> None:
    lines = [line for block in blocks(PAGE, "bash") for line in block.splitlines()]
    assert lines
    for line in lines:
        args = parse(shlex.split(line, comments=True)[1:])
        parse_query(query_text(args.query), 0, Searched.OUTPUT)


async def test_the_python_prints_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    app = make_app(tmp_path)
    space: dict[str, Any] = {"app": app}
    for code in blocks(PAGE, "python"):
        exec(compile(code, PAGE, "exec", dont_inherit=True), space)
    async with running(app):
        watching = asyncio.create_task(space["watch"]())
        said = ""
        async with asyncio.timeout(LONG):
            while "mail.send ERROR no such address" not in said:
                script = ["sh", "-c", "echo fine; echo ERROR no such address"]
                await (await app.submit_command(script, name="mail.send")).wait(LONG)
                said += capsys.readouterr().out
        watching.cancel()
    assert "fine" not in said


def test_all_members_are_named() -> None:
    text = (ROOT / PAGE).read_text()
    (section,) = re.findall(r"^### FoundLine$\n(.*?)(?=^##|\Z)", text, re.S | re.M)
    named = re.findall(r"^\| `(\w+)` \|", section, re.M)
    assert sorted(named) == sorted(FoundLine.__struct_encode_fields__)
    (example,) = blocks(PAGE, "json")
    assert set(msgspec.json.decode(example)) == set(FoundLineView.__struct_fields__)
