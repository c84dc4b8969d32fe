"""Where only the server speaks, silence must be told from the end."""

from __future__ import annotations

from collections.abc import Callable

from rota.hot.redis import RedisLane
from tests.hot.fake import Answers, answering, fake
from tests.hot.lanes import Ear, opened

SHORT = 0.5


def subscribing(pong: Callable[[], bytes | None]) -> Answers:
    answers = answering(SUBSCRIBE=b"*3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n")
    return lambda command: pong() if command[0] == b"PING" else answers(command)


async def test_a_subscription_that_is_silent_is_lost() -> None:
    """A half-open connection: nothing ends it, and nothing comes."""
    ear = Ear()
    async with (
        fake(subscribing(lambda: None)) as port,
        opened(RedisLane(f"redis://127.0.0.1:{port}", SHORT)) as (lane,),
    ):
        await lane.subscribe(ear.hear, ear.lose)
        await ear.until(lambda ear: ear.losses == 1)
        assert len(list(lane.descriptors())) == 1  # the other one is fine


async def test_a_quiet_subscription_lives() -> None:
    ear, beats = Ear(), 0

    def pong() -> bytes:
        nonlocal beats
        beats += 1
        news = b"*3\r\n$7\r\nmessage\r\n$1\r\nx\r\n$2\r\n\xff!\r\n" if beats == 5 else b""
        return news + b"*2\r\n$4\r\npong\r\n$0\r\n\r\n"

    async with (
        fake(subscribing(pong)) as port,
        opened(RedisLane(f"redis://127.0.0.1:{port}", SHORT / 2)) as (lane,),
    ):
        await lane.subscribe(ear.hear, ear.lose)
        await ear.until(lambda ear: bool(ear.texts))
        assert (ear.texts, ear.losses) == (["\ufffd!"], 0)
