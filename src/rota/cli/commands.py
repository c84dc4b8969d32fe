"""How a command is shown: its arguments and its options."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from rota.model.resources import size_text
from rota.model.times import short

SIZES = ("memory", "file_size")


def command_text(spec: Mapping[str, Any]) -> str:
    argv = spec.get("argv")
    return shlex.join(argv) if isinstance(argv, list) else msgspec.json.encode(spec).decode()


def facts_of(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The options that were given. Values of variables, and input, may be secrets: only --json shows them."""
    yield "command", command_text(spec)
    yield "folder", str(spec.get("cwd") or "")
    yield "environment", ", ".join(spec.get("env") or {})
    yield "inherits", ", ".join(spec.get("inherit") or [])
    stdin = str(spec.get("stdin") or "")
    yield "input", f"{len(stdin.encode())} bytes" if stdin else ""
    user, group = spec.get("user"), spec.get("group")
    yield "runs as", ", ".join(f"{what} {who}" for what, who in (("user", user), ("group", group)) if who is not None)
    bounds = spec.get("resources")
    yield "may use", ", ".join(_bounds(bounds)) if isinstance(bounds, Mapping) else ""
    yield "fatal codes", ", ".join(map(str, spec.get("fatal_exit_codes") or []))


def _bounds(bounds: Mapping[str, Any]) -> Iterator[str]:
    """`memory 512MB, cpu 30s`: as they were ordered; the node may allow less."""
    for name, value in bounds.items():
        shown = str(value)
        if isinstance(value, int):
            shown = short(value) if name == "cpu" else size_text(value) if name in SIZES else shown
        yield f"{name} {shown}"
