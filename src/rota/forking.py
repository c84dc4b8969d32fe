"""What is open when a process forks.

A forked child has one thread, and copies of everything that its parent had open. None of it may be used there: the
parent's event loops have no thread any more, its sockets and epoll instances are the same ones that the parent reads
and writes, and SQLite believes to hold locks that the kernel has not passed on. Nor may it be tidied up: what `close`
and `__del__` do (a goodbye on a socket, a descriptor taken out of an epoll instance, a checkpoint of a WAL file) is
done to the parent. So whoever holds such things is told of every fork, lets go of them in the child without touching
them, and opens its own there when they are needed. Closing a bare copy of a descriptor is harmless, and is done: a
server would not notice the death of the parent while a child holds its sockets.
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
    """In the process that forks, and in the thread that does. None of these may fail, nor wait for long."""

    def before_fork(self) -> None: ...

    def after_fork_in_parent(self) -> None: ...

    def after_fork_in_child(self) -> None: ...


_members: dict[int, weakref.ref[ForkAware]] = {}


def watch(member: ForkAware) -> None:
    """Tells it of every fork from now on, as long as it lives."""
    key = id(member)
    _members[key] = weakref.ref(member, lambda _: _members.pop(key, None))


def keep_for_ever(*objects: object) -> None:
    """They are never finalised, not even when the process ends: nobody has their `__del__` called."""
    for one in objects:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(one))


def close_copies(descriptors: Iterable[int]) -> None:
    """Of things that are kept for ever: whoever else has a descriptor of theirs would close it a second time."""
    for descriptor in descriptors:
        with suppress(OSError):
            os.close(descriptor)


def _each(tell: Callable[[ForkAware], None]) -> None:
    for reference in _living():
        if (member := reference()) is not None:
            with suppress(Exception):  # the others must hear of it too
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
