"""The scripts that a Redis or Valkey runs for us, from files below hot/lua."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources
from typing import NamedTuple


class LuaScript(NamedTuple):
    text: str
    digest: str  # the server's name for it


@cache
def lua_script(name: str) -> LuaScript:
    text = (resources.files("rota.hot") / "lua" / f"{name}.lua").read_text("utf-8")
    return LuaScript(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())
