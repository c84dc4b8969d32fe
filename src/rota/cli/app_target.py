"""The app that `--app` names: `shop.jobs:app`, or a module in which it is clear."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from rota.app import App
from rota.errors import InvalidInput
from rota.tasks.modules import import_named

# The submodules of a package that are looked at, in this order, if the package has no app itself.
SUBMODULES = ("app", "rota")


class WrongApp(InvalidInput):
    def __init__(self, target: str, problem: str) -> None:
        super().__init__("--app", target, "MODULE or MODULE:APP")
        self.args = (f"--app {target}: {problem}",)


def load_app(target: str) -> App:
    """`shop.jobs:app` is the attribute `app` of the module `shop.jobs`, which is also looked for in this folder. The
    modules that the app includes are imported too."""
    name, _, attribute = target.partition(":")
    if not all(part.isidentifier() for part in (*name.split("."), *(attribute or "app").split("."))):
        raise WrongApp(target, "expected MODULE:APP such as shop.jobs:app, with a module and no file name")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    module = import_named(name, f"--app {target}")
    app = _attribute(target, module, attribute) if attribute else _search(target, module)
    app.load()
    return app


def _attribute(target: str, module: ModuleType, attribute: str) -> App:
    found: Any = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise WrongApp(target, f"{module.__name__} has no {attribute!r}")
        found = getattr(found, part)
    if not isinstance(found, App):
        raise WrongApp(target, f"is a {type(found).__name__}; expected a rota.App")
    return found


def _search(target: str, module: ModuleType) -> App:
    """The app of the module, or of a submodule of a package. Raises WrongApp, with all that was looked at."""
    seen = []
    for name in (module.__name__, *(f"{module.__name__}.{part}" for part in SUBMODULES if hasattr(module, "__path__"))):
        if name not in sys.modules and find_spec(name) is None:
            seen.append(f"{name} (no such module)")
            continue
        apps = _apps(import_named(name, f"--app {target}"))
        if len(apps) == 1:
            return next(iter(apps.values()))
        if apps:
            raise WrongApp(target, f"{name} has several apps: {', '.join(f'{name}:{one}' for one in apps)}; name one")
        seen.append(f"{name} (no rota.App in it)")
    raise WrongApp(target, f"no app was found; looked at {', '.join(seen)}")


def _apps(module: ModuleType) -> dict[str, App]:
    """The apps in a module, each once. One called `app` wins over others."""
    named = {name: value for name, value in vars(module).items() if isinstance(value, App)}
    if "app" in named:
        return {"app": named["app"]}
    return {name: app for app, name in {app: name for name, app in named.items()}.items()}
