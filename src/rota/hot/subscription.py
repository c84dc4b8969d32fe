"""A connection that hears the messages of a channel."""

from __future__ import annotations

from collections.abc import Callable

import hiredis

from rota.hot.connection import RedisConnection
from rota.hot.lane import HotAway
from rota.hot.opening import connect
from rota.hot.problems import problem
from rota.hot_address import HotAddress


class Subscription:
    def __init__(self, hear: Callable[[str], None], lost: Callable[[], None]) -> None:
        self._hear, self._lost = hear, lost
        self._begun = self._replaced = False
        self.connection: RedisConnection | None = None

    async def begin(self, address: HotAddress, limit: float, channel: bytes) -> None:
        connection = self.connection = await connect(address, limit, self._take, self._ended)
        try:
            await connection.call("SUBSCRIBE", channel)
        except hiredis.ReplyError as error:
            connection.abort()
            raise problem(address.place, error) from None
        except BaseException:
            connection.abort()
            raise
        if not connection.usable:
            raise HotAway(f"{address.place}: it closed the connection")
        self._begun = True
        connection.keep_proving()

    def replace(self) -> None:
        """Ends it without a word: another one takes its place."""
        self._replaced = True
        self.end()

    def end(self) -> None:
        if self.connection is not None:
            self.connection.abort()

    def _take(self, message: bytes) -> None:
        if not self._replaced:
            self._hear(message.decode("utf-8", "replace"))

    def _ended(self) -> None:
        if self._begun and not self._replaced:
            self._lost()
