"""Starts rota's own programs (keeper, fork server, the last write of a node) without exposing their secrets.

A process of rota hides itself (`keeper.kernel.hide`): other processes of its user can then read neither its memory nor
its descriptors nor its environment in /proc. Exec undoes that, so a new program can be read until it has hidden itself
again. It is therefore executed with an environment without secrets, and gets these through a socket or a memory file
once it is hidden.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping

from rota import config

# Variables that the loader, the C library and Python read before the program can receive others.
NAMES = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TZ", "LANG", "LANGUAGE", "TMPDIR", "GLIBC_TUNABLES")
PREFIXES = ("LC_", "LD_", "MALLOC_", "PYTHON")


def bare(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that an interpreter needs to start."""
    return {name: value for name, value in environment.items() if name in NAMES or name.startswith(PREFIXES)}


def packed(**more: str) -> bytes:
    """The whole environment of this process, with its folder for temporary files. Names and values may be any bytes."""
    variables = {"TMPDIR": tempfile.gettempdir(), **config.variables(), **more}
    return b"\0".join(os.fsencode(f"{name}={value}") for name, value in variables.items())


def unpack(environment: bytes) -> None:
    """Replaces the environment of this process, which must be hidden by now."""
    os.environ.clear()
    for item in environment.split(b"\0"):
        name, _, value = os.fsdecode(item).partition("=")
        os.environ[name] = value
    config.put_secrets_aside()
