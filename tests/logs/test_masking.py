"""Secrets in output: the same is masked whatever pieces it comes in, nothing else is lost, and little is held back."""

from __future__ import annotations

import itertools
import threading

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rota.logs.masking import MaskedOutput, MaskedStream
from rota.model.secrets import Mask


class Heard:
    def __init__(self) -> None:
        self.written: list[tuple[str, bytes]] = []

    def write(self, stream: str, body: bytes) -> None:
        self.written.append((stream, body))

    def of(self, stream: str) -> bytes:
        return b"".join(body for name, body in self.written if name == stream)


def passed(mask: Mask, pieces: list[bytes]) -> bytes:
    stream = MaskedStream(mask)
    told = []
    for piece in pieces:
        told.append(stream.feed(piece))
        assert stream.held < max(mask.longest, 1)
    return b"".join([*told, stream.end()])


def cut(body: bytes, places: list[int]) -> list[bytes]:
    ends = [0, *sorted(place % (len(body) + 1) for place in places), len(body)]
    return [body[start:end] for start, end in itertools.pairwise(ends)]


# Few letters: so that secrets overlap, repeat and begin alike.
letters = st.text("ab\n", min_size=4, max_size=9)
secrets = st.lists(letters, min_size=1, max_size=4)
bodies = st.lists(st.one_of(st.binary(max_size=5), st.sampled_from([b"a", b"b", b"ab", b"abab", b"\n"])), max_size=30)


@given(secrets, bodies, st.lists(st.integers(0, 200), max_size=20))
@example(["abcd", "cdef"], [b"abcdef"], [2, 4])
def test_pieces_are_masked_as_the_whole(values: list[str], parts: list[bytes], places: list[int]) -> None:
    mask = Mask(values)
    body = b"".join(parts + [value.encode() for value in values] + parts[::-1])
    assert passed(mask, cut(body, places)) == mask.masked(body)


@given(secrets, bodies)
def test_byte_by_byte(values: list[str], parts: list[bytes]) -> None:
    mask, body = Mask(values), b"".join(parts)
    assert passed(mask, [body[i : i + 1] for i in range(len(body))]) == mask.masked(body)


@given(st.lists(st.binary(max_size=300), max_size=20))
def test_what_is_no_secret_stays_byte_for_byte(pieces: list[bytes]) -> None:
    assert passed(Mask(["a secret that is not there"]), pieces) == b"".join(pieces)


@pytest.mark.parametrize(
    ("values", "body", "shown"),
    [
        (["hunter2"], b"it is hunter2.\n", b"it is ***.\n"),
        (["hunter2", "hunter22"], b"hunter2 hunter22 hunter222", b"*** *** ***2"),
        (["abcd", "cdef"], b"xabcdefx", b"x***x"),
        (["aaaa"], b"baaaaaaab", b"b***b"),
        (["abcd"], b"abcdabcd", b"******"),
        (["abcd"], b"\xff\xfeabcd\xff", b"\xff\xfe***\xff"),
        (["abcd"], b"abc", b"abc"),
        (["abcabd"], b"abcabcabd", b"abc***"),
        (["line one\nline two"], b"line one\r\nline two\n", b"***\r\n***\n"),
    ],
)
def test_secrets_that_overlap_or_begin_alike(values: list[str], body: bytes, shown: bytes) -> None:
    mask = Mask(values)
    assert mask.masked(body) == shown
    for size in (1, 2, 3, len(body)):
        assert passed(mask, [body[at : at + size] for at in range(0, len(body), size)]) == shown


def test_ordinary_lines_are_not_held_back() -> None:
    heard = Heard()
    output = MaskedOutput(heard, Mask(["hunter2"]))
    output.write("stdout", b"a line\n")
    output.write("stdout", b"password: hunt")
    assert heard.of("stdout") == b"a line\npassword: "
    output.write("stdout", b"ing season\n")
    assert heard.of("stdout") == b"a line\npassword: hunting season\n"


def test_a_secret_over_two_writes_with_others_in_between() -> None:
    heard = Heard()
    output = MaskedOutput(heard, Mask(["hunter2"]))
    output.write("stdout", b"is hun")
    output.write("stderr", b"ter2 hun\n")
    output.write("log", b"hunter2\n")
    output.write("stdout", b"")
    output.write("stdout", b"ter2\n")
    output.end()
    assert heard.of("stdout") == b"is ***\n"
    assert heard.of("stderr") == b"ter2 hun\n"
    assert heard.of("log") == b"***\n"


def test_what_is_held_back_comes_at_the_end() -> None:
    heard = Heard()
    output = MaskedOutput(heard, Mask(["hunter2"]))
    output.write("stderr", b"hunter")
    assert heard.written == []
    output.end()
    assert heard.written == [("stderr", b"hunter")]


def test_a_secret_that_is_learnt_later_is_masked_from_then_on() -> None:
    heard, mask = Heard(), Mask()
    output = MaskedOutput(heard, mask)
    output.write("stdout", b"hunter2\n")
    mask.add(["hunter2"])
    output.write("stdout", b"hunter2\nx")
    mask.add(["tiger99"])
    output.write("stdout", b"tiger99 hunter2\n")
    output.end()
    assert heard.of("stdout") == b"hunter2\n***\nx*** ***\n"


def test_many_threads_write_whole_lines() -> None:
    heard = Heard()
    output = MaskedOutput(heard, Mask(["hunter2"]))

    def write() -> None:
        for _ in range(200):
            output.write("stdout", b"is hunter2\n")

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    output.end()
    assert heard.of("stdout") == b"is ***\n" * 800
