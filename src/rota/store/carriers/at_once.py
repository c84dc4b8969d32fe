"""Runs a coroutine that never waits, in the thread of its caller and without an event loop."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    """One step runs it to its end: whatever it awaits has been carried out when the call returns."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        answer: T = end.value
        return answer
    coroutine.close()
    name = getattr(coroutine, "__name__", coroutine)
    raise RuntimeError(f"{name} waits for something that is not the store")
