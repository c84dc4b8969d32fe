"""What a server tells a client about itself and about the client's key."""

from __future__ import annotations

import msgspec

from rota.model.times import Instant

PATH = "/api/v1/server"
WAKES = "/api/v1/wakes"
CALLS = "/api/v1/calls"
TIME = "rota-time"  # header of answers: the time of the store in microseconds
IDEMPOTENCY_KEY = "Idempotency-Key"  # header of requests: by it the store recognises a repeat
REPEAT = "rota-repeat"  # header of a call that may have been carried out before
PING = 10.0  # seconds between two signs of life in a stream


class ServerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """`store` is its kind: sqlite or postgresql. The rest is about the key of the caller."""

    version: str
    store: str
    now: Instant
    user: str
    key: str  # its id
    role: str
    permissions: tuple[str, ...]
    expires_at: Instant | None = None
