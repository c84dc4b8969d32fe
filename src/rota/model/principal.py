"""The user or service on whose behalf a store verb acts. Every query is restricted to its user.

Verbs about the jobs of one user are for that user. Verbs about everyone's jobs (a queue is shared) are for operators,
verbs about users and keys for admins. Verbs of nodes are for rota's own services. A principal is none of these by
default. A client that has the address of the store, and so its tables, is operator and admin.
"""

from __future__ import annotations

import msgspec

from rota.model.repeats import Repeat

LOCAL_USER = "local"


class Principal(msgspec.Struct, frozen=True):
    user: str
    system: bool = False  # rota's own services: they see the jobs of all users
    operator: bool = False  # may use verbs about everyone's jobs: pause queues, change their order
    admin: bool = False  # may use verbs about users and keys
    auditor: bool = False  # sees the audit rows of all users
    key: str = ""  # the id of the key that acted; "": acts with the address of the store
    repeat: Repeat | None = None  # by which the store recognises a repeat of this write; None: it is carried out

    @property
    def sees(self) -> str | None:
        """The owner whose rows this principal may see; None means all."""
        return None if self.system else self.user

    @property
    def counts(self) -> str | None:
        """The owner whose jobs it may count on what all share, such as nodes; None means all."""
        return None if self.operates else self.user

    @property
    def operates(self) -> bool:
        return self.system or self.operator

    @property
    def administers(self) -> bool:
        return self.system or self.admin

    @property
    def audits(self) -> bool:
        return self.system or self.admin or self.auditor


def with_address(user: str) -> Principal:
    """The principal of a process that has the address of the store."""
    return Principal(user, operator=True, admin=True)


LOCAL = with_address(LOCAL_USER)
SYSTEM = Principal("rota", system=True)
