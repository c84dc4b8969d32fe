"""Repeats of writes: a write that a client sends again because it got no answer.

A client names its write by an idempotency key. The store keeps the key with the answer, in the transaction of the write
(`store.verbs.once`), so a repeat is recognised by every server of the store, also after a crash of the one that carried
the write out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rota.model.times import Duration


@dataclass(frozen=True, eq=False, slots=True)
class Repeat:
    """Names one write of a request; `Principal.repeat` carries it to the store. A request may need several writes:
    `step` counts them. `keep` makes the bytes that are kept of an answer (None: they are too many), and `recall` the
    answer from them. `recall` may raise; nothing is changed either way."""

    key: str  # `key_name` of the idempotency key
    route: str
    digest: str  # of the request
    life: Duration
    keep: Callable[[Any], bytes | None]
    recall: Callable[[bytes | None], Any]
    step: int = 0


def key_name(given: str) -> str:
    """The name under which an idempotency key is kept. Clients choose their texts, so these may tell something."""
    return hashlib.sha256(given.encode("utf-8", "surrogatepass")).hexdigest()
