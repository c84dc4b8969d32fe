"""Inline metadata of scripts is read as PEP 723 says."""

from __future__ import annotations

from pathlib import Path

import pytest

from rota.artifacts.faults import InvalidProgram
from rota.artifacts.script_metadata import ScriptMetadata, read_metadata


def read(place: Path, text: str | bytes) -> ScriptMetadata | None:
    (place / "a.py").write_bytes(text.encode() if isinstance(text, str) else text)
    return read_metadata(place / "a.py")


BLOCK = '# /// script\n# requires-python = ">=3.11"\n# dependencies = [\n#   "httpx<1",\n#   "rich",\n# ]\n# ///\n'
MEANT = ScriptMetadata(("httpx<1", "rich"), ">=3.11")
PLAIN = '# /// script\n# dependencies = ["a"]\n# ///\n'

GOOD: dict[str, tuple[str | bytes, ScriptMetadata | None]] = {
    "whole": (BLOCK, MEANT),
    "among code": ("#!/usr/bin/env python3\nimport a\n\n" + BLOCK + "\nprint()\n", MEANT),
    "Windows": (BLOCK.replace("\n", "\r\n"), MEANT),
    "no line feed at the end": (BLOCK.rstrip(), MEANT),
    "empty lines": (BLOCK.replace("#   ", "#\n#   "), MEANT),
    "tools": (BLOCK.replace("# ///\n", '# [tool.uv]\n# exclude-newer = "2023"\n# ///\n'), MEANT),
    "nothing needed": ("# /// script\n# ///\n", ScriptMetadata()),
    "no block": ("print()\n", None),
    "empty": ("", None),
    "no end": (BLOCK.replace("# ///\n", ""), None),
    "no end before code": (BLOCK.replace("# ///\n", "\n") + "x = 1\n# ///\n", None),
    "other type": (BLOCK.replace("script", "project"), None),
    "other type beside": (PLAIN.replace("script", "x-1") + "\n" + BLOCK, MEANT),
    "no space in the first line": (BLOCK.replace("# /// script", "#/// script"), None),
    "space behind the first line": (BLOCK.replace("# /// script", "# /// script "), None),
    "line without a space": (BLOCK.replace("#   ", "#x"), None),
    "last end counts": (PLAIN + '# """\n# ///\n', None),
    "bytes that are no UTF-8": (b"# \xff\n\n" + BLOCK.encode(), MEANT),
    "unclosed, then whole": ("# /// script\n# x = 1\n\n" + BLOCK, MEANT),
}


@pytest.mark.parametrize(("text", "meant"), GOOD.values(), ids=GOOD.keys())
def test_blocks_are_found(tmp_path: Path, text: str | bytes, meant: ScriptMetadata | None) -> None:
    if text == PLAIN + '# """\n# ///\n':
        with pytest.raises(InvalidProgram, match="is no TOML"):
            read(tmp_path, text)
    else:
        assert read(tmp_path, text) == meant


def test_a_block_may_hold_lines_that_look_like_its_end(tmp_path: Path) -> None:
    text = '# /// script\n# dependencies = ["a"]\n# [tool.x]\n# y = """\n# /// <a>\n# ///\n# /// </a>\n# """\n# ///\n'
    assert read(tmp_path, text) == ScriptMetadata(("a",))


BAD = {
    "two": (PLAIN + "\n" + PLAIN, "it has 2 blocks `# /// script`; one says what it needs"),
    "no TOML": ("# /// script\n# dependencies = [\n# ///\n", "its block `# /// script` is no TOML"),
    "no list": (PLAIN.replace('["a"]', '"a"'), "`dependencies` of its block is no list of texts"),
    "numbers": (PLAIN.replace('"a"', "1"), "`dependencies` of its block is no list of texts"),
    "option": (PLAIN.replace('"a"', '"--index-url=http://x"'), "has '--index-url=http://x'; such as httpx"),
    "hidden option": (PLAIN.replace('"a"', '" -e ."'), "has ' -e .'"),
    "empty": (PLAIN.replace('"a"', '" "'), "has ' '"),
    "line feed": (PLAIN.replace('"a"', r'"a\n-e ."'), r"has 'a\n-e .'"),
    "long": (PLAIN.replace('"a"', '"' + "a" * 3000 + '"'), "has 'aaa"),
    "many": (PLAIN.replace('"a"', '"a", ' * 1001), "is no list of texts"),
    "python": ('# /// script\n# requires-python = "3.x"\n# ///\n', "`requires-python` is '3.x'; such as >=3.11"),
    "python that is no text": ("# /// script\n# requires-python = 3.12\n# ///\n", "`requires-python` is 3.12"),
}


@pytest.mark.parametrize(("text", "said"), BAD.values(), ids=BAD.keys())
def test_wrong_blocks_are_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InvalidProgram) as caught:
        read(tmp_path, text)
    assert said in str(caught.value)
    assert str(caught.value).startswith("program 'a.py': ")
    assert str(caught.value).isprintable()


def block(requirement: str) -> str:
    return f"# /// script\n# dependencies = ['{requirement}']\n# ///\n"


@pytest.mark.parametrize(
    "requirement",
    [
        "a", "a-b_c.d", "a==1.0", "a >= 1, < 2", "a[x,y-z]>=1", "a (>=1)",
        "a~=1.4; python_version < \"3.12\"", "a;os_name==\"nt\"", "a @ https://host/a-1.0-py3-none-any.whl", "a@file:///place/a.whl#sha256=00",
        "a[x] @ file:///a.whl ; os_name==\"nt\"",
    ],
)  # fmt: skip
def test_requirements_are_those_of_pep_508(tmp_path: Path, requirement: str) -> None:
    assert read(tmp_path, block(requirement)) == ScriptMetadata((requirement,))


@pytest.mark.parametrize(
    ("requirement", "said"),
    [
        (one, "such as httpx")
        for one in ("./a", "a/b", "../a", "/a", "~/a", "a b", "a>=1/../../b", "https://h/a.whl", "a @", "-r x")
    ]
    + [
        (f"a @ {place}", "is built from source, which runs its code as the node; name it by its version")
        for place in (
            "git+https://h/a",
            "https://h/a.tar.gz",
            "file:///a",
            "https://h/a.zip#x.whl",
            "https://h/a?x.whl",
            "a.whl",
        )
    ],
)
def test_what_would_run_code_of_strangers_is_refused(tmp_path: Path, requirement: str, said: str) -> None:
    with pytest.raises(InvalidProgram, match=said):
        read(tmp_path, block(requirement))
