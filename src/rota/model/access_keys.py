"""Access keys: their text, and what stores keep of them.

The text of a key is `rota_<id>_<secret><check>`: an id that lists and the audit show, 256 random bits, and a checksum,
so that a mistyped key is told from a wrong one without a look into the store. Stores keep only the SHA-256 of the text.
A slow hash would gain nothing: nobody can guess 256 random bits.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from enum import StrEnum

import msgspec

from rota.errors import InvalidInput
from rota.model.access import Permission, Role, extra_permissions, queue_globs, role, task_globs, user_name
from rota.model.readers import printable, whole
from rota.model.times import LATEST, Instant

PREFIX = "rota"
LONGEST_NAME = 100
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_SECRET, _CHECK = 43, 6  # digits of 256 and of 32 bits
_ID, _HASH = re.compile(r"[0-9a-f]{12}", re.ASCII), re.compile(r"[0-9a-f]{64}", re.ASCII)
_TEXT = re.compile(rf"{PREFIX}_([0-9a-f]{{12}})_([0-9A-Za-z]{{{_SECRET}}})([0-9A-Za-z]{{{_CHECK}}})", re.ASCII)


class KeyState(StrEnum):
    LIVE = "live"
    EXPIRED = "expired"
    REVOKED = "revoked"


class NewKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key to add. `hash`: of its text, which the store never sees."""

    id: str
    hash: str
    user: str
    role: Role
    queues: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    extra: tuple[Permission, ...] = ()
    expires_at: Instant | None = None
    name: str = ""  # for people


class AccessKey(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    user: str
    role: Role
    queues: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    extra: tuple[Permission, ...] = ()
    name: str = ""
    created_at: Instant
    created_by: str
    expires_at: Instant | None = None
    last_used_at: Instant | None = None  # told about once a minute
    revoked_at: Instant | None = None
    replaces: str | None = None  # the key that it was rotated from

    def state(self, now: Instant) -> KeyState:
        if self.revoked_at is not None:
            return KeyState.REVOKED
        return KeyState.EXPIRED if self.expires_at is not None and self.expires_at <= now else KeyState.LIVE


def key_text(key_id: str, secret: bytes) -> str:
    body = f"{PREFIX}_{key_id}_{_digits(int.from_bytes(secret), _SECRET)}"
    return body + _check(body)


def key_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def key_id(text: object) -> str:
    """The id of a key; raises InvalidInput, without the text, unless it can be a key."""
    found = _TEXT.fullmatch(text) if isinstance(text, str) else None
    if found is None or _check(found.string[:-_CHECK]) != found[3]:
        raise InvalidInput("key", "(hidden)", f"a key such as {PREFIX}_0123456789ab_..., whole and unchanged")
    return found[1]


def check_new_key(new: NewKey) -> NewKey:
    """The same by the rules for each of its parts; raises InvalidInput."""
    check_identity(new.id, new.hash)
    chosen = role(new.role)
    if new.expires_at is not None:
        whole(new.expires_at, "expires_at", 0, LATEST)
    return msgspec.structs.replace(
        new, user=user_name(new.user), role=chosen, queues=queue_globs(new.queues), tasks=task_globs(new.tasks),
        extra=extra_permissions(new.extra, chosen), name=key_name(new.name),
    )  # fmt: skip


def check_identity(new_id: object, new_hash: object) -> None:
    for what, given, form in (("id", new_id, _ID), ("hash", new_hash, _HASH)):
        if not isinstance(given, str) or not form.fullmatch(given):
            raise InvalidInput(f"{what} of the key", "(hidden)", f"{form.pattern} in hexadecimal digits")


def key_name(given: object) -> str:
    return printable(given, "name", 0, LONGEST_NAME, f"at most {LONGEST_NAME} printable characters")


def _check(body: str) -> str:
    return _digits(zlib.crc32(body.encode()), _CHECK)


def _digits(number: int, width: int) -> str:
    digits = ""
    for _ in range(width):
        number, digit = divmod(number, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return digits
