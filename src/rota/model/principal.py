"""The user or service on whose behalf a store verb acts. Every query is restricted to its user.

Verbs about the jobs of one user are for that user. Verbs about everyone's jobs (a queue is shared) are for operators.
Verbs of nodes are for rota's own services. A principal is neither operator nor system by default. A client that has the
address of the store, and so its tables, is an operator.
"""

from __future__ import annotations

import msgspec

LOCAL_USER = "local"


class Principal(msgspec.Struct, frozen=True):
    user: str
    system: bool = False  # rota's own services: they see the jobs of all users
    operator: bool = False  # may use verbs about everyone's jobs: pause queues, change their order

    @property
    def sees(self) -> str | None:
        """The owner whose rows this principal may see; None means all."""
        return None if self.system else self.user

    @property
    def operates(self) -> bool:
        return self.system or self.operator


LOCAL = Principal(LOCAL_USER, operator=True)
SYSTEM = Principal("rota", system=True)
