"""Tickets of attempts: the proof that a far-away worker holds an attempt.

A ticket is a message authentication code over access key, incarnation, job and fence. Its secret is in the store, so
every API node checks the tickets of every other, without a query. It covers one attempt of one incarnation. It needs no
expiry: the store refuses writes of an attempt that is over as stale, whatever ticket they carry. Reads ask it first.

A check in the store (who holds this job and fence now?) would do without a secret. But it costs a read for each write,
and it can't tell a repeat after a lost answer, which must be answered `already`, from a stranger's try.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64encode
from typing import Protocol

SECRET = "attempt-tickets"  # noqa: S105 - its name in the store


class OfAttempt(Protocol):
    """A `Ref`, or a write that names the attempt it is about."""

    @property
    def job_id(self) -> str: ...

    @property
    def fence(self) -> int: ...


class Tickets:
    def __init__(self, secret: str) -> None:
        self._secret = secret.encode()

    def issue(self, key: str, incarnation: str, of: OfAttempt) -> str:
        text = f"{key}\0{incarnation}\0{of.job_id}\0{of.fence}"
        code = hmac.digest(self._secret, text.encode("utf-8", "surrogatepass"), "sha256")
        return urlsafe_b64encode(code[:18]).decode()

    def fits(self, ticket: str, key: str, incarnation: str, of: OfAttempt) -> bool:
        expected = self.issue(key, incarnation, of)
        return hmac.compare_digest(expected.encode(), ticket.encode("utf-8", "surrogatepass"))
