"""One attempt at one job: execute it, judge its end, keep its output, settle. One write ends it.

An executor runs the work and returns an `Outcome`. `stop` asks the attempt to end early. The first reason counts,
and from then on the reason decides the outcome: work that was told to stop may end in any way it likes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from functools import lru_cache
from typing import Protocol

import msgspec

from rota.batching import Batcher
from rota.clock import Chance, Clock
from rota.errors import RotaError, StoreError
from rota.logs.capture import OutputWriter
from rota.logs.masking import MaskedOutput
from rota.logs.shipper import Shipper, Sink
from rota.model import outcome as model
from rota.model import secrets
from rota.model.graph import ParentInfo
from rota.model.job import NO_RETRY, Claimed, Verdict
from rota.model.lifecycle import JobEvent
from rota.model.outcome import CrashRule, Outcome, Problem, Settlement, Usage
from rota.model.retry import Retry
from rota.model.secrets import Mask
from rota.model.times import SECOND, short
from rota.refusals import Refusals
from rota.telemetry.complaints import Complaints
from rota.telemetry.events import AttemptEnded, AttemptStale, AttemptStarted, AttemptStuck, Bus
from rota.work.progress import ProgressBook

PAUSE_AFTER_ERROR = 0.2
_GOES_ON = (JobEvent.RETRY, JobEvent.SNOOZE, JobEvent.INTERRUPT, JobEvent.RECOVER, JobEvent.BACK_OFF)
TOO_LATE = "it could not start soon enough for its rate"


class Stop(StrEnum):
    CANCEL = "cancelled"
    TIMEOUT = "timed out"
    INTERRUPT = "the node is stopping"
    LOST = "the node lost its lease"


class Stuck(Exception):
    """Raised by an executor whose work was told to stop, got its grace, and still runs; `over` is set when it ends."""

    def __init__(self, over: asyncio.Event) -> None:
        self.over = over


class Executor(Protocol):
    async def execute(self, attempt: Attempt) -> Outcome:
        """Runs the work to its end. Raises RotaError if the order makes no sense, and nothing else."""


AskParents = Callable[[str], Awaitable[Sequence[ParentInfo]]]


class Attempt:
    def __init__(
        self, claimed: Claimed, sink: Sink, book: ProgressBook, clock: Clock, ask_parents: AskParents | None = None
    ) -> None:
        self.claimed, self.sink, self.book, self._clock, self._ask_parents = claimed, sink, book, clock, ask_parents
        self.secrets = secrets.declared(claimed.spec)  # names; a task may declare more
        self.output: OutputWriter = sink  # where its work writes
        self.mask: Mask | None = None  # None: it has no secrets and will learn none
        self.usage: Usage | None = None  # resources that it used, if its executor can tell
        self.stopped: Stop | None = None
        self.why = ""
        self.start_by: float | None = None  # in seconds of the node's clock: later its rate would not hold
        self.over: asyncio.Event | None = None  # set when work that did not stop ends
        self.settling = False  # its work is over; only its last writes are left
        self._on_stop: Callable[[Stop], None] | None = None

    def conceal(self, values: Iterable[str]) -> None:
        """Masks these values from now on. Before the work begins it must be called if the work may learn secrets: it
        keeps the writer that it is given."""
        if self.mask is None:
            self.mask = self.book.mask = Mask()
            self.output = MaskedOutput(self.sink, self.mask)
        self.mask.add(values)

    def conceal_named(self, *places: Mapping[str, object]) -> None:
        """Masks the values of its declared secrets in these places."""
        if self.secrets:
            self.conceal(value for place in places for value in secrets.values_of(place, self.secrets))

    def end_output(self) -> None:
        """What was held back, because it might have been the beginning of a secret, was none."""
        if isinstance(self.output, MaskedOutput):
            self.output.end()

    def too_late(self) -> bool:
        """Whether a start now would break its rate. Asked right where the work begins, since getting there may take
        long."""
        return self.start_by is not None and self._clock.monotonic() > self.start_by

    def stop(self, reason: Stop, why: str = "") -> None:
        # A lost lease outweighs every other reason: the attempt may write nothing any more.
        if self.stopped is None or (reason is Stop.LOST and self.stopped is not Stop.LOST):
            self.stopped, self.why = reason, why
            if reason is Stop.LOST:
                self.book.lose()
            if self._on_stop:
                self._on_stop(reason)

    async def parents(self) -> Sequence[ParentInfo]:
        """The jobs it was ordered after. Retries while the store is unavailable: that is no fault of the attempt."""
        while self.claimed.parents and self._ask_parents is not None and self.stopped is None:
            try:
                return await self._ask_parents(self.claimed.job_id)
            except StoreError:
                await asyncio.sleep(PAUSE_AFTER_ERROR)
        return ()

    def on_stop(self, act: Callable[[Stop], None]) -> None:
        """Registers the executor's callback for a stop; it is called at once if a stop was requested already."""
        self._on_stop = act
        if self.stopped is not None:
            act(self.stopped)


class Pipeline:
    """The steps of an attempt, with the means for them."""

    def __init__(
        self,
        executors: dict[str, Executor],
        shipper: Shipper,
        finishes: Batcher[Settlement, Verdict],
        bus: Bus,
        chance: Chance,
        rule: CrashRule = CrashRule(),  # noqa: B008 - a value
    ) -> None:
        self._executors, self._shipper, self._finishes = executors, shipper, finishes
        self._bus, self._chance, self._rule = bus, chance, rule
        self._complaints = Complaints(bus, "writing of ends")

    @property
    def ending(self) -> bool:
        """Last writes are on their way."""
        return self._finishes.busy

    async def run(self, attempt: Attempt) -> None:
        """Takes the attempt to its end. Its work may still go on if it could not be stopped: see `attempt.over`."""
        if self._bus.hears_every_attempt:
            claimed = attempt.claimed
            self._bus.emit(AttemptStarted(claimed.job_id, claimed.task, claimed.number))
        timer = _timer(attempt)
        try:
            result = await self._execute(attempt)
        except Stuck as stuck:
            attempt.over, result = stuck.over, None
            self._bus.emit(AttemptStuck(attempt.claimed.job_id, attempt.claimed.task))
        finally:
            if timer is not None:
                timer.cancel()
        outcome = _judge(attempt, result)
        if attempt.mask is not None and outcome is not None:
            outcome = _without_secrets(outcome, attempt.mask)
        if outcome is not None:
            attempt.settling = True
            await self._settle(attempt, outcome)
        elif attempt.over is None:
            attempt.end_output()
            attempt.sink.close()

    async def _execute(self, attempt: Attempt) -> Outcome:
        if attempt.too_late():
            return model.Interrupted(TOO_LATE)
        executor = self._executors.get(attempt.claimed.kind)
        if executor is None:
            return model.SetAside(Problem("rota.UnknownKind", f"no executor for kind {attempt.claimed.kind!r}"))
        try:
            return await executor.execute(attempt)
        except RotaError as error:
            return model.SetAside(Problem(f"rota.{type(error).__name__}", str(error)))
        except Stuck:
            raise
        except Exception as error:  # no pipe, no thread, ...: a problem of the node, perhaps a passing one
            return model.Failed(Problem("rota.ExecutorError", f"{type(error).__name__}: {error}"))

    async def _settle(self, attempt: Attempt, outcome: Outcome) -> None:
        claimed = attempt.claimed
        attempt.end_output()
        if attempt.sink.written:
            await self._shipper.close(attempt.sink)
        await attempt.book.flush()
        chance = self._chance.random()
        settlement = model.settle(
            claimed.job_id, claimed.fence, _retry(claimed.retry), claimed.failures, outcome, chance,
            claimed.crashes, self._rule,
        )  # fmt: skip
        saved = claimed.state is not None or attempt.book.saved
        if attempt.usage is not None or saved:
            settlement = msgspec.structs.replace(settlement, usage=attempt.usage, saved=saved)
        verdict, settlement = await self._finish(attempt, settlement)
        if verdict is Verdict.STALE:
            self._bus.emit(AttemptStale(claimed.job_id, claimed.fence))
        elif self._bus.hears_every_attempt or settlement.event is not JobEvent.SUCCEED:
            goes_on = settlement.event in _GOES_ON
            ending, reason, error = settlement.ending.value, settlement.reason, settlement.error
            self._bus.emit(AttemptEnded(claimed.job_id, claimed.task, claimed.number, ending, reason, goes_on, error))

    async def _finish(self, attempt: Attempt, settlement: Settlement) -> tuple[Verdict, Settlement]:
        """Retries while the lease lasts: the end must not be lost, whatever is wrong with the store. Also returns the
        settlement that was written: a replacement, if the store can't hold the values of the original."""
        refusals = Refusals()
        while True:
            try:
                return await self._finishes.put(settlement), settlement
            except Exception as error:
                if attempt.stopped is Stop.LOST:
                    return Verdict.STALE, settlement
                self._complaints.tell(error)
                if refusals.hopeless(error):
                    # If the store refuses the replacement too, the values are not the cause: go on with the original.
                    with suppress(Exception):
                        instead = _unwritable(settlement, error)
                        return await self._finishes.put(instead), instead
                await asyncio.sleep(refusals.pause)


def weight(settlement: Settlement) -> int:
    """The weight of a settlement in a batch, in settlements of ordinary size."""
    return 1 + len(settlement.result or "") // 4096


def _unwritable(settlement: Settlement, error: Exception) -> Settlement:
    """The replacement for a settlement whose values the store can't hold: the job is set aside, so that it does not
    stay running."""
    problem = Problem("rota.Unwritable", f"its end could not be written: {error}")
    return model.settle(settlement.job_id, settlement.fence, NO_RETRY, 0, model.SetAside(problem), 0.0)


def _timer(attempt: Attempt) -> asyncio.TimerHandle | None:
    limit = attempt.claimed.timeout
    if limit is None:
        return None
    return asyncio.get_running_loop().call_later(limit / SECOND, attempt.stop, Stop.TIMEOUT, f"after {short(limit)}")


def _without_secrets(outcome: Outcome, mask: Mask) -> Outcome:
    """What the attempt may say about its end. Errors, results and reasons may hold secrets."""
    match outcome:
        case model.Succeeded(result):
            return msgspec.structs.replace(outcome, result=mask.json(result))
        case model.Snoozed(_, text):
            return msgspec.structs.replace(outcome, message=mask.cut_text(text, model.CUT_MARK))
        case model.Cancelled(text) | model.Interrupted(text):
            return msgspec.structs.replace(outcome, reason=mask.cut_text(text, model.CUT_MARK))
        case model.Failed(problem) | model.TimedOut(problem) | model.SetAside(problem) | model.Crashed(problem):
            trace = None if problem.trace is None else mask.cut_text(problem.trace, model.CUT_MARK)
            told = Problem(mask.text(problem.type), mask.cut_text(problem.message, model.CUT_MARK), trace)
            return msgspec.structs.replace(outcome, problem=told)


def _judge(attempt: Attempt, result: Outcome | None) -> Outcome | None:
    """The outcome of the attempt; None if the node may no longer report one. `result` is None if the work still goes
    on."""
    code = getattr(result, "exit_code", None)
    match attempt.stopped:
        case None:
            return result
        case Stop.CANCEL:
            return model.Cancelled(attempt.why or "cancelled", code)
        case Stop.INTERRUPT:
            # Work that still goes on ends with this process: only the node's last write hands it back.
            return model.Interrupted("its node stopped", code) if result else None
        case Stop.TIMEOUT:
            text = f"timed out {attempt.why}"
            if result is None:
                text += "; it did not stop, so it is not tried again beside itself"
            return model.TimedOut(Problem("rota.Timeout", text), code, fatal=result is None)
        case Stop.LOST:
            return None


@lru_cache(maxsize=1024)  # jobs share a few policies
def _retry(text: str) -> Retry:
    """A policy that doesn't decode must not keep the attempt from being settled."""
    try:
        return msgspec.json.decode(text, type=Retry)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return NO_RETRY
