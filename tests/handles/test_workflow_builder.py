"""Workflows while they are put together."""

from __future__ import annotations

import pytest

import rota
from rota.errors import InvalidInput
from rota.testing import harness

app = rota.App("sqlite:///never-made.db")


async def test_a_workflow_of_nothing_is_refused() -> None:
    async with harness(app):
        with pytest.raises(InvalidInput, match="workflow: 'none' is not valid; expected at least one job"):
            async with app.workflow("none"):
                pass
