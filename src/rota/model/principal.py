"""On whose behalf a store verb acts. The user comes from the key that was shown and is part of every query."""

from __future__ import annotations

import msgspec

LOCAL_USER = "local"


class Principal(msgspec.Struct, frozen=True):
    user: str
    system: bool = False  # rota's own services: they see the jobs of all users

    @property
    def sees(self) -> str | None:
        """The owner whose rows this principal may see; None means all."""
        return None if self.system else self.user


LOCAL = Principal(LOCAL_USER)
SYSTEM = Principal("rota", system=True)
