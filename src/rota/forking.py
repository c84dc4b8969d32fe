"""Open resources when a process forks.

A forked child has one thread, and copies of everything that its parent had open. It must not use them: the parent's
event loops have no thread in the child, its sockets and epoll instances are shared with the parent, and SQLite believes
that it holds locks which the kernel has not passed on. It must not clean them up either: `close` and `__del__` (a
goodbye on a socket, a descriptor removed from an epoll instance, a checkpoint of a WAL file) would act on the parent's.
So every holder of such resources is told of each fork, drops them in the child without touching them, and opens its own
when needed. Closing a bare copy of a descriptor is harmless and necessary: a server would not notice the death of the
parent while a child holds its sockets.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Protocol

import rota.clock  # noqa: F401 - its hook must be registered before ours: members make names by chance in a child


class ForkAware(Protocol):
    """Called in the thread that forks. None of these may fail or wait for long."""

    def before_fork(self) -> None: ...

    def after_fork_in_parent(self) -> None: ...

    def after_fork_in_child(self) -> None: ...


_members: dict[int, weakref.ref[ForkAware]] = {}


def watch(member: ForkAware) -> None:
    """Calls the member at every fork from now on, as long as it lives."""
    key = id(member)
    _members[key] = weakref.ref(member, lambda _: _members.pop(key, None))


def keep_for_ever(*objects: object) -> None:
    """Adds a reference that is never dropped, so that `__del__` is never called, not even at exit."""
    for one in objects:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(one))


def close_copies(descriptors: Iterable[int]) -> None:
    """Only for objects that are kept for ever: others would close the descriptor a second time."""
    for descriptor in descriptors:
        with suppress(OSError):
            os.close(descriptor)


def _each(tell: Callable[[ForkAware], None]) -> None:
    for reference in _living():
        if (member := reference()) is not None:
            with suppress(Exception):  # the other members must be called too
                tell(member)


def _living() -> list[weakref.ref[ForkAware]]:
    while True:
        try:
            return list(_members.values())
        except RuntimeError:  # another thread has opened or dropped one just now
            continue


os.register_at_fork(
    before=lambda: _each(lambda member: member.before_fork()),
    after_in_parent=lambda: _each(lambda member: member.after_fork_in_parent()),
    after_in_child=lambda: _each(lambda member: member.after_fork_in_child()),
)
