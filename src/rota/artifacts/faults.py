"""Errors about programs: what the user must change, and what a node could not do."""

from __future__ import annotations

from rota.errors import InvalidInput, RotaError


class InvalidProgram(InvalidInput):
    """A program, an archive or one of its files can't be taken; `right` says what would be."""

    def __init__(self, what: str, problem: str, right: str) -> None:
        super().__init__(what, problem, right)
        self.problem, self.right = problem, right
        self.args = (f"{what}: {problem}; {right}",)


class NotPrepared(RotaError):
    """A node could not prepare a program or an environment. `passing`: trying again later may help."""

    def __init__(self, what: str, problem: str, right: str, passing: bool = True) -> None:
        self.what, self.problem, self.right, self.passing = what, problem, right, passing
        super().__init__(f"{what}: {problem}; {right}")
