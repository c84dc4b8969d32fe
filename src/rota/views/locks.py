"""Locks of users."""

from __future__ import annotations

import msgspec

from rota.model.locks import LockInfo
from rota.model.times import iso
from rota.views.moments import Moment


class LockView(msgspec.Struct):
    """A lock. `expires_at`: its end, unless it is renewed; of a free one: its last end."""

    name: str
    held: bool
    fence: int
    taken_at: Moment
    expires_at: Moment

    @classmethod
    def of(cls, lock: LockInfo) -> LockView:
        return cls(lock.name, lock.held, lock.fence, iso(lock.taken_at), iso(lock.expires_at))
