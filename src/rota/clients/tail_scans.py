"""What a query for output says about the jobs that a scan of chunks has to look at."""

from __future__ import annotations

from rota.model.query.tree import All, Any, Condition, How, Term

NO_JOB = "00000000-0000-0000-0000-000000000000"  # in front of the id of every job


def tasks_in(condition: Condition) -> tuple[str, ...] | None:
    """Globs: each line that fits is of a task that fits one of them. None: nothing is said about tasks."""
    match condition:
        case Term("task", How.IS | How.LIKE, str(value)) if condition.how is How.LIKE or not set("*?") & set(value):
            return (value,)
        case Any(of):
            found = [tasks_in(one) for one in of]
            return None if None in found else tuple(task for some in found for task in some or ())
        case All(of):
            return next((tasks for one in of if (tasks := tasks_in(one)) is not None), None)
        case _:
            return None


def jobs_in(condition: Condition) -> tuple[str, ...] | None:
    """Ids: each line that fits is of one of these jobs. None: nothing is said, or only a part of an id."""
    match condition:
        case Term("id", How.IS, str(value)) if len(value) == len(NO_JOB):
            return (value,)
        case All(of):
            return next((jobs for one in of if (jobs := jobs_in(one)) is not None), None)
        case _:
            return None
