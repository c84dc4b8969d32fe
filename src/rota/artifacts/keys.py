"""How keys are made: `staging/<upload>/<part>` and `objects/<2 digits>/<digest>-<token>`.

What is being uploaded has keys of its own, which clients may write to. What is published is found under the SHA-256
digest of its content, and a token that each publication chooses anew. So a collector that deletes an old publication
never hits a new one of the same content, however long its delete is under way.

Keys are ours: small letters, digits, `-`, `_` and `.`. They mean the same to every file system and in every URL, also
where case does not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rota.artifacts.place import LARGEST
from rota.errors import InvalidInput, TooLarge

STAGING = "staging/"
OBJECTS = "objects/"
MOST_PARTS = 1000
MIB = 1 << 20
LEAST_PART = 16 * MIB
LONGEST_LIFE = 3600  # seconds
_SEGMENT = r"[a-z0-9][a-z0-9._-]{0,127}"
_KEY = re.compile(rf"{_SEGMENT}(/{_SEGMENT}){{0,7}}")
_FOLDER = re.compile(rf"({_SEGMENT}/){{0,7}}")
_UPLOAD = re.compile(r"[a-z0-9][a-z0-9-]{7,63}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_TOKEN = re.compile(r"[a-z0-9]{8,48}")
_PUBLISHED = re.compile(r"objects/(?P<folder>[0-9a-f]{2})/(?P<digest>(?P=folder)[0-9a-f]{62})-[a-z0-9]{8,48}")


def check_key(key: str) -> str:
    return _checked(_KEY, key, "key of an object", "up to 8 names of small letters, digits, -, _ and . between slashes")


def is_key(key: str) -> bool:
    return _KEY.fullmatch(key) is not None


def check_folder(prefix: str) -> str:
    return _checked(_FOLDER, prefix, "folder of keys", 'names of small letters, digits, -, _ and ., each with / or ""')


def check_digest(digest: str) -> str:
    return _checked(_DIGEST, digest, "digest", "the SHA-256 digest as 64 hexadecimal digits")


def staging_of(upload: str) -> str:
    """The folder with all parts of an upload."""
    return f"{STAGING}{_checked(_UPLOAD, upload, 'upload', '8 to 64 small letters, digits and -')}/"


def part_key(upload: str, number: int) -> str:
    """Parts are counted from 1; their keys are in the order of their numbers."""
    if not 1 <= number <= MOST_PARTS:
        raise InvalidInput("part of an upload", number, f"a number from 1 to {MOST_PARTS}")
    return f"{staging_of(upload)}{number:05d}"


def part_number(key: str) -> int:
    return int(key.rpartition("/")[2])


def part_sizes(size: int) -> Iterator[int]:
    """How content is cut into parts: all but the last are equal."""
    whole = part_size(size)
    yield from (min(whole, size - start) for start in range(0, max(size, 1), whole))


def part_size(size: int) -> int:
    if size > LARGEST:
        raise TooLarge("content", size, LARGEST)
    least = -(-size // MOST_PARTS)
    return max(LEAST_PART, -(-least // MIB) * MIB)


def object_key(digest: str, token: str) -> str:
    check_digest(digest)
    _checked(_TOKEN, token, "token of a publication", "8 to 48 small letters and digits")
    return f"{OBJECTS}{digest[:2]}/{digest}-{token}"


def digest_of(key: str) -> str | None:
    """The digest in the key of a publication; None: it is the key of something else."""
    found = _PUBLISHED.fullmatch(key)
    return found and found["digest"]


def sign_life(size: int) -> int:
    """Seconds for which a URL for an object of this size is good. Places look at the clock when a request begins, so
    the life covers waiting for a turn and tries that failed: at least five minutes, a second for each MiB, and at most
    an hour."""
    return min(LONGEST_LIFE, 300 + size // MIB)


def _checked(pattern: re.Pattern[str], given: str, what: str, expected: str) -> str:
    if pattern.fullmatch(given) is None:
        raise InvalidInput(what, given, expected)
    return given
