"""The page on locks: its code runs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import blocks


async def test_its_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    fences: list[int] = []

    async def build(fence: int) -> None:
        fences.append(fence)

    def build_step(step: int, fence: int) -> None:
        fences.append(fence)

    space: dict[str, Any] = {"build": build, "build_step": build_step}
    (code,) = blocks("docs/locks.md", "python")
    exec(compile(code, "docs/locks.md", "exec"), space)
    async with space["app"]:
        await space["report"]()
        await space["report"]()
        await asyncio.to_thread(space["report_sync"])
    first, second, *steps = fences
    assert first < second < steps[0]
    assert steps == [steps[0]] * 3
