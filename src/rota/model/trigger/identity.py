"""The id of a fire: derived from its schedule and time, so that every node inserts the same job."""

from __future__ import annotations

import hashlib

import msgspec

from rota.model.times import MILLISECOND, Instant

_canonical = msgspec.json.Encoder()


def fire_id(owner: str, name: str, fire: Instant) -> str:
    """A UUID of version 8 that sorts by time like the UUIDv7s of other jobs: 48 bits of milliseconds, then a hash."""
    digest = hashlib.sha256(_canonical.encode(("fire", owner, name, fire))).digest()
    tail = int.from_bytes(digest[:10], "big")
    stamp = f"{fire // MILLISECOND & 0xFFFF_FFFF_FFFF:012x}"
    middle = f"8{tail >> 68:03x}-{0x8000 | tail >> 48 & 0x3FFF:04x}"
    return f"{stamp[:8]}-{stamp[8:]}-{middle}-{tail & 0xFFFF_FFFF_FFFF:012x}"
