"""A host: a fork of the fork server for functions that share a process. Async functions share its loop, sync ones that
asked for a thread get one each.

Messages to the node go in batches: one write for all that are pending. A function that prints faster than the node
reads has to wait, as for a full pipe. When a function blocks the loop, the host doesn't answer `Ping`, and the node
acts on that.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import select
import socket
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future

from rota.model.outcome import Outcome
from rota.model.times import SECOND
from rota.tasks.hooks import awaited
from rota.work.functions import wire
from rota.work.functions.engine import Engine, run_loop
from rota.work.functions.forked import ProcessConfig, resident
from rota.work.functions.outbox import Outbox
from rota.work.functions.reporter import ChannelReporter
from rota.work.functions.wire import frame
from rota.work.progress import conclude

# Messages that may wait to be sent; a function that prints when there are more waits until half are sent.
MOST_HELD = 256
# How often a waiting thread looks again. On the loop's own thread the kernel wakes it, and this is the longest wait.
LOOK_AGAIN = 0.002
LONGEST_LOOK = 0.1


class Host:
    def __init__(self, config: ProcessConfig, channel: socket.socket) -> None:
        self._config, self._channel = config, channel
        self.loop = asyncio.new_event_loop()
        self._hooks = config.hooks("host")
        self._engine = Engine(config.max_result, self.loop, self._ended, self._hooks)
        self._frames = wire.Frames(1 << 40, wire.decode_request)
        self._outbox = Outbox(self.loop, channel, self.loop.call_soon_threadsafe)
        self._over = False
        self._thread = threading.get_ident()
        self._newest: dict[int, wire.ProgressReport] = {}  # progress to be sent, by the key of its attempt
        self._progress = threading.Lock()
        self._saving: dict[int, Future[None]] = {}  # saves without an answer yet
        self._numbers = itertools.count(1)
        channel.setblocking(False)
        os.register_at_fork(after_in_child=self._leave)

    def run(self) -> None:
        asyncio.set_event_loop(self.loop)
        pid = os.getpid()
        try:
            self.loop.run_until_complete(awaited(self._hooks.starting()))
        except BaseException:  # also SystemExit; attempts try again, and fail if it fails again
            sys.excepthook(*sys.exc_info())
        if self._config.says_started:
            self._outbox.put(frame(wire.Started()))
        self.loop.add_reader(self._channel, self._listen)
        run_loop(self.loop, lambda: self._over)
        if os.getpid() == pid:
            self.loop.run_until_complete(awaited(self._hooks.stopping()))

    def _leave(self) -> None:
        """In the child of a fork by a function: it must not send messages nor take orders, and if it returns to the
        loop, it ends."""
        self._channel.close()
        self._end()

    def _end(self) -> None:
        self._over = True
        self.loop.stop()

    def _listen(self) -> None:
        if (data := wire.arrived(self._channel)) is None:
            return
        if not data:
            self._end()
            return
        for word in self._frames.feed(data):
            self._understand(word)

    def _understand(self, word: wire.ToProcess) -> None:
        if isinstance(word, wire.Order):
            reporter = ChannelReporter(self, word.key)
            self._engine.begin(self._config.tasks.get(word.task), word, reporter, reporter)
        elif isinstance(word, wire.StopRequest):
            self._engine.stop(word.key, word.rude)
        elif isinstance(word, wire.SaveAnswer):
            conclude(self._saving.pop(word.number), word.error())
        elif isinstance(word, wire.Ping):
            # Sent first: it proves that the loop turns, however much is waiting.
            self._outbox.waiting.appendleft(frame(wire.Pong(resident())))
            self._outbox.flush()

    # -- to the node, from any thread --------------------------------------------------------------------------------
    def _ended(self, key: int, outcome: Outcome, wall: float) -> None:
        self._outbox.put(frame(wire.CallEnd(key, outcome, round(wall * SECOND))))

    def save(self, key: int, body: str) -> Future[None]:
        number, done = next(self._numbers), Future[None]()
        self._saving[number] = done
        self._outbox.put(frame(wire.SaveRequest(key, number, body)))
        return done

    def mask(self, key: int, values: Sequence[str]) -> None:
        """All that is printed goes the same way, so what is printed from now on comes later."""
        self._outbox.put(frame(wire.MaskRequest(key, list(values))))

    def progress(self, report: wire.ProgressReport) -> None:
        """Only the newest progress of an attempt is sent, with the next batch."""
        with self._progress:
            under_way = report.key in self._newest
            self._newest[report.key] = report
        if not under_way:
            self._outbox.put(lambda: self._take(report.key))

    def _take(self, key: int) -> wire.ProgressReport:
        with self._progress:
            return self._newest.pop(key)

    def write(self, key: int, stream: str, body: bytes) -> None:
        for start in range(0, len(body), wire.LARGEST_OUTPUT):
            self._outbox.put(frame(wire.OutputChunk(key, stream, body[start : start + wire.LARGEST_OUTPUT])))
            if len(self._outbox.waiting) > MOST_HELD:
                self._wait()

    def _wait(self) -> None:
        """Bounds endless output: waits while too much is unsent."""
        while len(self._outbox.waiting) > MOST_HELD // 2 and not self._over:
            if threading.get_ident() == self._thread:
                select.select([], [self._channel], [], LONGEST_LOOK)
                self._outbox.flush()
            else:
                time.sleep(LOOK_AGAIN)
