"""Modules of users: which one is calling, the name of the main program, and importing by name."""

from __future__ import annotations

import importlib
import inspect
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from rota.errors import InvalidInput

MAIN = "__main__"


class ImportFailed(InvalidInput):
    """A module of the user's can't be imported. The cause is the exception that it raised."""

    def __init__(self, what: str, problem: str) -> None:
        super().__init__(what, problem, "a module that can be imported")
        self.args = (f"{what}: {problem}",)


def calling_module() -> str:
    """The module that has called into rota."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "rota":
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", ""))


def imported(module: str) -> bool:
    return sys.modules.get(module) is not None or module == known_as(MAIN)


def known_as(module: str) -> str | None:
    """The main program is named as others import it: `python -m shop.jobs` and `rota up --app shop.jobs` run one
    module. None: it has no file, as in an interpreter or a notebook."""
    if module != MAIN:
        return module or None
    main = sys.modules[MAIN]
    if (spec := getattr(main, "__spec__", None)) is not None:
        return str(spec.name)
    file = getattr(main, "__file__", None)
    return Path(file).stem if file else None


def defined_at(function: Callable[..., Any]) -> str:
    """The place of a function, for messages: `shop.tasks.send (tasks.py, line 7)`."""
    name = f"{function.__module__}.{getattr(function, '__qualname__', type(function).__qualname__)}"
    code = getattr(inspect.unwrap(function), "__code__", None)
    return name if code is None else f"{name} ({Path(code.co_filename).name}, line {code.co_firstlineno})"


def typed_again(old: Callable[..., Any], new: Callable[..., Any]) -> bool:
    """Whether a function replaces the one of the same name in a notebook or an interpreter, where cells run again."""
    same = getattr(old, "__qualname__", None) == getattr(new, "__qualname__", "")
    return same and old.__module__ == new.__module__ == MAIN and known_as(MAIN) is None


def import_named(name: str, what: str) -> ModuleType:
    """Imports a module; `what` names the option or argument that asks for it. Raises ImportFailed."""
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and error.name and f"{name}.".startswith(f"{error.name}."):
            where = f"in {Path.cwd()} or on the Python path"
            raise ImportFailed(what, f"there is no module {error.name!r} {where}") from None
        problem = f"{type(error).__name__}: {error}".rstrip(": ")
        raise ImportFailed(what, f"importing {name} failed: {problem}{_place(error)}") from error


def _place(error: BaseException) -> str:
    """The place in the user's own files where the error happened."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(Path.cwd())]
    return f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""


def module_names(given: object, what: str) -> tuple[str, ...]:
    """Names of modules, each once. Raises InvalidInput."""
    expected = 'a list of module names such as ["shop.tasks", "shop.mail"]'
    if not isinstance(given, list | tuple):
        raise InvalidInput(what, given, expected)
    for name in given:
        if not isinstance(name, str) or not all(part.isidentifier() for part in name.split(".")):
            raise InvalidInput(what, name, expected)
    return tuple(dict.fromkeys(given))
