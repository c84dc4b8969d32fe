"""docs/settings.md, docs/errors.md and docs/reading.md say all there is to say."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import get_type_hints

import msgspec
import pytest

from rota import config, errors, signals
from rota.clients.job_queries import Changes
from rota.handles.jobs import JobConditions, JobQuery
from rota.model.job import AttemptInfo, JobInfo
from rota.model.outcome import Problem, Usage
from rota.model.progress import Progress
from rota.model.requirements import Requirements
from rota.model.times import short
from rota.store import sql_files
from rota.store.values import Facet, Facets, JobCount

DOCS = Path(__file__).parents[2] / "docs"


def rows(page: str) -> dict[str, list[str]]:
    """The cells of all tables, by what stands in the first."""
    lines = [line for line in (DOCS / page).read_text("utf-8").splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0].strip("`"): row[1:] for row in cells}


def settings() -> dict[str, tuple[str, str, str]]:
    """Variable, default and meaning of each setting on its page."""
    entry = re.compile(r"^- `(\w+)` \(`(\w+)`(?:, default\s`([^`]+)`)?\):\s(.+)$", re.MULTILINE)
    found = entry.findall((DOCS / "settings.md").read_text("utf-8"))
    return {name: (variable, default, meaning) for name, variable, default, meaning in found}


def _shown(name: str, value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(value)
    if name == "queues":
        return ",".join(f"{queue}:{slots}" for queue, slots in value.items())  # type: ignore[attr-defined]
    if value is None:
        return "none"
    if name in ("grace", "kill_grace", "lease", "http_timeout", "unknown_grace") or name.endswith("retention"):
        return short(value)  # type: ignore[arg-type]
    return str(value).lower() if isinstance(value, bool) else str(value)


SHOWN = (JobInfo, AttemptInfo, Problem, Usage, Progress, Requirements, Changes, JobCount, Facets, Facet)


@pytest.mark.parametrize("shown", SHOWN, ids=lambda one: one.__name__)
def test_every_field_of_what_is_read_is_documented(shown: type[msgspec.Struct]) -> None:
    (section,) = re.findall(rf"^### {shown.__name__}$\n(.*?)(?=^##|\Z)", (DOCS / "reading.md").read_text(), re.S | re.M)
    properties = [name for name, member in vars(shown).items() if isinstance(member, property) and shown is JobInfo]
    # The encoded names: a duration that is kept as an integer is encoded under the name of the property to read.
    assert re.findall(r"^\| `(\w+)` \|", section, re.M) == [*shown.__struct_encode_fields__, *properties]


def test_every_condition_and_call_of_a_query_is_documented() -> None:
    page = (DOCS / "reading.md").read_text()
    conditions = set(
        re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", page.partition("## Reading")[0], re.M)))
    )
    assert conditions == set(get_type_hints(JobConditions))
    calls = {name for name in vars(JobQuery) if not name.startswith("_") and not name.endswith("_sync")}
    assert set(re.findall(r"^\| `await query\.(\w+)", page, re.M)) == calls
    assert {f"{name}_sync" for name in calls} <= set(vars(JobQuery))


def test_every_setting_is_documented_with_its_variable_and_default() -> None:
    documented = settings()
    assert list(documented) == list(config.Settings.__struct_fields__)
    for name, (variable, default, meaning) in documented.items():
        assert variable == f"ROTA_{name.upper()}"
        assert default == _shown(name, getattr(config.Settings(), name))
        assert meaning


def test_documented_defaults_are_read_back_as_the_defaults() -> None:
    documented = {name: default for name, (_, default, _) in settings().items()}
    assert config.load(environment={f"ROTA_{name.upper()}": text for name, text in documented.items()}) == (
        config.Settings()
    )


def test_the_example_of_a_file_is_accepted(tmp_path: Path) -> None:
    found = re.search(r"```toml\n(.*?)```", (DOCS / "settings.md").read_text("utf-8"), re.S)
    assert found
    path = tmp_path / "rota.toml"
    path.write_text(found[1])
    assert config.load(environment={"ROTA_CONFIG": str(path)}).queues == {"default": 8, "mail": 2}


TREES: dict[type[Exception], ModuleType] = {errors.RotaError: errors, signals.TaskSignal: signals}


def _tree(base: type[Exception]) -> list[type[Exception]]:
    found = [kind for kind in vars(TREES[base]).values() if isinstance(kind, type) and issubclass(kind, base)]
    return [kind for kind in found if not kind.__name__.startswith("_")]


def test_every_error_is_documented_with_what_to_do() -> None:
    documented = rows("errors.md")
    assert sorted(documented) == sorted(kind.__name__ for tree in TREES for kind in _tree(tree))
    assert all(all(cells) for cells in documented.values())


@pytest.mark.parametrize("base", TREES)
def test_errors_stand_in_the_table_of_their_tree(base: type[Exception]) -> None:
    first, second = (DOCS / "errors.md").read_text("utf-8").split("| signal |")
    here = first if base is errors.RotaError else second
    assert all(f"| `{known.__name__}` |" in here for known in _tree(base))


def test_the_changelog_names_the_version_of_the_schema() -> None:
    text = (DOCS.parent / "CHANGELOG.md").read_text("utf-8")
    (named,) = re.findall(r"The schema is version (\d+) for both stores", text)
    assert [int(named)] * 2 == [sql_files.migrations(engine)[-1][0] for engine in ("sqlite", "postgres")]
