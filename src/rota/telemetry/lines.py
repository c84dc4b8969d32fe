"""All log sentences of a node."""

from __future__ import annotations

import queue
import shlex
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol, TextIO

import msgspec

from rota.clock import Clock
from rota.errors import place_in
from rota.model.outcome import Problem
from rota.model.times import Instant, iso, short
from rota.telemetry import events
from rota.telemetry.events import Event, Subscriber

# Names in one line.
FEW = 10


def sentence(event: Event) -> tuple[str, str] | None:
    """(level, text), or None for events without a line."""
    match event:
        case events.NodeStarted(id, roles, queues, store, tasks):
            slots = ", ".join(f"{queue}:{count}" for queue, count in queues.items()) or "none"
            return "info", f"node {id} is up: {', '.join(roles)}; queues {slots}; {tasks} functions; store {store}"
        case events.NodeStopping(running, grace):
            return "info", f"stopping: {running} running jobs have {grace:g}s to finish (signal again to hurry)"
        case events.NodeHurried(running):
            return "warning", f"stopping now: {running} running jobs are interrupted and handed back"
        case events.NodeStopped(id):
            return "info", f"node {id} has stopped"
        case events.LeaseLost(id, why):
            return "error", f"node {id} lost its lease ({why}); its attempts were stopped, it joins again"
        case events.NodeDied(id, why, jobs):
            return "warning", f"node {id} is dead ({why}); {jobs} jobs were taken over"
        case events.JobsRescued(jobs):
            return "warning", f"{jobs} running jobs had no living node and were moved on"
        case events.UnofferedSetAside(task, jobs, grace):
            what = f"{jobs} jobs of task {task} were" if jobs != 1 else f"a job of task {task} was"
            return "error", f"{what} set aside: no node has offered that task for {short(grace)}"
        case events.ScheduleSetAside(owner, name, why):
            return "error", f"schedule {name} of {owner} was set aside and won't fire: {why}"
        case events.ScheduleDeclared(owner, name, app, module, how):
            return "info", _declared(f"schedule {name} of {owner}", f"app {app}", module or "an unknown module", how)
        case events.SchedulesUndeclared(owner, app, names, why):
            return (
                "warning",
                f"app {app} does not declare these of {owner} here, and they stay: {_undeclared(names, why)}",
            )
        case events.AttemptStarted(job, task, number):
            return "debug", f"job {job} {task}: attempt {number} started"
        case events.AttemptEnded(job, task, number, outcome, reason, goes_on, error):
            reason = reason if error is None else _problem(error)
            more = "; will be tried again" if goes_on else ""
            level = "debug" if outcome == "succeeded" else "info" if goes_on or outcome == "cancelled" else "warning"
            return level, f"job {job} {task}: attempt {number} {outcome}" + (f": {reason}" if reason else "") + more
        case events.AttemptStale(job, fence):
            return (
                "warning",
                f"job {job}: attempt with fence {fence} was refused; the job belongs to another attempt by now",
            )
        case events.AttemptStuck(job, task):
            return "error", f"job {job} {task}: its function does not stop; its slot stays taken until it does"
        case events.TasksInThreads(tasks, why):
            return "warning", f"functions that run inside of the node's own process ({', '.join(tasks)}): {why}"
        case events.PoolFailed(error, pause):
            return "error", f"{error}; a new one is started" + (f" in {pause:g}s" if pause else "")
        case events.PoolSaid(text):
            return "debug", f"a process without a job wrote: {text}"
        case events.HookFailed(error):
            return "error", error
        case events.MigrationWaits(line):
            return "warning", f"the migration of the store {line}"
        case events.SpoolFailed(error):
            return "warning", f"output is not spooled for now, so the death of this node would lose some: {error}"
        case events.OutputRecovered(attempts, size):
            return (
                "info",
                f"recovered {size:,} bytes of output of {attempts} attempts from the spool of a dead node",
            )
        case events.OutputAside(folder, why):
            return "error", f"output in the spool of a dead node was put aside in {folder}: {why}"
        case events.ServiceFailed(service, error):
            return "error", f"{service} failed and will try again: {error}"
        case events.StoreSaid(line):
            return "warning", line
        case events.ServiceStuck(service, seconds):
            return "error", f"{service} hung for {seconds:g}s, was cancelled and will try again"
        case events.LoopBlocked(seconds):
            return "error", f"the node's loop has been blocked for {seconds:g}s: what its threads do follows"
        case events.LinesDropped(missing):
            return (
                "warning",
                f"lines are missing here: {missing} events were dropped, because this log was not written in time",
            )
        case events.ApiServing(url):
            return "info", f"the HTTP API listens at {url}"
        case events.ApiNotServed(port):
            return "info", f"no HTTP API: port {port} is taken (--port 0 picks another)"
        case events.CertificateChanged(trouble):
            if trouble is None:
                return "info", "the new certificate of the HTTP API is in use"
            return "error", f"the changed certificate of the HTTP API can't be used, the former one stays: {trouble}"
        case events.RequestFailed(incident, method, path, trace):
            return "error", f"{method} {path} failed, incident {incident}: {trace.strip().splitlines()[-1]}"
        case events.NodeGaveUp(id, why):
            return "error", f"node {id} gives up: {why}; it ends now, and others take over"
        case _:
            return None


def _problem(error: Problem) -> str:
    """Class, message and place."""
    place = f" ({where})" if (where := place_in(error.trace)) else ""
    return f"{error.type.removeprefix('builtins.')}: {error.message}{place}"


def _declared(schedule: str, app: str, module: str, how: str) -> str:
    match how:
        case "removed":
            return f"{schedule} was removed: {app} declares it no more in {module}"
        case "moved":
            return f"{schedule} is now declared in {module} of {app}"
        case "back":
            return f"{schedule} is declared again in {module} of {app}"
        case _:
            return f"{schedule} was {how}: {app} declares it in {module}"


def _undeclared(names: Sequence[str], why: str) -> str:
    if len(names) > FEW:
        return f"{', '.join(names[:FEW])} and {len(names) - FEW} more ({why}); `rota schedule list` shows them all"
    return f"{', '.join(names)} ({why}); if they are gone for good, `rota schedule remove {shlex.join(names)}`"


_LEVELS = {"debug": 0, "info": 1, "warning": 2, "error": 3}


class Lines:
    """A subscriber that writes lines to a stream."""

    def __init__(self, clock: Clock, level: str = "info", stream: TextIO | None = None) -> None:
        self._clock, self._least, self._stream = clock, _LEVELS[level], stream or sys.stderr

    def __call__(self, event: Event) -> None:
        said = sentence(event)
        if said is None or _LEVELS[said[0]] < self._least:
            return
        level, text = said
        lines = [f"{iso(self._clock.now())[:23]}Z {level:7} {_printable(text)}"]
        lines += [f"    {_printable(line)}" for line in self._trace(event).splitlines()]
        print("\n".join(lines), file=self._stream, flush=True)

    def _trace(self, event: Event) -> str:
        """Errors of jobs are shown in full on request only; those of rota itself always."""
        match event:
            case events.RequestFailed():
                return event.trace
            case events.AttemptEnded() if self._least == 0 and event.error is not None:
                return event.error.trace or ""
            case _:
                return ""


def _printable(text: str) -> str:
    """Lines contain texts of jobs: newlines and control characters must not reach the terminal."""
    return "".join(c if c.isprintable() else " " for c in text)


class LineStream(Protocol):
    def write(self, text: str, /) -> object: ...

    def flush(self) -> None: ...


class JsonLines:
    """A subscriber that writes every event as one JSON object per line: `time`, `level`, `event` and `message`, then
    the fields of the event."""

    def __init__(self, clock: Clock, stream: LineStream | None = None) -> None:
        self._clock, self._stream = clock, stream or sys.stdout

    def __call__(self, event: Event) -> None:
        level, text = sentence(event) or ("debug", "")
        line = json_text(self._clock.now(), level, type(event).__name__, text, msgspec.to_builtins(event))
        self._stream.write(line + "\n")  # at once: other threads write lines, too
        self._stream.flush()


def json_text(at: Instant, level: str, event: str, message: str, fields: dict[str, Any]) -> str:
    head = {"time": iso(at), "level": level, "event": event, "message": message}
    return msgspec.json.encode(head | fields).decode()


class Background:
    """Passes events on in a thread of its own: a log without a reader, or a slow disk, must not block the node.

    Events that don't fit into the queue are dropped, and counted: `LinesDropped` follows when half of it is free again.
    """

    def __init__(self, subscriber: Subscriber, size: int = 10_000) -> None:
        self._subscriber = subscriber
        self._queue: queue.Queue[Event | None] = queue.Queue(size)
        self._dropped = 0
        self._counting = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="rota-lines", daemon=True)
        self._thread.start()

    def __call__(self, event: Event) -> None:
        try:
            self._queue.put_nowait(event)
        except queue.Full:
            with self._counting:
                self._dropped += 1

    def _run(self) -> None:
        while (event := self._queue.get()) is not None:
            self._pass_on(event)
            if self._dropped and self._queue.qsize() <= self._queue.maxsize // 2:
                self._tell_dropped()

    def _tell_dropped(self) -> None:
        with self._counting:
            dropped, self._dropped = self._dropped, 0
        self._pass_on(events.LinesDropped(dropped))

    def _pass_on(self, event: Event) -> None:
        with suppress(Exception):  # go on after a write to a closed terminal
            self._subscriber(event)

    def close(self, within: float = 1.0) -> None:
        """Waits a moment for the remaining events."""
        with suppress(queue.Full):
            self._queue.put_nowait(None)
        self._thread.join(within)
