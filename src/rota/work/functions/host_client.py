"""The node's side of hosts: function processes with room for many assignments.

One host is in use. A ping once a second checks that its loop turns.
- It does not answer, and one of its assignments was told to stop a grace ago: it is killed. That attempt ends for the
  reason of its stop; its neighbours are put back, uncounted.
- It does not answer for long, or dies by itself: the culprit is unknown, so all its attempts have crashed. A job that
  has crashed before runs in a process of its own, which shows whether it is the culprit.
- An attempt ignores its stop while the loop turns: the host gets no more assignments, and is killed when only such
  attempts are left.
- It gets no assignments before its start hooks have run, and is killed if they take too long.
- It uses too much memory: the host gets no more assignments, and ends with its last one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.model.outcome import Crashed, Interrupted, Problem, Usage
from rota.work.functions.assignment import Assignment
from rota.work.functions.client import FunctionProcess
from rota.work.functions.fork_server_client import ForkServerClient, Gone
from rota.work.functions.wire import CallEnd, Nonsense, Ping, Pong, StopRequest

if TYPE_CHECKING:
    from rota.work.functions.pool import Pool

PULSE = 1.0  # seconds between two pings
HUNG = 30.0  # seconds without an answer until it is killed


class HostProcess(FunctionProcess):
    kind = "host"

    def __init__(self, pool: Pool, fork_server: ForkServerClient) -> None:
        """Raises OSError."""
        self.born = not pool.says_started
        super().__init__(pool, fork_server)
        self._spared = False
        self._asked: float | None = None  # when the open ping was sent
        self._pulse = self._loop.call_later(PULSE, self._feel)

    @property
    def usable(self) -> bool:
        return not (self._spared or self._why or self._deaf)

    def add(self, assignment: Assignment) -> None:
        assignment.runner = self
        self.assignments[assignment.key] = assignment
        self._outbox.put(assignment.body)

    def retire(self) -> None:
        """Closes the channel: it ends itself."""
        self._spared = True
        self._shut()

    # -- stopping ----------------------------------------------------------------------------------------------------
    def single_out(self) -> None:
        """Nothing to take back: all its assignments have begun."""

    def stop(self, assignment: Assignment, rude: bool) -> None:
        self.send(StopRequest(assignment.key, rude))
        self._ask()

    def end_of_grace(self, assignment: Assignment) -> None:
        if self._silent_for() >= assignment.grace * 0.9:
            self.kill("it did not stop when told, nor answer", blameless=True)
        elif self._why is None:
            assignment.give_up()
            self._spare()

    def _ask(self) -> None:
        if self._asked is None:
            self._asked = self._loop.time()
            self.send(Ping())

    def _pong(self, pong: Pong) -> None:
        self._asked = None
        if pong.memory > self._pool.memory:
            self._spare()

    def _silent_for(self) -> float:
        return 0.0 if self._asked is None else self._loop.time() - self._asked

    def _feel(self) -> None:
        self._pulse = self._loop.call_later(PULSE, self._feel)
        if self._silent_for() > HUNG:
            self.kill(f"its loop was blocked for {HUNG:g} s")
        elif self.assignments:
            self._ask()

    def _spare(self) -> None:
        """Gives it no more assignments. It ends when none is left, or only assignments that don't stop."""
        self._spared = True
        if all(one.over is not None for one in self.assignments.values()):
            self.kill("nothing is left in it that stops by itself", blameless=True)

    # -- its life ----------------------------------------------------------------------------------------------------
    def _ended(self, end: CallEnd) -> None:
        assignment = self.assignments.pop(end.key, None)
        if assignment is None:
            raise Nonsense("the end of nothing that runs here")
        assignment.attempt.usage = Usage(end.wall, isolation=("host",))
        assignment.end(end.outcome)
        if not self.usable:
            self._spare()

    def _when_born(self) -> None:
        if not self.born:
            self._limit_start()

    def _started(self) -> None:
        self.born = True
        self._pool.start_succeeded(self.kind)
        self._loop.call_soon(self._pool.fill_host)  # not at once: its death may be the reason that this is read

    def _when_gone(self, gone: Gone) -> None:
        self._pulse.cancel()
        self._listen()
        self._shut()
        self._pipes.close()
        self._tell_failed_start(gone)
        self._pool.host_lost(self)
        left, self.assignments = list(self.assignments.values()), {}
        for assignment in left:
            if self._blameless:
                assignment.end(Interrupted(f"the process that it shared was killed: {self._why}"))
            else:
                assignment.end(Crashed(Problem("rota.ExecutorCrashed", gone.epitaph(self._why))))
