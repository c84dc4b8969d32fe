"""Routes for people and other languages, a module for each noun."""

from __future__ import annotations

from rota.api.resources import (
    calendars,
    completions,
    dead,
    events,
    gates,
    job_changes,
    jobs,
    limits,
    locks,
    log_search,
    log_tail,
    nodes,
    orders,
    people,
    queues,
    schedules,
    stats,
    waits,
    workflows,
)

ROUTES = (
    orders.ROUTES, jobs.ROUTES, job_changes.ROUTES, dead.ROUTES, workflows.ROUTES, schedules.ROUTES, calendars.ROUTES,
    gates.ROUTES, limits.ROUTES, queues.ROUTES, locks.ROUTES, nodes.ROUTES, nodes.TASKS, events.ROUTES, waits.ROUTES,
    stats.ROUTES, people.ROUTES, log_search.ROUTES, log_tail.ROUTES, completions.ROUTES,
)  # fmt: skip
