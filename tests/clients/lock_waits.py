"""Waiting for those who wait for locks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from unittest.mock import patch

from rota.store.base import Store
from rota.store.values import Topic


async def listening(store: Store) -> None:
    """Until somebody waits for wake-ups of locks."""
    heard = asyncio.Event()
    real = store.listen

    def listen(topics: frozenset[Topic], wake: Callable[[], None]) -> Callable[[], None]:
        if Topic.LOCK in topics:
            heard.set()
        return real(topics, wake)

    with patch.object(store, "listen", listen):
        await heard.wait()
