"""What the end of a function means."""

from __future__ import annotations

import rota
from rota.model.outcome import Failed, Succeeded
from rota.work.functions.ending import judge, succeeded


def test_exceptions_are_judged_whatever_they_are() -> None:
    class Notes(Exception):
        @property
        def __notes__(self) -> list[str]:  # type: ignore[override]
            raise RuntimeError

    class Shy(rota.Cancel):
        def __str__(self) -> str:
            raise SystemExit

    for error in (Notes(), Shy()):
        assert isinstance(judge(error), Failed)


def test_a_result_that_can_not_be_kept_fails_for_good() -> None:
    assert succeeded(None, 10) == Succeeded()
    assert succeeded([1], 10) == Succeeded("[1]")
    for wrong in (object(), "x" * 100):
        outcome = succeeded(wrong, 10)
        assert isinstance(outcome, Failed)
        assert (outcome.problem.type, outcome.fatal) == ("rota.BadResult", True)
