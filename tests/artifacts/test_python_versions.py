"""Which Pythons will do, by PEP 440."""

from __future__ import annotations

import pytest

from rota.artifacts.faults import InvalidProgram
from rota.artifacts.python_versions import fits


@pytest.mark.parametrize(
    ("text", "good", "bad"),
    [
        (">=3.11", ["3.11.0", "3.12.1", "4.0.0"], ["3.10.9", "2.7.18"]),
        (">=3.11,<4", ["3.11.0", "3.99.0"], ["4.0.0", "3.10.0"]),
        (" >= 3.11 , != 3.12.* ", ["3.11.7", "3.13.0"], ["3.12.0", "3.12.9"]),
        ("==3.12.*", ["3.12.0", "3.12.7"], ["3.11.9", "3.13.0"]),
        ("==3.12", ["3.12.0"], ["3.12.1"]),
        ("===3.12.1", ["3.12.1"], ["3.12.2"]),
        ("!=3.12.1", ["3.12.0"], ["3.12.1"]),
        ("~=3.11", ["3.11.0", "3.12.0"], ["4.0.0", "3.10.0"]),
        ("~=3.11.2", ["3.11.2", "3.11.9"], ["3.11.1", "3.12.0"]),
        ("<=3.12", ["3.12.0"], ["3.12.1"]),
        (">3.12", ["3.12.1", "3.13.0"], ["3.12.0"]),
        ("<3.12", ["3.11.9"], ["3.12.0"]),
    ],
)
def test_versions_that_will_do(text: str, good: list[str], bad: list[str]) -> None:
    assert [one for one in good + bad if fits(text, tuple(map(int, one.split("."))), "script")] == good


@pytest.mark.parametrize(
    "text", ["", "3.11", ">=3.x", ">=3.11,", "~=3", ">=3.11.*", "=>3", 3.11, None, ["3"], ">=" + "9" * 99 + ".."]
)
def test_others_are_refused(text: object) -> None:
    with pytest.raises(InvalidProgram, match=r"such as >=3\.11 or >=3\.11,<4"):
        fits(text, (3, 11, 0), "script")  # type: ignore[arg-type]
