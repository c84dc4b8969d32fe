"""`TaskInfo`: a task as its description, which is all that ordering it needs."""

from __future__ import annotations

import msgspec

from rota.model.options import TaskOptions


class TaskInfo(TaskOptions, frozen=True):
    """A function that some app offers, with the options its jobs get unless told otherwise."""

    name: str
    parameters: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    open: bool = False  # takes any keyword
    types: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)  # JSON types; absent: any

    def takes(self, name: str) -> bool:
        """Whether an argument may have this name."""
        return self.open or name in self.parameters
