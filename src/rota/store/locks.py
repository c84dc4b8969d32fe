"""Verbs about locks, a part of the contract of a store (`store.base`).

The store's clock judges them: a lock is free once it was released or has expired, and an expired lock is never renewed.
Each user has locks of their own; nobody sees or changes those of others.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from rota.model.job import Verdict
from rota.model.locks import Acquisition, LockInfo
from rota.model.principal import Principal
from rota.model.times import Duration
from rota.store.deeds import about
from rota.store.verbs import READ, WRITE, Verbs, verb


class Locks(Verbs):
    @verb(WRITE, audit=None, repeatable=True)
    @abstractmethod
    async def acquire_lock(self, who: Principal, /, name: str, holder: str, ttl: Duration) -> Acquisition:
        """Takes the lock for `ttl` if it is free, with a fence higher than all before. `holder` is a token that the
        caller chooses for this acquisition. While it holds the lock, a repeat is answered with the same fence. A token
        that has released the lock never gets it again, so a try that arrives late takes nothing."""

    @verb(WRITE, audit=None, repeatable=True)
    @abstractmethod
    async def renew_lock(self, who: Principal, /, name: str, holder: str, fence: int, ttl: Duration) -> Verdict:
        """Holds the lock for `ttl` from now on. `stale`: it was taken by another, released or has expired."""

    @verb(WRITE, audit=None, repeatable=True)
    @abstractmethod
    async def release_lock(self, who: Principal, /, name: str, holder: str, fence: int | None = None) -> Verdict:
        """Frees the lock. `already`: this holder has released it before; `stale`: it was taken by another or has
        expired. `fence`: None for a holder that did not hear whether it got the lock."""

    @verb(WRITE, audit=about("name"))
    @abstractmethod
    async def free_lock(self, who: Principal, /, name: str) -> bool:
        """Frees the lock, whoever holds it: for people. False if it was free."""

    @verb(READ)
    @abstractmethod
    async def locks(self, who: Principal, /, names: Sequence[str] | None = None) -> list[LockInfo]:
        """The locks of the principal, held ones first, by name: these, or up to 1,000. Locks that have been free for
        long are missing."""
