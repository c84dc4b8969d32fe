"""Which app `--app` means, and that modules of users are imported before any loop runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.cli.app_target import WrongApp, load_app
from rota.tasks.modules import ImportFailed
from tests.cli.program import Rota

APP = 'import rota\napp = rota.App("sqlite:///a.db")\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder to put modules into; they are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in ("store_of_things", "plain"):
            del sys.modules[name]


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        place = folder / name
        place.parent.mkdir(exist_ok=True)
        place.write_text(text)


@pytest.mark.parametrize(
    ("files", "target", "module"),
    [
        ({"plain.py": APP}, "plain", "plain"),
        ({"plain.py": "app = 'another framework'\nimport rota\njobs = again = rota.App()\n"}, "plain", "plain"),
        ({"plain.py": APP + "other = rota.App()\n"}, "plain", "plain"),
        ({"store_of_things/__init__.py": APP}, "store_of_things", "store_of_things"),
        (
            {"store_of_things/__init__.py": "", "store_of_things/app.py": APP},
            "store_of_things",
            "store_of_things.app",
        ),
        (
            {
                "store_of_things/__init__.py": "",
                "store_of_things/app.py": "app = 'another framework'",
                "store_of_things/rota.py": "from rota import App\njobs = App()\n",
            },
            "store_of_things",
            "store_of_things.rota",
        ),
        (
            {"store_of_things/__init__.py": "", "store_of_things/jobs.py": APP},
            "store_of_things.jobs:app",
            "store_of_things.jobs",
        ),
    ],
)
def test_the_app_that_is_meant_is_found(folder: Path, files: dict[str, str], target: str, module: str) -> None:
    write(folder, files)
    app = load_app(target)
    assert app._core.home == module
    assert app.name == module


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"plain.py": "import rota\na = rota.App()\nb = rota.App()\n"}, "several apps: plain:a, plain:b; name one"),
        ({"plain.py": "app = 7"}, r"no app was found; looked at plain \(no rota.App in it\)$"),
        (
            {"plain/__init__.py": "", "plain/app.py": "app = 7"},
            r"looked at plain \(no rota.App in it\), plain.app \(no rota.App in it\), plain.rota \(no such module\)",
        ),
    ],
)
def test_an_app_that_is_not_clear_is_refused_with_all_that_was_looked_at(
    folder: Path, files: dict[str, str], said: str
) -> None:
    write(folder, files)
    with pytest.raises(WrongApp, match=said):
        load_app("plain")


def test_included_modules_are_imported_and_named_in_errors(folder: Path) -> None:
    included = APP.replace('"sqlite:///a.db"', 'include=["plain.tasks", "plain.mail"]')
    tasks = "from plain import app\n@app.task\ndef hello() -> None: ...\n"
    write(folder, {"plain/__init__.py": included, "plain/tasks.py": tasks, "plain/mail.py": "1 / 0\n"})
    said = r"include: importing plain.mail failed: ZeroDivisionError: division by zero \(mail.py, line 1\)"
    with pytest.raises(ImportFailed, match=said) as caught:
        load_app("plain")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    (folder / "plain" / "mail.py").write_text(tasks.replace("hello", "send"))
    assert sorted(task.name for task in load_app("plain")._core.catalogue) == ["hello", "send"]


@pytest.mark.slow
def test_modules_may_order_jobs_while_they_are_imported(rota: Rota) -> None:
    """By `..._sync` methods, which are refused inside of a running loop: in the node, its processes and its verbs."""
    package = rota.folder / "early"
    package.mkdir()
    (package / "__init__.py").write_text('import rota\napp = rota.App(include=["early.tasks"])\n')
    (package / "tasks.py").write_text(
        "from early import app\n"
        "@app.task\n"
        "def hello() -> str:\n"
        "    return 'hello'\n"
        "hello.options(key='once').submit_sync()\n"
    )
    node = rota.up("--app", "early", "--slots", "2")
    try:
        done = rota("submit", "--app", "early", "--wait", "--json", "hello")
        assert (done.returncode, '"succeeded"' in done.stdout) == (0, True), done.stderr
        jobs = rota.json("job", "list")
        assert [job["state"] for job in jobs] == ["succeeded"] * 2
    finally:
        for _ in range(2):
            node.signal()
        assert node.end() == 0, node.err
    assert "can't be imported" not in node.err
