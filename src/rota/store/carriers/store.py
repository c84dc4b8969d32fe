"""The verbs that every store carries out by the same coroutines."""

from __future__ import annotations

from rota.model.principal import Principal
from rota.store.base import Store

# A trailing underscore distinguishes a module from the verb of the same name.
from rota.store.carriers import calendars as calendars_
from rota.store.carriers import gates as gates_
from rota.store.carriers import graph, log_retention, offers, orders, output, output_quotas, people, sealing, watches
from rota.store.carriers import hints as hints_
from rota.store.carriers import limits as limits_
from rota.store.carriers import locks as locks_
from rota.store.carriers import nodes as nodes_
from rota.store.carriers import queues as queues_
from rota.store.carriers import quotas as quotas_
from rota.store.carriers import reads as reads_
from rota.store.carriers import repeats as repeats_
from rota.store.carriers import schedules as schedules_
from rota.store.carriers import statistics as statistics_
from rota.store.verbs import reads, writes


class CarriedStore(Store):
    # -- orders ------------------------------------------------------------------------------------------------------
    cancel = writes(orders.cancel)
    hurry = writes(orders.hurry)
    reprioritise = writes(orders.reprioritise)

    # -- functions that nodes offer ----------------------------------------------------------------------------------
    offering = reads(offers.offering)
    unoffered = reads(offers.unoffered)
    set_aside_task = writes(offers.set_aside)
    tasks = reads(reads_.tasks)

    # -- nodes -------------------------------------------------------------------------------------------------------
    secret = writes(nodes_.secret)

    # -- gates, limits, queues ---------------------------------------------------------------------------------------
    close_gate = writes(gates_.close)
    open_gate = writes(gates_.open_)
    gates = reads(gates_.gates)
    set_limit = writes(limits_.set_limit)
    remove_limit = writes(limits_.remove_limit)
    limits = reads(limits_.limits)
    pause_queue = writes(queues_.pause)
    resume_queue = writes(queues_.resume)
    queues = reads(queues_.queues)
    set_step = writes(queues_.set_step)
    set_feedback = writes(queues_.set_feedback)
    flows = reads(queues_.flows)
    charge = writes(queues_.charge)
    waiting = reads(queues_.waiting)

    # -- schedules and calendars -------------------------------------------------------------------------------------
    put_schedule = writes(schedules_.put)
    pause_schedule = writes(schedules_.pause)
    resume_schedule = writes(schedules_.resume)
    remove_schedule = writes(schedules_.remove)
    undeclare_schedules = writes(schedules_.undeclare)
    coming_schedules = reads(schedules_.coming)
    set_aside_schedule = writes(schedules_.set_aside)
    put_calendar = writes(calendars_.put_calendar)
    remove_calendar = writes(calendars_.remove_calendar)
    calendars = reads(calendars_.calendars)
    schedules = reads(schedules_.schedules)
    fires = reads(schedules_.fires)

    # -- jobs that wait for others -----------------------------------------------------------------------------------
    parents = reads(graph.parents)
    workflows = reads(graph.workflows)
    workflow = reads(graph.workflow)
    resolve_workflow = reads(graph.resolve_workflow)

    # -- locks -------------------------------------------------------------------------------------------------------
    acquire_lock = writes(locks_.acquire)
    renew_lock = writes(locks_.renew)
    release_lock = writes(locks_.release)
    free_lock = writes(locks_.free)
    locks = reads(locks_.locks)

    # -- hot tier ----------------------------------------------------------------------------------------------------
    scheduled_jobs = reads(hints_.scheduled)
    due_times = reads(hints_.due_times)

    # -- users, keys, audit ------------------------------------------------------------------------------------------
    put_user = writes(people.put_user)
    remove_user = writes(people.remove_user)
    users = reads(people.users)
    quota_use = reads(quotas_.quota_use)
    add_key = writes(people.add_key)
    revoke_key = writes(people.revoke_key)
    rotate_key = writes(people.rotate_key)
    keys = reads(people.keys)
    grant_of = reads(people.grant_of)
    touch_keys = writes(people.touch_keys)
    add_first_key = writes(people.add_first_key)
    audit = reads(people.audit)

    # -- repeats of writes -------------------------------------------------------------------------------------------
    repeat_steps = reads(repeats_.steps)
    seal_repeat = writes(repeats_.seal)

    # As below: only the write of what was counted needs the write lock of SQLite.
    _count_output, _keep_output = reads(output_quotas.next_counts), writes(output_quotas.keep_counts)

    async def count_output(self, who: Principal, /) -> int:
        counts = await self._count_output(who)
        if counts:
            await self._keep_output(who, counts)
        return len(counts)

    # -- log store ---------------------------------------------------------------------------------------------------
    runs = reads(sealing.runs)
    read_runs = reads(sealing.read_runs)
    seal = writes(sealing.seal)
    purged_output = reads(sealing.purged_output)
    small_segments = reads(sealing.small_segments)
    set_segments_aside = writes(sealing.set_segments_aside)
    prune_output = writes(log_retention.prune_output)

    # -- reads -------------------------------------------------------------------------------------------------------
    output = reads(output.output)
    counts = reads(reads_.counts)
    events = reads(reads_.events)
    outbox_span = reads(reads_.outbox_span)

    _begin_watch, _settle_watch = writes(watches.begin), writes(watches.settle)

    async def watch(self, who: Principal, /) -> None:
        if await self._begin_watch(who):
            await self._outlast_writers()
            await self._settle_watch(who)

    async def _outlast_writers(self) -> None:
        """Waits for transactions that began before a watch. SQLite has one writer at a time."""

    # -- statistics --------------------------------------------------------------------------------------------------
    statistics = reads(statistics_.read)
    history = reads(statistics_.history)

    # Counting is a read: only the write of what was counted needs the write lock of SQLite.
    _next_step, _keep_step = reads(statistics_.next_step), writes(statistics_.keep_step)

    async def tally(self, who: Principal, /, limit: int) -> bool:
        step = await self._next_step(who, limit)
        return step is not None and await self._keep_step(who, step) and step.more
