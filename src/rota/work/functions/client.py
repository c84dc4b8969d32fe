"""The node's side of one function process: its channel, its output, and the assignments in it.

Pool processes (`process_client`) and hosts (`host_client`) differ in how many assignments they run at a time and in how
these are stopped; messages from both are read here.
"""

from __future__ import annotations

import asyncio
import socket
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from rota.errors import InvalidInput, Stale
from rota.work.functions import wire
from rota.work.functions.assignment import Assignment
from rota.work.functions.fork_server_client import ForkServerClient, Gone
from rota.work.functions.hooked import START_LIMIT
from rota.work.functions.outbox import Outbox
from rota.work.functions.pipes import Pipes
from rota.work.functions.tally import Tally
from rota.work.functions.wire import frame

if TYPE_CHECKING:
    from rota.work.functions.pool import Pool

# A process whose channel closes has nearly always died, and the fork server is about to report that; otherwise it is
# killed after this time.
HUNG_UP = 1.0


class FunctionProcess(ABC):
    born: bool  # it takes orders: its start hooks have run
    kind: str  # as start hooks are told

    def __init__(
        self, pool: Pool, fork_server: ForkServerClient, more: Sequence[int] = (), tally: Tally | None = None
    ) -> None:
        """`more`: descriptors beside channel and output. Raises OSError if no socket or pipe can be made, or no message
        sent."""
        self._pool, self._fork_server = pool, fork_server
        self._loop = asyncio.get_running_loop()
        self.assignments: dict[int, Assignment] = {}
        self._why: str | None = None  # why we killed it
        self._blameless = False  # assignments that were not told to stop are not at fault
        self._deaf = False  # no longer read: closed, or it sent invalid frames
        self._frames = wire.Frames(pool.largest_frame, wire.decode_report)
        with ExitStack() as undo:
            self._channel, theirs = socket.socketpair()
            undo.callback(self._channel.close)
            self._channel.setblocking(False)
            self._outbox = Outbox(self._loop, self._channel, self._loop.call_soon)
            with theirs:
                self._pipes = Pipes(pool.drain, pool.stray, self._listen, tally)
                undo.callback(self._pipes.close)
                fds = [theirs.fileno(), *self._pipes.writers, *more]
                self._name = fork_server.fork(fds, self._when_born, self._when_gone)
            undo.pop_all()
        self._pipes.follow()
        self._loop.add_reader(self._channel, self._listen)

    def kill(self, why: str, blameless: bool = False) -> None:
        if self._why is None:
            self._why, self._blameless = why, blameless
            self._fork_server.kill(self._name)

    def lose(self, assignment: Assignment) -> None:
        self.kill("the node lost its lease", blameless=True)

    @abstractmethod
    def _when_born(self) -> None: ...

    @abstractmethod
    def _when_gone(self, gone: Gone) -> None: ...

    @abstractmethod
    def _ended(self, end: wire.CallEnd) -> None:
        """Raises Nonsense if no such assignment runs there."""

    def _output(self, assignment: Assignment | None, chunk: wire.OutputChunk) -> None:
        """Output may arrive after the end of its attempt, from threads or processes that the function left."""
        if assignment is not None:
            stream = chunk.stream if chunk.stream in ("stdout", "stderr") else "log"
            assignment.attempt.output.write(stream, chunk.body)

    def _pong(self, pong: wire.Pong) -> None:
        raise wire.Nonsense("an answer to no question")

    @abstractmethod
    def _started(self) -> None: ...

    def _limit_start(self) -> None:
        """Kills it if its start hooks take too long. It has no orders yet, so no job is blamed."""

        def check() -> None:
            if not self.born and not self._deaf:
                why = f"its process.start hooks took longer than {START_LIMIT:g} s"
                self._pool.complain(f"a process for functions was killed: {why}")
                self.kill(why)

        self._loop.call_later(START_LIMIT, check)

    def _tell_failed_start(self, gone: Gone) -> None:
        """If it has ended itself in its start hooks."""
        if self._pool.says_started and not self.born and self._why is None and gone.status is not None:
            self._pool.start_failed(self.kind, gone.epitaph(None))

    # -- from it -----------------------------------------------------------------------------------------------------
    def _listen(self) -> None:
        """Reads all available frames."""
        while not self._deaf and (data := wire.arrived(self._channel)) is not None:
            if not data:
                self._stop_listening()
                self._loop.call_later(HUNG_UP, self.kill, "it closed its channel to rota")
                return
            try:
                for word in self._frames.feed(data):
                    self._understand(word)
            except wire.Nonsense as nonsense:
                self._stop_listening()  # its later frames can't be trusted either
                self.kill(f"it wrote nonsense into its channel to rota ({nonsense})")
                return
            if len(data) < wire.READ_SIZE:
                return

    def _stop_listening(self) -> None:
        self._deaf = True
        if self._channel.fileno() >= 0:
            self._loop.remove_reader(self._channel)

    def _understand(self, word: wire.FromProcess) -> None:
        if isinstance(word, wire.CallEnd):
            self._ended(word)
            return
        if isinstance(word, wire.Pong):
            self._pong(word)
            return
        if isinstance(word, wire.Started):
            self._started()
            return
        assignment = self._running(word.key)
        if isinstance(word, wire.OutputChunk):
            self._output(assignment, word)
        elif isinstance(word, wire.SaveRequest):
            self._save(assignment, word)
        elif isinstance(word, wire.MaskRequest):
            self._conceal(assignment, word)
        elif assignment is not None:
            with suppress(InvalidInput):  # it was checked where it was told
                assignment.attempt.book.progress(word.fraction, word.text)

    def _running(self, key: int) -> Assignment | None:
        return self.assignments.get(key)

    def _save(self, assignment: Assignment | None, request: wire.SaveRequest) -> None:
        if assignment is None:
            self.send(wire.SaveAnswer(request.number, wire.STALE))
            return

        def answer(saving: Future[None]) -> None:
            error = saving.exception()
            result = wire.SAVED if error is None else wire.STALE if isinstance(error, Stale) else wire.UNSAVED
            self._loop.call_soon_threadsafe(self.send, wire.SaveAnswer(request.number, result))

        assignment.attempt.book.save(request.body).add_done_callback(answer)

    def _conceal(self, assignment: Assignment | None, request: wire.MaskRequest) -> None:
        if assignment is not None:
            with suppress(InvalidInput):  # too many, which was checked where they were told
                assignment.attempt.conceal(request.values)
        if request.waits:
            self.send(wire.SaveAnswer(0, wire.SAVED if assignment is not None else wire.STALE))

    def send(self, word: wire.ToProcess) -> None:
        self._outbox.put(frame(word))

    def _shut(self) -> None:
        self._stop_listening()
        if self._channel.fileno() >= 0:
            self._loop.remove_writer(self._channel)
            self._channel.close()
