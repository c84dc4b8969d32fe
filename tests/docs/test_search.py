"""The commands of docs/search.md run, and mean to a shell what they mean to a reader."""

from __future__ import annotations

import asyncio
import shlex
from pathlib import Path

from tests.cli.jobs_there import Place, arrange, with_store
from tests.docs.pages import blocks


def test_the_commands_of_the_page_run(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/rota.db"
    place = Place(tmp_path, ROTA_STORE=url)
    place.ids = asyncio.run(with_store(url, arrange))
    lines = [line for block in blocks("docs/search.md", "bash") for line in block.splitlines()]
    assert len(lines) > 10
    for line in lines:
        words = shlex.split(line, comments=True)
        plain = shlex.shlex(line, posix=True, punctuation_chars="()<>|&;~")
        plain.whitespace_split = True
        assert list(plain) == words, f"a shell reads it in another way: {line}"
        assert words[0] == "rota"
        said = place(*words[1:])
        assert (said.code, said.err) == (0, ""), line
