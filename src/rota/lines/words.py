"""The words of a segment, as a filter that says which words can't be in it.

A *word* is a run of ASCII letters, digits, `_` and bytes beyond ASCII; the case of ASCII letters does not count, nor do
bytes behind the first `LONGEST_WORD`. The filter is a Bloom filter in blocks of 512 bits. All bits of a word are in one
block, so a database reads 64 bytes of it for each word, not all. It never misses a word that is there; of the words
that aren't there it takes about one in eighty for present.

Of words with bytes beyond ASCII the runs of ASCII in them are in the filter too, because regular expressions take those
for words.

A beginning of a word is looked up by the longest of its own beginnings that has one of the lengths `PREFIXES`. Only
beginnings without digits are in the filter: they are few in any text, and those of numbers and ids are as many as the
numbers.

A database probes a filter with `get_bit(words, (block % (length(words) / 64)) * 512 + bit)`, for each bit of a `Probe`:
bit 0 is the lowest bit of the first byte. Words, hash and blocks are a part of the format of segments.
"""

from __future__ import annotations

import re
from functools import cache, reduce
from hashlib import blake2b
from typing import NamedTuple
from zlib import crc32

LONGEST_WORD = 64
PREFIXES = (3, 4, 5, 6, 8)
BLOCK = 512
BITS_PER_WORD = 10
# Words are collected from pieces of the text whose words fit into the caches of a core.
_PIECE = 1 << 14

LETTERS = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_" + bytes(range(128, 256))
_LOWER_OR_SPACE = bytes(byte if byte in LETTERS else 0x20 for byte in range(256)).lower()
_ASCII_RUN = re.compile(rb"[0-9a-z_]+")
_DIGIT = re.compile(rb"[0-9]")
# What a word begins with, before its first digit: as much of it as is looked up.
_PLAIN = re.compile(rb" ([a-z_\x80-\xff]{%d,%d})" % (PREFIXES[0], PREFIXES[-1]))
# Behind the beginnings of words, so that they are other entries than words.
_BEGINNING = b"*"
# The block of an entry follows from its whole checksum, its bits from the upper fifteen.
_PATTERN_FROM = 17


class Probe(NamedTuple):
    """The bits of a word, all in the block `block` modulo the number of blocks."""

    block: int
    bits: tuple[int, ...]


def words_of(text: bytes) -> set[bytes]:
    """The words as filters have them."""
    spaced = text.translate(_LOWER_OR_SPACE)
    words: set[bytes] = set()
    begin = 0
    while begin < len(spaced):
        end = spaced.find(b" ", begin + _PIECE)
        end = len(spaced) if end < 0 else end
        words.update(spaced[begin:end].split())
        begin = end
    if not spaced.isascii():
        words.update([run for word in words if not word.isascii() for run in _ASCII_RUN.findall(word)])
    if max(map(len, words), default=0) > LONGEST_WORD:
        return {word[:LONGEST_WORD] for word in words}
    return words


def filter_of(words: set[bytes]) -> bytes:
    entries = [*words, *_beginnings(words)]
    blocks = max(-(-len(entries) * BITS_PER_WORD // BLOCK), 1)
    filled, patterns = [0] * blocks, _all_patterns()
    for checksum in map(crc32, entries):
        filled[checksum % blocks] |= patterns[checksum >> _PATTERN_FROM]
    return b"".join([block.to_bytes(BLOCK // 8, "little") for block in filled])


def _beginnings(words: set[bytes]) -> set[bytes]:
    plain = set(_PLAIN.findall(b" " + b" ".join(words)))
    return {text[:length] + _BEGINNING for text in plain for length in PREFIXES if len(text) >= length}


def probe_word(word: bytes) -> Probe:
    return _probe(word.lower()[:LONGEST_WORD])


def probe_prefix(text: bytes) -> Probe | None:
    """For words that begin so. None: filters know nothing about this beginning."""
    known = len(_DIGIT.split(text, 1)[0])
    length = max((length for length in PREFIXES if length <= known), default=None)
    return None if length is None else _probe(text.lower()[:length] + _BEGINNING)


def may_contain(words: bytes, probe: Probe) -> bool:
    first = probe.block % (len(words) * 8 // BLOCK) * BLOCK
    return all(words[(first + bit) >> 3] >> (bit & 7) & 1 for bit in probe.bits)


def _probe(entry: bytes) -> Probe:
    checksum = crc32(entry)
    return Probe(checksum, _bits(checksum >> _PATTERN_FROM))


def _bits(pattern: int) -> tuple[int, ...]:
    digest = int.from_bytes(blake2b(b"%d" % pattern, digest_size=8).digest(), "little")
    return tuple(digest >> shift & BLOCK - 1 for shift in range(0, 54, 9))


@cache
def _all_patterns() -> list[int]:
    """One operation for each word, not six: that makes the filter five times as fast. Takes 3 MB."""
    return [reduce(lambda bits, bit: bits | 1 << bit, _bits(pattern), 0) for pattern in range(1 << 32 - _PATTERN_FROM)]
