"""Every error survives the way between processes."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import timedelta
from multiprocessing import get_context

import pytest

from rota import errors, signals
from rota.tasks.modules import ImportFailed

MADE: list[BaseException] = [
    errors.InvalidInput("age", -1, "a number from 0"),
    errors.UnknownTask("mail", "this app has none"),
    errors.InvalidQuery("stat:x", 1, "no such field"),
    errors.NotSerialisable("result", "a set", "JSON"),
    errors.TooLarge("arguments", 12, 10),
    errors.InvalidArguments("mail", "'x' is missing", ["x"]),
    ImportFailed("include", "no such module"),
    errors.KeyConflict("k", "7"),
    errors.IdempotencyKeyReused(),
    errors.RepeatInFlight(),
    errors.AnswerNotKept("it was too large"),
    errors.NotFound("job", "7"),
    errors.NotAllowed("ada", "pause queues"),
    errors.QuotaExceeded("ada", "waiting", 9, "10", 2),
    errors.ChangedMeanwhile("calendar", "holidays"),
    errors.IllegalEvent("failed", "start"),
    errors.JobFailed("7", "failed", "boom", "builtins.ValueError", 'File "a.py", line 3, in f\n'),
    errors.ResultMismatch("mail", "7", "no int"),
    errors.WaitTimeout("7", "running"),
    errors.LockTaken("report", timedelta(seconds=12)),
    errors.LockLost("report", "it has expired"),
    errors.Stale(),
    errors.NotFaked("GET /", "http", "allow_http"),
    errors.StoreError("refused"),
    errors.StoreUnavailable("locked"),
    errors.StoreFull("full"),
    errors.StoreReadOnly("read-only"),
    errors.StoreDenied("denied"),
    errors.WrongVersion("0.1.0", "0.9.0", "http://localhost:8787"),
    errors.SchemaTooNew(2, 1),
    errors.SchemaMissing(0, 1),
    signals.Fatal("no use", 3),
    signals.Cancel(),
    signals.RetryAfter("1m"),
    signals.Snooze(60, "later"),
]


def _kinds(base: type[BaseException]) -> Iterator[type[BaseException]]:
    for kind in base.__subclasses__():
        yield kind
        yield from _kinds(kind)


def test_all_errors_are_among_these() -> None:
    known = {kind for base in (errors.RotaError, signals.TaskSignal) for kind in _kinds(base)}
    ours = {kind for kind in known if kind.__module__ in (errors.__name__, signals.__name__)}
    assert {kind for kind in ours if not kind.__name__.startswith("_")} <= {type(one) for one in MADE}


@pytest.mark.parametrize("error", MADE, ids=lambda error: type(error).__name__)
def test_an_error_arrives_with_its_type_message_and_fields(error: BaseException) -> None:
    error.add_note("seen")
    arrived = pickle.loads(pickle.dumps(error))
    assert type(arrived) is type(error)
    assert (str(arrived), arrived.args, vars(arrived)) == (str(error), error.args, vars(error))


def test_a_value_that_can_t_travel_arrives_as_text() -> None:
    lock = threading.Lock()
    error = errors.InvalidInput("lock", lock, "a number")
    assert error.given is lock
    arrived = pickle.loads(pickle.dumps(error))
    assert (arrived.given, str(arrived)) == (repr(lock), str(error))


def fail() -> None:
    raise errors.WaitTimeout("7", "running")


def test_a_pool_of_processes_hands_it_on() -> None:
    with ProcessPoolExecutor(1, get_context("spawn")) as pool, pytest.raises(errors.WaitTimeout) as caught:
        pool.submit(fail).result(60)
    assert (caught.value.job_id, caught.value.state) == ("7", "running")
