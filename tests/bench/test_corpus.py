"""The corpus is the same for everybody, looks like what programs print, and holds its needles exactly."""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import pytest

from bench.search import needles
from bench.search.corpus import BEGIN, LARGEST, OWNERS, TASKS, Attempt, attempts
from bench.search.programs import STDERR, STDOUT, odd
from rota.model.times import DAY, HOUR

LINES = 60_000
DIGEST = 2433694782  # of 3,000 lines


@pytest.fixture(scope="module")
def corpus() -> list[Attempt]:
    return list(attempts(LINES))


@pytest.fixture(scope="module")
def lines(corpus: list[Attempt]) -> list[bytes]:
    return list(lines_of(corpus))


def lines_of(corpus: list[Attempt]) -> Iterator[bytes]:
    for attempt in corpus:
        for piece in attempt.pieces:
            assert piece.body.endswith(b"\n")
            yield from piece.body[:-1].split(b"\n")


def digest(corpus: Iterator[Attempt]) -> int:
    found = 0
    for owner, task, started_at, pieces in corpus:
        found = zlib.crc32(f"{owner} {task} {started_at}".encode(), found)
        for stream, at, body in pieces:
            found = zlib.crc32(f"{stream} {at} ".encode() + body, found)
    return found


def test_a_seed_stands_for_the_same_bytes_on_every_machine() -> None:
    # Whoever changes the corpus changes this number: figures taken before and after are of other lines.
    assert digest(attempts(3_000)) == DIGEST
    assert digest(attempts(3_000, seed=2)) != DIGEST


def test_it_can_begin_at_another_time() -> None:
    later = list(attempts(500, begin=BEGIN + 5 * HOUR))
    for attempt, other in zip(attempts(500), later, strict=True):
        assert (other.owner, other.task) == (attempt.owner, attempt.task)
        assert other.started_at == attempt.started_at + 5 * HOUR
        assert [piece.at - 5 * HOUR for piece in other.pieces] == [piece.at for piece in attempt.pieces]


@pytest.mark.parametrize("count", [1, 9, 500, 12_345])
def test_it_has_as_many_lines_as_were_asked_for(count: int) -> None:
    assert len(list(lines_of(list(attempts(count))))) == count


def test_attempts_start_in_order_within_a_day_and_their_pieces_follow(corpus: list[Attempt]) -> None:
    starts = [attempt.started_at for attempt in corpus]
    assert starts == sorted(starts)
    assert BEGIN <= starts[0] < BEGIN + 6 * HOUR
    assert starts[-1] < BEGIN + DAY
    for attempt in corpus:
        times = [attempt.started_at, *(piece.at for piece in attempt.pieces)]
        assert all(before <= after for before, after in pairwise(times))


def test_attempts_are_of_all_sizes(corpus: list[Attempt]) -> None:
    sizes = [sum(piece.body.count(b"\n") for piece in attempt.pieces) for attempt in corpus]
    assert min(sizes) < 5
    assert 5_000 < max(sizes) <= LARGEST


def test_few_tasks_of_several_users_make_most_attempts(corpus: list[Attempt]) -> None:
    tasks = Counter(attempt.task for attempt in corpus)
    assert len(TASKS) == len(set(TASKS)) == 50
    assert tasks.keys() <= set(TASKS)
    assert tasks[TASKS[0]] > len(corpus) / 10
    assert {attempt.owner for attempt in corpus} == set(OWNERS)
    assert len({attempt.owner for attempt in corpus if attempt.task == TASKS[0]}) > 1


@pytest.mark.parametrize(
    "word", [needles.COMMON, needles.MEDIUM, needles.RARE, needles.PHRASE, needles.REQUEST]
)  # fmt: skip
@pytest.mark.parametrize("count", [LINES, 1_234])
def test_needles_are_in_as_many_lines_as_said(word: str, count: int, lines: list[bytes]) -> None:
    looked_through = lines if count == LINES else list(lines_of(list(attempts(count))))
    found = [line for line in looked_through if word.encode() in line]
    assert len(found) == needles.count_of(word, count)


def test_the_common_word_is_in_a_tenth_of_all_lines() -> None:
    assert needles.count_of(needles.COMMON, 10_000_000) == 1_000_000
    assert needles.count_of(needles.RARE, 10_000_000) == 5


def test_the_words_of_the_phrase_also_stand_apart(lines: list[bytes]) -> None:
    words = needles.PHRASE.encode().split()
    astray = [line for line in lines if set(words) <= set(line.replace(b'"', b" ").split())]
    assert len(astray) > needles.PHRASE_LINES
    assert needles.PHRASE not in needles.ASTRAY


def test_programs_print_as_programs_do(corpus: list[Attempt], lines: list[bytes]) -> None:
    assert {piece.stream for attempt in corpus for piece in attempt.pieces} == {STDOUT, STDERR}
    traces = [piece for attempt in corpus for piece in attempt.pieces if b"Traceback (most recent" in piece.body]
    assert len(traces) > 20
    assert {trace.stream for trace in traces} == {STDERR}
    assert sum(trace.body.count(b"\n") > 8 for trace in traces) > 0.9 * len(traces)  # the end of an attempt cuts one
    assert any(b"\r" in line for line in lines)
    assert any(b"\x1b[32m" in line for line in lines)
    assert sum(b" timed out after " in line for line in lines) > LINES / 500
    # Text compresses to a fifth and less; ids keep it from much less.
    text = b"\n".join(lines)
    assert 0.1 < len(zlib.compress(text)) / len(text) < 0.25
    assert 100 < len(text) / LINES < 250


def test_lines_in_json_are_json(corpus: list[Attempt]) -> None:
    printed = [piece for attempt in corpus if attempt.task == "billing.send" for piece in attempt.pieces]
    bodies = [piece.body for piece in printed if piece.stream == STDOUT]
    assert len(bodies) > 100
    for body in bodies:
        for line in body.splitlines():
            assert {"ts", "level", "logger", "event"} <= json.loads(line).keys()


def test_some_lines_are_very_long_or_of_other_encodings() -> None:
    printed = [odd(bits * 0x9E3779B97F4A7C15).encode(errors="surrogateescape") for bits in range(300)]
    assert max(map(len, printed)) > 50_000
    assert any(b"\xe9" in line and b"Ren" in line for line in printed)
    assert any("東京".encode() in line for line in printed)
    assert not any(b"\n" in line for line in printed)


def test_odd_lines_are_in_the_corpus(lines: list[bytes]) -> None:
    assert max(map(len, lines)) > 10_000
    assert any(b"\xe9 M\xfc" in line or b"\xff\xfe" in line for line in lines)
