"""The public surface under mypy and pyright, both in strict mode, as the code of users sees it.

mypy checks `right.py` and `wrong.py` with everything else in `make check`. basedpyright is pyright as a package.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def complaints() -> dict[str, set[int]]:
    """The lines of each file that pyright complains of."""
    run = subprocess.run(
        [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable, "-p", HERE],
        capture_output=True,
        text=True,
        timeout=100,
    )
    found: dict[str, set[int]] = {"right.py": set(), "wrong.py": set()}
    for one in json.loads(run.stdout)["generalDiagnostics"]:
        found.setdefault(Path(one["file"]).name, set()).add(one["range"]["start"]["line"] + 1)
    return found


@pytest.mark.slow
def test_pyright_sees_the_same_types_and_the_same_mistakes() -> None:
    lines = (HERE / "wrong.py").read_text("utf-8").splitlines()
    wrong = {number for number, line in enumerate(lines, 1) if "# type: ignore" in line}
    assert len(wrong) > 20
    assert complaints() == {"right.py": set(), "wrong.py": wrong}
