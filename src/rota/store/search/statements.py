"""A statement that is built at run time: its text, and its values in the order of their placeholders."""

from __future__ import annotations

from typing import Any


class Statement:
    def __init__(self, form: str) -> None:
        self._form = form
        self.values: list[Any] = []

    def mark(self, value: Any) -> str:
        """The placeholder of a value."""
        self.values.append(value)
        return self._form.format(len(self.values))
