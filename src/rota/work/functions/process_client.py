"""The node's side of one pool process: a function process with room for one assignment at a time.

While functions are quick it is given a few orders ahead. These wait in a socket of their own, from which the node can
take them back: it has a copy of the far end, and an order belongs to the side that has received it.
"""

from __future__ import annotations

import socket
from collections import deque
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from rota.model.outcome import Crashed, Outcome, Problem, Usage
from rota.work.functions.assignment import Assignment
from rota.work.functions.client import FunctionProcess
from rota.work.functions.fork_server_client import ForkServerClient, Gone
from rota.work.functions.tally import Tally
from rota.work.functions.wire import HEAD, LARGEST_MESSAGE, CallEnd, Nonsense, OutputChunk, OutputRead, decode_order

if TYPE_CHECKING:
    from rota.work.functions.pool import Pool

LEAVING = 5.0  # seconds that a process has to end itself


class PoolProcess(FunctionProcess):
    """The first of its assignments runs, the others wait in its socket."""

    kind = "pool"

    def __init__(self, pool: Pool, fork_server: ForkServerClient) -> None:
        """Raises OSError if no socket or pipe can be made, or no message sent."""
        self.since = 0.0  # when the first began, or the last has ended
        self.born = self.over = self.served = False
        self._told = False  # to stop: it takes no other job
        self._ending: Outcome | None = None  # of its assignment; told once the process is gone
        self._large: deque[bytes] = deque()  # parts of an order that are not sent yet
        self._is_large = False  # the order that it has was sent in parts
        with ExitStack() as undo:
            self._orders, self._far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            undo.callback(self._orders.close)
            undo.callback(self._far.close)
            self._orders.setblocking(False)  # (not `_far`: the flag belongs to the open file, which the process shares)
            self._tally = Tally()
            undo.callback(self._tally.close)
            super().__init__(pool, fork_server, [self._far.fileno(), self._tally.fd], self._tally)
            undo.pop_all()

    @property
    def usable(self) -> bool:
        return self.born and not (self.over or self._told or self._why)

    # -- assignments -------------------------------------------------------------------------------------------------
    def add(self, assignment: Assignment) -> bool:
        """Sends an assignment; False if it could not be sent. A large order is sent only to an idle
        process, and nothing is sent behind it: a process that has received some of its messages can't give it back."""
        body = assignment.body
        if self.assignments and (self._is_large or len(body) > LARGEST_MESSAGE):
            return False
        self._is_large = len(body) > LARGEST_MESSAGE
        if self._is_large:
            self._large.extend(body[i : i + LARGEST_MESSAGE] for i in range(0, len(body), LARGEST_MESSAGE))
            self._loop.add_writer(self._orders, self._send_large)
        else:
            try:
                self._orders.send(body)
            except OSError:  # full, or it has just died
                return False
        self.assignments[assignment.key] = assignment
        assignment.runner = self
        if len(self.assignments) == 1:
            self._turn_to(assignment)
        return True

    def _turn_to(self, first: Assignment | None) -> None:
        self._pipes.belong_to(first.attempt.output if first is not None else None)
        self.since = self._loop.time()

    def _send_large(self) -> None:
        try:
            while self._large:
                self._orders.send(self._large[0])
                self._large.popleft()
        except BlockingIOError:
            return
        except OSError:
            self._large.clear()
        self._loop.remove_writer(self._orders)

    def recall(self) -> None:
        """Takes back orders that it has not begun."""
        back = self._untouched() if len(self.assignments) > 1 else []
        if back and not self.assignments:
            self._turn_to(None)
            self._pool.employ(self)
        self._pool.put_back(back)

    def give_up_on(self) -> None:
        """Takes its assignments back if it should have begun them long ago: other processes run them."""
        back = self._untouched()
        if back and not self.assignments:
            self.kill("it did not begin")
        self._pool.put_back(back)

    def _untouched(self) -> list[Assignment]:
        back: list[Assignment] = []
        with suppress(OSError):
            while self.assignments and not self._large:
                if not (data := self._far.recv(LARGEST_MESSAGE, socket.MSG_DONTWAIT)):
                    break
                # The order that was received here: meanwhile the process may receive the ones behind it.
                key = next(iter(self.assignments)) if self._is_large else decode_order(data[HEAD:]).key
                back.append(self.assignments.pop(key))
                back[-1].runner = None
        return back

    def _running(self, key: int) -> Assignment | None:
        """Orders behind the first have not begun, and nothing may be told or saved for them."""
        first = next(iter(self.assignments.values()), None)
        return first if first is not None and first.key == key else None

    def single_out(self) -> None:
        """Leaves only the running assignment: a process receives an order only after it has reported the end of the one
        before."""
        self.recall()
        self._listen()

    def stop(self, assignment: Assignment, rude: bool) -> None:
        """The process counts signals: the first sets `ctx.cancelled`, the second raises the exception."""
        self._told = True
        self._fork_server.terminate(self._name)

    def end_of_grace(self, assignment: Assignment) -> None:
        self.kill("it did not stop when told")

    def kill(self, why: str, blameless: bool = False) -> None:
        if not self.over:
            super().kill(why)

    def retire(self) -> None:
        """Closes the channel of an idle process: it ends itself, or is ended."""
        self.over = True
        self._shut()
        self._loop.call_later(LEAVING, self._fork_server.end, self._name)

    # -- what it says ------------------------------------------------------------------------------------------------
    def _output(self, assignment: Assignment | None, chunk: OutputChunk) -> None:
        if assignment is None:
            self._pool.stray(chunk.body)
        else:
            self._pipes.log(chunk)

    def _ended(self, end: CallEnd) -> None:
        key = next(iter(self.assignments), None)
        if key != end.key or self._ending is not None:
            raise Nonsense("the end of nothing that runs here")
        assignment = self.assignments[end.key]
        assignment.attempt.usage = Usage(end.wall, end.cpu, end.memory, ("process",))
        if end.printed:
            self._pipes.drain()
        if end.litter or self._told:
            self._ending = end.outcome  # its attempt ends when nothing of the process is left
            self.kill("it is not used again")
            self.recall()
            return
        self.served = True
        del self.assignments[end.key]
        assignment.end(end.outcome)
        self._turn_to(next(iter(self.assignments.values()), None))
        if end.leaves:
            self._give_back()
            self.retire()
            self._pool.lost(self)
            return
        if end.printed:
            self.send(OutputRead())
            self._outbox.flush()  # it waits for this
        self._pool.done(self, end.wall)

    # -- its life ----------------------------------------------------------------------------------------------------
    def _when_born(self) -> None:
        if self._pool.says_started:
            self._limit_start()
        else:
            self._started()

    def _started(self) -> None:
        self.born = True
        self._pool.start_succeeded(self.kind)
        self.since = self._loop.time()
        self._pool.employ(self)

    def _when_gone(self, gone: Gone) -> None:
        self._listen()
        self.over = True
        if self.assignments:
            self._pipes.drain()
        self._pool.put_back(self._untouched())
        if self.assignments:
            first = self.assignments.pop(next(iter(self.assignments)))
            first.end(self._ending or Crashed(Problem("rota.ExecutorCrashed", gone.epitaph(self._why))))
            self._give_back()
        self._shut()
        self._pipes.close()
        self._tally.close()
        self._tell_failed_start(gone)
        self._pool.lost(self)

    def _give_back(self) -> None:
        back = list(self.assignments.values())
        self.assignments.clear()
        for assignment in back:
            assignment.runner = None
        self._pool.put_back(back)

    def _shut(self) -> None:
        super()._shut()
        if self._orders.fileno() >= 0:
            self._loop.remove_writer(self._orders)
            self._orders.close()
            self._far.close()
