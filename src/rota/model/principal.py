"""On whose behalf a store verb acts. The user comes from the key that was shown and is part of every query.

Three kinds of verbs, three kinds of principals. What concerns the jobs of one user is for that user. What concerns
everyone's jobs (a queue is shared) is for operators. What nodes do is for rota's own services. A principal is neither
operator nor system unless somebody says so; whoever has the address of the store, and so its tables, is an operator.
"""

from __future__ import annotations

import msgspec

LOCAL_USER = "local"


class Principal(msgspec.Struct, frozen=True):
    user: str
    system: bool = False  # rota's own services: they see the jobs of all users
    operator: bool = False  # may do what concerns everyone's jobs: pause queues, change their order

    @property
    def sees(self) -> str | None:
        """The owner whose rows this principal may see; None means all."""
        return None if self.system else self.user

    @property
    def operates(self) -> bool:
        return self.system or self.operator


LOCAL = Principal(LOCAL_USER, operator=True)
SYSTEM = Principal("rota", system=True)
