"""The pages of the documentation and the code on them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: str, language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)
    return [text for kind, text in found if kind == language]


def run_page(page: str) -> dict[str, Any]:
    """Runs all Python of a page in one module; returns its names."""
    space: dict[str, Any] = {"__name__": "page"}
    for code in blocks(page, "python"):
        exec(compile(code, page, "exec", dont_inherit=True), space)
    return space
