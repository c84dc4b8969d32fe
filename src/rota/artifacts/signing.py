"""Signed URLs of a folder: whoever has one may do what it says until it expires, without a key of rota.

The signature is an HMAC over everything that the URL allows. The API serves such URLs: it checks the signature, then
reads or writes the folder. S3 has signed URLs of its own.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from typing import NamedTuple, get_args
from urllib.parse import urlencode

from rota.artifacts.keys import check_key, is_key
from rota.artifacts.place import LARGEST, Method
from rota.errors import InvalidInput
from rota.model.times import SECOND, Instant

LEAST_SECRET = 32  # bytes
LONGEST = 7 * 86_400  # seconds; S3 allows no more either
_DOMAIN = "rota object url 1"  # another format gets another number, and the secret may sign other things too


class SignatureRefused(Exception):
    """The URL may not be used like that."""


class SignatureForged(SignatureRefused):
    """Not signed by us, or not for this method, key, time and size."""


class SignatureExpired(SignatureRefused):
    """It was signed by us, and its time is over: ask for a new one."""


class SignedUse(NamedTuple):
    """What a URL allows."""

    method: str
    key: str
    expires: int  # seconds since 1970
    size: int | None  # bytes that a PUT may have at most; None: as many as an object may have


class UrlSigner:
    """`secret`: at least 32 random bytes, the same for all servers of a store."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) < LEAST_SECRET:
            raise InvalidInput("secret of signed URLs", f"{len(secret)} bytes", f"at least {LEAST_SECRET} bytes")
        self._secret = secret

    def sign(self, method: Method, key: str, life: int, now: Instant, size: int | None = None) -> str:
        """The query of the URL: all but the key, which is its path."""
        if method not in get_args(Method):
            raise InvalidInput("method of a signed URL", method, "GET or PUT")
        check_life(life)
        expires = -(-now // SECOND) + life
        fields = {"expires": str(expires)} | ({} if size is None else {"size": str(size)})
        return urlencode(fields | {"signature": self._signature(SignedUse(method, check_key(key), expires, size))})

    def check(self, method: str, key: str, query: Mapping[str, str], now: Instant) -> SignedUse:
        """Raises `SignatureForged` or `SignatureExpired`. That a URL has expired is only said of one that was ours."""
        expires, size = _number(query.get("expires", "")), _number(query.get("size"))
        signature = query.get("signature", "")
        if expires is None or (size is None) != ("size" not in query) or not is_key(key):
            raise SignatureForged("the URL is not complete: use it as it was given")
        use = SignedUse(method, key, expires, size)
        if not hmac.compare_digest(self._signature(use).encode(), signature.encode("utf-8", "surrogateescape")):
            raise SignatureForged(
                "the signature does not belong to this method and object: use the URL as it was given"
            )
        if now >= expires * SECOND:
            raise SignatureExpired("the URL has expired: ask for a new one")
        return use

    def _signature(self, use: SignedUse) -> str:
        size = "" if use.size is None else str(use.size)
        # Neither keys nor numbers hold a line break, so different uses are different texts.
        text = "\n".join((_DOMAIN, use.key, str(use.expires), size, use.method))
        made = hmac.digest(self._secret, text.encode("utf-8", "surrogateescape"), hashlib.sha256)
        return base64.urlsafe_b64encode(made).decode().rstrip("=")


def check_life(life: int) -> int:
    if not 1 <= life <= LONGEST:
        raise InvalidInput("life of a signed URL", life, f"1 to {LONGEST} seconds")
    return life


def _number(text: str | None) -> int | None:
    """As `sign` writes them: one way to write a number, so that a URL can't be varied."""
    if text is None or not (text.isascii() and text.isdigit()) or len(text) > 14 or str(int(text)) != text:
        return None
    return int(text) if int(text) <= max(LARGEST, 10**14) else None
