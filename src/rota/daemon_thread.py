"""Runs a call that can't be stopped in a thread of its own: it delays neither other calls nor the end of the process.

The threads of an event loop's executor do both: the end of the loop waits for them.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


class DaemonThread(threading.Thread):
    """One that is alive at the end of the process was left behind. Python waits for executors that its call uses."""


async def in_daemon_thread(call: Callable[[], T], name: str) -> T:
    """Returns or raises what the call does. When this is cancelled the thread goes on, and its result is dropped."""
    answer = Future[T]()
    answer.set_running_or_notify_cancel()  # it is settled even if nobody waits any more

    def run() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:
            answer.set_exception(error)

    DaemonThread(target=contextvars.copy_context().run, args=(run,), name=name, daemon=True).start()
    return await asyncio.wrap_future(answer)
