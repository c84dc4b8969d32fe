"""Frames: whatever comes, it is a word or nonsense."""

from __future__ import annotations

import pytest

from rota.errors import RotaError, Stale
from rota.model.outcome import Succeeded
from rota.work.functions import wire

REQUESTS: list[wire.ToProcess] = [
    wire.Order(7, "job", 1, 1, "task", "default", 5, "local", "{}"),
    wire.StopRequest(7, True),
    wire.SaveAnswer(3, wire.SAVED),
    wire.OutputRead(),
    wire.Ping(),
]
REPORTS: list[wire.FromProcess] = [
    wire.OutputChunk(7, "log", b"\xff", 1, 2),
    wire.ProgressReport(7, 0.5, "half"),
    wire.SaveRequest(7, 3, "[]"),
    wire.CallEnd(7, Succeeded("1"), 10, 5, 4096, leaves=True),
    wire.Pong(4096),
]


@pytest.mark.parametrize("size", [1, 3, 1 << 20])
def test_words_survive_however_they_are_cut(size: int) -> None:
    requests = wire.Frames(1 << 20, wire.decode_request)
    reports = wire.Frames(1 << 20, wire.decode_report)
    for frames, words in ((requests, REQUESTS), (reports, REPORTS)):
        data = b"".join(map(wire.frame, words))
        parts = [data[start : start + size] for start in range(0, len(data), size)]
        assert [word for part in parts for word in frames.feed(part)] == words


@pytest.mark.parametrize(
    "data",
    [b"\xff" * 4, wire.frame(wire.Ping())[:4] + b"\xc1\xc1", b"\0\0\0\1\x90", b"\0\0\0\2\x91\x63"],
    ids=["too large", "no MessagePack", "no tag", "a tag that nobody has"],
)
def test_all_else_is_nonsense(data: bytes) -> None:
    with pytest.raises(wire.Nonsense):
        wire.Frames(1 << 20, wire.decode_report).feed(data)


def test_answers_to_a_pool_process_have_the_size_that_it_reads() -> None:
    answers = [wire.SaveAnswer(0, answer) for answer in (wire.SAVED, wire.STALE, wire.UNSAVED)]
    assert {len(wire.frame(answer)) for answer in answers} == {wire.SAVE_ANSWER_SIZE}
    assert len(wire.frame(wire.OutputRead())) == wire.OUTPUT_READ_SIZE
    assert [type(answer.error()) for answer in answers] == [type(None), Stale, RotaError]
