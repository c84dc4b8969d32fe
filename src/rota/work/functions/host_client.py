"""The controller's side of hosts: attempts that share a process, and how they are told apart when it fails.

One host is in use. It is asked once a second whether it is still there.
- It does not answer, and one of its attempts was told to stop a grace ago: it is killed. That attempt ends for the
  reason it was told, its neighbours are put back, uncounted.
- It does not answer for long, or dies by itself: nobody can say whose fault it was, so all that ran in it have crashed;
  and what has crashed before runs in a process of its own, where innocents are told from the guilty.
- An attempt swallows its stop while the loop lives: no others come here, and when only such are left it is killed.
- It has more memory than it may: no others come here, and when the last has ended it goes.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack, suppress

from rota.errors import InvalidInput
from rota.model.outcome import Crashed, Interrupted, Outcome, Problem, Usage
from rota.work.attempt import Attempt, Stop, Stuck
from rota.work.functions.fork_server_client import ForkServerClient, Gone
from rota.work.functions.pipes import Pipes
from rota.work.functions.process_client import HUNG_UP
from rota.work.functions.wire import (
    STALE,
    Ended,
    Frames,
    Given,
    Halt,
    Keep,
    Kept,
    Nonsense,
    Order,
    Ping,
    Pong,
    Progressed,
    Uttered,
    answer_to,
    arrived,
    decode_guest,
    frame,
)
from rota.work.output import Drain

PULSE = 1.0  # seconds between two questions whether it is there
NO_PROCESS = "there is no process for it"
HUNG = 30.0  # without an answer for so long it is killed, whoever blocks it


class Stay:
    """One attempt that is to run in a host."""

    def __init__(self, attempt: Attempt, order: Order, grace: float) -> None:
        self.attempt, self.order, self._grace = attempt, order, grace
        self.future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self.host: HostClient | None = None
        self.key = 0
        self.told = False
        self.over: asyncio.Event | None = None

    def stop(self, reason: Stop) -> None:
        if self.future.done():
            return
        host, self.told = self.host, True
        if host is None:
            self.end(Interrupted("stopped before it began"))
        elif reason is Stop.LOST:
            host.kill("the node lost its lease")
        else:
            loop = asyncio.get_running_loop()
            host.send(Halt(self.key, rude=False))
            host.ask()
            loop.call_later(self._grace / 2, self._press)
            loop.call_later(self._grace, self._insist)

    def _press(self) -> None:
        if not self.future.done() and self.host is not None:
            self.host.send(Halt(self.key, rude=True))

    def _insist(self) -> None:
        if self.future.done() or self.host is None:
            return
        if self.host.silent_for() >= self._grace * 0.9:
            self.host.kill("it did not stop when told, nor answer")
        else:
            self.over = asyncio.Event()
            self.future.set_exception(Stuck(self.over))
            self.host.spare()

    def end(self, outcome: Outcome) -> None:
        if self.over is not None:
            self.over.set()
        if not self.future.done():
            self.future.set_result(outcome)


class HostClient:
    """The way to one host, and the attempts in it."""

    def __init__(
        self,
        template: ForkServerClient,
        largest: int,
        memory: int,
        drain: Drain,
        stray: Callable[[bytes], None],
        lost: Callable[[HostClient], None],
    ) -> None:
        """Raises OSError."""
        self._template, self._memory, self._lost = template, memory, lost
        self._loop = asyncio.get_running_loop()
        self._keys = itertools.count(1)
        self.stays: dict[int, Stay] = {}
        self.usable = True
        self._why: str | None = None
        self._known = False  # whose doing it is: not that of those who were not told to stop
        self._frames = Frames(largest, decode_guest)
        self._out: list[bytes] = []
        self._unsent = b""
        self._asked: float | None = None  # when the question that is still open was put
        with ExitStack() as undo:
            self._channel, theirs = socket.socketpair()
            self._channel.setblocking(False)
            undo.callback(self._channel.close)
            with theirs:
                self._pipes = Pipes(drain, stray, lambda: None)
                undo.callback(self._pipes.close)
                fds = [theirs.fileno(), *self._pipes.writers]
                self._name = template.fork(fds, lambda: None, self._when_gone, "host")
            undo.pop_all()
        self._pipes.follow()
        self._loop.add_reader(self._channel, self._hear)
        self._pulse = self._loop.call_later(PULSE, self._feel)

    # -- to it -------------------------------------------------------------------------------------------------------
    def add(self, stay: Stay) -> None:
        stay.key, stay.host = next(self._keys), self
        self.stays[stay.key] = stay
        self.send(Given(stay.key, stay.order))

    def send(self, word: Given | Halt | Kept | Ping) -> None:
        """With all else that is sent in this turn of the loop."""
        if not self._out and not self._unsent:
            self._loop.call_soon(self._flush)
        self._out.append(frame(word))

    def _flush(self) -> None:
        waiting = bool(self._unsent)
        data = self._unsent + b"".join(self._out)
        self._out.clear()
        if self._channel.fileno() < 0:
            return
        try:
            sent = self._channel.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            sent = len(data)  # it has died; that is about to be told
        self._unsent = data[sent:]
        if self._unsent and not waiting:
            self._loop.add_writer(self._channel, self._flush)
        elif waiting and not self._unsent:
            self._loop.remove_writer(self._channel)

    def ask(self) -> None:
        if self._asked is None:
            self._asked = self._loop.time()
            self.send(Ping())

    def silent_for(self) -> float:
        return 0.0 if self._asked is None else self._loop.time() - self._asked

    def _feel(self) -> None:
        self._pulse = self._loop.call_later(PULSE, self._feel)
        if self.silent_for() > HUNG:
            self.kill(f"its loop was blocked for {HUNG:g} s", known=False)
        elif self.stays:
            self.ask()

    def spare(self) -> None:
        """No others come here; when none is left, or only those that don't stop, it ends."""
        self.usable = False
        if all(stay.over is not None for stay in self.stays.values()):
            self.kill("nothing is left in it that stops by itself")

    def kill(self, why: str, known: bool = True) -> None:
        """`known`: whose doing it is. Those who were not told to stop are put back then, otherwise all have crashed."""
        self.usable = False
        if self._why is None:
            self._why, self._known = why, known
            self._template.kill(self._name)

    # -- from it -----------------------------------------------------------------------------------------------------
    def _hear(self) -> None:
        if (data := arrived(self._channel)) is None:
            return
        if not data:
            self.usable = False
            self._loop.remove_reader(self._channel)
            self._loop.call_later(HUNG_UP, self.kill, "it closed its channel to rota", False)
            return
        try:
            for word in self._frames.feed(data):
                self._understand(word)
        except Nonsense as nonsense:
            self._loop.remove_reader(self._channel)
            self.kill(f"it wrote nonsense into its channel to rota ({nonsense})", known=False)

    def _understand(self, word: Uttered | Progressed | Keep | Ended | Pong) -> None:
        if isinstance(word, Pong):
            self._asked = None
            if word.memory > self._memory:
                self.spare()
            return
        stay = self.stays.get(word.key)
        if stay is None:
            self._too_late(word)
            return
        match word:
            case Keep():
                self._keep(stay, word)
            case Ended():
                self._ended(stay, word)
            case Uttered():
                stay.attempt.sink.write(word.stream if word.stream in ("stdout", "stderr") else "log", word.body)
            case Progressed():
                with suppress(InvalidInput):  # it was held against the rules where it was told
                    stay.attempt.book.progress(word.told.fraction, word.told.text)

    def _too_late(self, word: Uttered | Progressed | Keep | Ended) -> None:
        """Its attempt is over; something that its function has started may talk on."""
        if isinstance(word, Ended):
            raise Nonsense("the end of nobody")
        if isinstance(word, Keep):
            self.send(Kept(word.number, STALE))

    def _keep(self, stay: Stay, word: Keep) -> None:
        def answer(saving: Future[None]) -> None:
            self._loop.call_soon_threadsafe(self.send, Kept(word.number, answer_to(saving)))

        stay.attempt.book.save(word.body).add_done_callback(answer)

    def _ended(self, stay: Stay, word: Ended) -> None:
        del self.stays[word.key]
        stay.attempt.usage = Usage(word.wall, isolation=("host",))
        stay.end(word.outcome)
        if not self.usable:
            self.spare()

    def _when_gone(self, gone: Gone) -> None:
        self.usable = False
        self._pulse.cancel()
        if self._channel.fileno() >= 0:
            self._hear()
            self._loop.remove_reader(self._channel)
            self._loop.remove_writer(self._channel)
            self._channel.close()
        self._pipes.close()
        stays, self.stays = list(self.stays.values()), {}
        for stay in stays:
            if self._known:
                stay.end(Interrupted(f"the process that it shared was killed: {self._why}"))
            else:
                stay.end(Crashed(Problem("rota.ExecutorCrashed", gone.epitaph(self._why))))
        self._lost(self)


class Hosts:
    """The host that is in use, and those that are on their way out."""

    def __init__(self, largest: int, memory: int, grace: float, drain: Drain, stray: Callable[[bytes], None]) -> None:
        self._largest, self._memory, self._grace, self._drain, self._stray = largest, memory, grace, drain, stray
        self._template: ForkServerClient | None = None
        self._host: HostClient | None = None
        self._waiting: list[Stay] = []

    async def run(self, attempt: Attempt, order: Order) -> Outcome:
        stay = Stay(attempt, order, self._grace)
        self._place(stay)
        attempt.on_stop(stay.stop)
        return await stay.future

    def _place(self, stay: Stay) -> None:
        if self._host is None or not self._host.usable:
            self._open()
        if self._host is not None and self._host.usable:
            self._host.add(stay)
        else:
            self._waiting.append(stay)

    def _open(self) -> None:
        if self._template is not None:
            try:
                self._host = HostClient(
                    self._template, self._largest, self._memory, self._drain, self._stray, self._when_lost
                )
            except OSError:  # no descriptors, or the nursery is busy or dead
                asyncio.get_running_loop().call_later(PULSE, self._retry)

    def _retry(self) -> None:
        waiting, self._waiting = self._waiting, []
        for stay in waiting:
            if not stay.future.done():
                self._place(stay)

    def _when_lost(self, host: HostClient) -> None:
        if host is self._host:
            self._host = None

    def serve(self, template: ForkServerClient) -> None:
        """From now on there is somebody to fork from."""
        self._template = template
        for stay in self._waiting:
            if stay.order.task in template.unable:
                stay.end(Interrupted(NO_PROCESS))  # the next attempt goes elsewhere
        self._open()
        self._retry()

    def drop(self) -> None:
        self._template = None

    def give_up(self, why: str) -> None:
        waiting, self._waiting = self._waiting, []
        for stay in waiting:
            stay.end(Interrupted(why))
