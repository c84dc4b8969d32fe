"""The controller's side of one pool process: its channel, its output, and the attempt that runs in it."""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from rota.errors import InvalidInput
from rota.model.outcome import Crashed, Interrupted, Outcome, Problem, Usage
from rota.work.attempt import Attempt, Stop
from rota.work.functions.fork_server_client import ForkServerClient, Gone
from rota.work.functions.pipes import Pipes
from rota.work.functions.tally import Tally
from rota.work.functions.wire import (
    LARGEST_MESSAGE,
    READ,
    READ_SIZE,
    Done,
    Frames,
    Nonsense,
    Said,
    Save,
    Told,
    answer_to,
    arrived,
    decode_word,
)

if TYPE_CHECKING:
    from rota.work.functions.pool import Pool

# A process whose channel closes has nearly always died, which the nursery is about to tell; if not, it is killed.
HUNG_UP = 1.0
LEAVING = 5.0  # seconds that a process has to end itself


class Errand:
    """One attempt that waits for a process, or has one."""

    def __init__(self, attempt: Attempt, body: bytes, grace: float, place: tuple[int, int] = (0, 0)) -> None:
        self.attempt, self.body, self._grace = attempt, body, grace
        self.place = place  # among those that wait
        self.future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self.member: ProcessClient | None = None

    def stop(self, reason: Stop) -> None:
        """A word, an exception, the end. A lost lease leaves no time for manners."""
        if self.member is not None:
            self.member.single_out()
        if self.future.done():
            return
        member = self.member
        if member is None:
            self.end(Interrupted("stopped before it began"))  # the reason decides what becomes of it
        elif reason is Stop.LOST:
            member.kill("the node lost its lease")
        else:
            loop = asyncio.get_running_loop()
            member.terminate()
            loop.call_later(self._grace / 2, self._press, member.terminate)
            loop.call_later(self._grace, self._press, lambda: member.kill("it did not stop when told"))

    def _press(self, act: Callable[[], None]) -> None:
        if not self.future.done():
            act()

    def end(self, outcome: Outcome) -> None:
        if not self.future.done():
            self.future.set_result(outcome)


class ProcessClient:
    """One pool process. Orders that wait for their turn in its socket can be taken back: the controller has a copy of
    the far end."""

    def __init__(self, pool: Pool, template: ForkServerClient) -> None:
        """Raises OSError if there is no socket, pipe or message to be had."""
        self._pool, self.template = pool, template
        self._loop = asyncio.get_running_loop()
        self.errands: deque[Errand] = deque()  # the first runs
        self.since = 0.0  # when the first began, or the last has ended
        self.born = self.over = self.served = False
        self._why: str | None = None  # we killed it
        self._told = False  # to stop: it takes no other job
        self._ending: Outcome | None = None  # of its errand, once nothing is left of the process
        self._unsent: deque[bytes] = deque()
        self._frames = Frames(pool.largest_frame, decode_word)
        self._deaf = False  # it wrote nonsense
        with ExitStack() as undo:
            self._orders, self._far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._channel, theirs = socket.socketpair()
            for one in (self._orders, self._channel):
                undo.callback(one.close)
                one.setblocking(False)
            undo.callback(self._far.close)  # (blocking: that is a property of the end, not of a copy)
            far = os.dup(self._far.fileno())
            undo.callback(os.close, far)
            with theirs:
                self._tally = Tally()
                undo.callback(self._tally.close)
                self._pipes = Pipes(pool.drain, pool.stray, self._listen, self._tally)
                undo.callback(self._pipes.close)
                fds = [far, theirs.fileno(), *self._pipes.writers, self._tally.fd]
                self._name = template.fork(fds, self._when_born, self._when_gone)
            undo.pop_all()
        os.close(far)
        self._pipes.follow()
        self._loop.add_reader(self._channel, self._listen)

    @property
    def usable(self) -> bool:
        return self.born and not (self.over or self._told or self._why)

    # -- errands -----------------------------------------------------------------------------------------------------
    def add(self, errand: Errand) -> bool:
        """Whether it could be sent; one that is large only to a process that has nothing to do."""
        if len(errand.body) > LARGEST_MESSAGE:
            return not self.errands and self._add_large(errand)
        try:
            self._orders.send(errand.body)
        except OSError:  # full, or it has just died
            return False
        self._take_on(errand)
        return True

    def _take_on(self, errand: Errand) -> None:
        self.errands.append(errand)
        errand.member = self
        if len(self.errands) == 1:
            self._promote()

    def _promote(self) -> None:
        self._pipes.belong_to(self.errands[0].attempt.sink if self.errands else None)
        self.since = self._loop.time()

    def _add_large(self, errand: Errand) -> bool:
        self._take_on(errand)
        body = errand.body
        self._unsent.extend(body[i : i + LARGEST_MESSAGE] for i in range(0, len(body), LARGEST_MESSAGE))
        self._loop.add_writer(self._orders, self._send_on)
        return True

    def _send_on(self) -> None:
        try:
            while self._unsent:
                self._orders.send(self._unsent[0])
                self._unsent.popleft()
        except BlockingIOError:
            return
        except OSError:
            self._unsent.clear()
        self._loop.remove_writer(self._orders)

    def recall(self) -> None:
        """Takes back what it has not begun."""
        back = self._untouched() if len(self.errands) > 1 else []
        if back and not self.errands:
            self._promote()
            self._pool.free(self)
        self._pool.put_back(back)

    def give_up_on(self) -> None:
        """It should have begun long ago. If it hasn't, others do."""
        back = self._untouched()
        if back and not self.errands:
            self.kill("it did not begin")
        self._pool.put_back(back)

    def _untouched(self) -> list[Errand]:
        back: list[Errand] = []
        with suppress(OSError):
            while self.errands and not self._unsent and self._far.recv(LARGEST_MESSAGE, socket.MSG_DONTWAIT):
                back.append(self.errands.pop())
                back[-1].member = None
        return back

    def single_out(self) -> None:
        """Afterwards there is only the one that runs: what runs has been received, and it is only received after the
        end of those before it was told."""
        self.recall()
        self._listen()

    def terminate(self) -> None:
        self._told = True
        self.template.terminate(self._name)

    def kill(self, why: str) -> None:
        if not self.over and self._why is None:
            self._why = why
            self.template.kill(self._name)

    def retire(self) -> None:
        """Hang up on one that has nothing to do: it ends itself, or is ended."""
        self.over = True
        self._shut()
        self._loop.call_later(LEAVING, self.template.end, self._name)

    # -- what it says ------------------------------------------------------------------------------------------------
    def _listen(self) -> None:
        """All there is."""
        while self._channel.fileno() >= 0 and not self._deaf:
            if (data := arrived(self._channel)) is None:
                return
            if not data:
                self._loop.remove_reader(self._channel)
                self._loop.call_later(HUNG_UP, self.kill, "it closed its channel to rota")
                return
            try:
                for word in self._frames.feed(data):
                    self._understand(word)
            except Nonsense as nonsense:
                self._loop.remove_reader(self._channel)
                self._deaf = True  # what comes after it can't be trusted either
                self.kill(f"it wrote nonsense into its channel to rota ({nonsense})")
                return
            if len(data) < READ_SIZE:
                return

    def _understand(self, word: Said | Told | Save | Done) -> None:
        match word:
            case Said():
                self._pipes.said(word)
            case Told() if self.errands:
                with suppress(InvalidInput):  # it was held against the rules where it was told
                    self.errands[0].attempt.book.progress(word.fraction, word.text)
            case Save() if self.errands:
                saving = self.errands[0].attempt.book.save(word.body)
                saving.add_done_callback(lambda done: self._loop.call_soon_threadsafe(self._answer, done))
            case Done() if self.errands and self._ending is None:
                self._done(word)
            case _:
                raise Nonsense("of nothing that runs here")

    def _answer(self, saving: Future[None]) -> None:
        with suppress(OSError):  # it is gone
            self._channel.send(answer_to(saving))

    def _done(self, word: Done) -> None:
        errand = self.errands[0]
        errand.attempt.usage = Usage(word.wall, word.cpu, word.memory, ("process",))
        if word.spoke:
            self._pipes.drain()
        if word.litter or self._told:
            self._ending = word.outcome  # its attempt ends when nothing of it is left
            self.kill("it is not used again")
            self.recall()
            return
        self.served = True
        self.errands.popleft()
        errand.end(word.outcome)
        self._promote()
        if word.leaves:
            self._give_back()
            self.retire()
            self._pool.lost(self)
            return
        if word.spoke:
            with suppress(OSError):
                self._channel.send(READ)
        self._pool.done(self, word.wall)

    # -- its life ----------------------------------------------------------------------------------------------------
    def _when_born(self) -> None:
        self.born = True
        self.since = self._loop.time()
        self._pool.free(self)

    def _when_gone(self, gone: Gone) -> None:
        self._listen()
        self.over = True
        if self.errands:
            self._pipes.drain()
        self._pool.put_back(self._untouched())
        if self.errands:
            self.errands.popleft().end(
                self._ending or Crashed(Problem("rota.ExecutorCrashed", gone.epitaph(self._why)))
            )
            self._give_back()
        self._shut()
        self._pipes.close()
        self._tally.close()
        self._pool.lost(self)

    def _give_back(self) -> None:
        back = list(self.errands)
        self.errands.clear()
        for errand in back:
            errand.member = None
        self._pool.put_back(back)

    def _shut(self) -> None:
        for one in (self._channel, self._orders, self._far):
            if one.fileno() >= 0:
                self._loop.remove_reader(one)
                self._loop.remove_writer(one)
                one.close()
