"""The client for jobs of one user: orders, queries and waits. `App`, `Job` and the command line use it."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from typing import Protocol, TypeVar

import msgspec

from rota.batching import Batcher
from rota.clients.explain import explain
from rota.clock import Chance
from rota.errors import (
    InvalidInput,
    InvalidQuery,
    KeyConflict,
    NotFound,
    QuotaExceeded,
    StoreError,
    StoreUnavailable,
    WaitTimeout,
)
from rota.model.error_groups import ErrorGroup
from rota.model.job import JobInfo, NewJob, Submitted
from rota.model.lifecycle import TERMINAL, State
from rota.model.options import check_reason
from rota.model.principal import Principal
from rota.model.query.normal import leaves
from rota.model.query.tree import EVERYTHING, Condition, Text
from rota.model.rank import priority
from rota.model.task import TaskInfo
from rota.model.times import SECOND, Span, duration
from rota.store.base import Store
from rota.store.graph import WorkflowFilter
from rota.store.values import Answer, Cancelling, Chunk, Facets, JobCount, JobFilter, JobPage, Position, Topic
from rota.views.jobs import Explanation

T = TypeVar("T")
# One order is one write. These bounds, in jobs and in bytes of arguments, keep the write short.
LARGEST_ORDER = 1_000
HEAVIEST_ORDER = 4 << 20
LARGEST_GET = 100  # jobs of one query: each may have megabytes of arguments and results
POLL = 0.5
# Wake-ups closer together than this share one query.
PAUSE = 0.005
PAGE = 200
COUNT_EVERY = 1.0
PURGE_STEP = 5


def check_countable(where: Condition | None) -> None:
    """Groups are counted by the database, which can't tell where a word ends, knows no regular expressions, and does
    not mask secret arguments."""
    for leaf in leaves(where or EVERYTHING):
        if isinstance(leaf, Text):
            problem = "a list of groups takes conditions on fields only, such as error~refused"
            raise InvalidQuery(leaf.text, None, problem)
        if leaf.field == "args":
            raise InvalidQuery("args", None, "a list of groups takes no conditions on arguments")


class KnownTasks(Protocol):
    """The tasks of an app."""

    revision: int  # grows with each task

    def infos(self) -> Sequence[TaskInfo]: ...


class JobsClient:
    def __init__(self, store: Store, who: Principal, chance: Chance) -> None:
        self.store, self.who, self.chance = store, who, chance
        self._made_known = 0  # the revision of the app's tasks that the store was told
        self._batchers: weakref.WeakKeyDictionary[
            asyncio.AbstractEventLoop, dict[bool, Batcher[Sequence[NewJob], Answer]]
        ] = weakref.WeakKeyDictionary()
        self._gets: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[bool, Batcher[str, JobInfo | None]]] = (
            weakref.WeakKeyDictionary()
        )
        self._waits: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Waits] = weakref.WeakKeyDictionary()

    def job_ids(self, count: int) -> list[str]:
        return self.chance.job_ids(self.store.now(), count)

    async def make_known(self, tasks: KnownTasks) -> None:
        """Registers the app's tasks once: clients may be deployed before the nodes that offer them."""
        if (revision := tasks.revision) > self._made_known:
            await self.store.make_known(self.who, tasks.infos())
            self._made_known = revision

    async def submit(self, jobs: Sequence[NewJob]) -> list[Submitted]:
        """Accepts up to LARGEST_ORDER jobs together; more go in steps of that many. Concurrent calls share commits."""
        parts = list(_orders(jobs))
        if len(parts) > 1:
            return await self._submit_in_steps(parts, len(jobs))
        return await self._submit(parts[0]) if parts else []

    async def _submit_in_steps(self, parts: Sequence[Sequence[NewJob]], total: int) -> list[Submitted]:
        """Two steps at a time: while the store writes one, the next is prepared. After an error no more are begun."""
        answers: list[list[Submitted]] = [[] for _ in parts]
        failures: list[StoreError | KeyConflict | NotFound | QuotaExceeded] = []
        waiting = iter(enumerate(parts))

        async def carry() -> None:
            for place, part in waiting:
                try:
                    (answer,) = await self.store.submit(self.who, [part])
                    answers[place] = _accepted(answer)
                except (StoreError, KeyConflict, NotFound, QuotaExceeded) as error:
                    failures.append(error)
                if failures:
                    return

        await asyncio.gather(carry(), carry())
        if failures:
            if accepted := sum(map(len, answers)):
                failures[0].args = (f"{failures[0]} ({accepted} of {total} jobs were accepted)",)
            raise failures[0]
        return [one for answer in answers for one in answer]

    async def _submit(self, jobs: Sequence[NewJob]) -> list[Submitted]:
        # Orders with keys are a batch of their own: a key may have to wait for another transaction that uses it.
        plain = all(job.plain for job in jobs)
        batchers = self._batchers.setdefault(asyncio.get_running_loop(), {})
        if plain not in batchers:
            batchers[plain] = Batcher(lambda orders: self.store.submit(self.who, orders), LARGEST_ORDER, _weight)
        return _accepted(await batchers[plain].put(jobs))

    async def submit_whole(self, jobs: Sequence[NewJob]) -> list[Submitted]:
        """All jobs or none, however many."""
        (answer,) = await self.store.submit(self.who, [jobs])
        return _accepted(answer)

    async def cancel(self, ids: Sequence[str], reason: str = "cancelled by its user") -> list[Cancelling]:
        check_reason(reason)
        return await self._in_steps(ids, lambda part: self.store.cancel(self.who, part, reason))

    async def retry(self, ids: Sequence[str]) -> list[bool]:
        """Runs ended jobs again and makes waiting ones due now; False for those that run or have succeeded."""

        async def step(part: Sequence[str]) -> list[bool]:
            replayed = await self._run_again(part)
            hurried = await self.store.hurry(self.who, part)
            return [a or b for a, b in zip(replayed, hurried, strict=True)]

        return await self._in_steps(ids, step)

    async def replay(self, ids: Sequence[str]) -> list[bool]:
        return await self._in_steps(ids, self._run_again)

    async def rerun(self, ids: Sequence[str]) -> list[bool]:
        """Runs ended jobs again, whatever their state, all together: edges between them count again."""
        return await self._run_again(ids, again=True)

    async def _run_again(self, ids: Sequence[str], again: bool = False) -> list[bool]:
        return await self.store.replay(self.who, ids, again)

    async def purge(self, ids: Sequence[str]) -> list[bool]:
        # Jobs with their output may be large.
        return await self._in_steps(ids, lambda part: self.store.purge(self.who, part), step=PURGE_STEP)

    async def _in_steps(
        self, ids: Sequence[str], act: Callable[[Sequence[str]], Awaitable[list[T]]], step: int = PAGE
    ) -> list[T]:
        answers: list[T] = []
        for start in range(0, len(ids), step):
            answers += await act(ids[start : start + step])
        return answers

    async def get(self, job_id: str) -> JobInfo:
        """Concurrent calls share a query."""
        return await self._get(job_id, fresh=True)

    async def glance(self, job_id: str) -> JobInfo:
        """As `get`, but a job that runs may be shown as it was two seconds ago."""
        return await self._get(job_id, fresh=False)

    async def _get(self, job_id: str, fresh: bool) -> JobInfo:
        gets = self._gets.setdefault(asyncio.get_running_loop(), {})
        if fresh not in gets:
            read = self.store.get_many if fresh else self.store.glance
            gets[fresh] = Batcher(lambda ids: read(self.who, ids), LARGEST_GET)
        info = await gets[fresh].put(job_id)
        if info is None:
            raise NotFound("job", job_id)
        return info

    async def find(self, query: JobFilter) -> list[JobInfo]:
        """The first jobs that fit, as many as the limit, however many have to be examined."""
        found: list[JobInfo] = []
        async for jobs in self._pages(query):
            found += jobs
            if len(found) >= query.limit:
                break
        return found[: query.limit]

    async def _pages(self, query: JobFilter) -> AsyncIterator[list[JobInfo]]:
        while True:
            page = await self.page(query)
            yield page.jobs
            if page.last is None:
                return
            query = msgspec.structs.replace(query, after=page.last)

    async def page(self, query: JobFilter) -> JobPage:
        return await self.store.page(self.who, query)

    async def count(self, query: JobFilter) -> int:
        """Exact, whatever the limit. The store's count knows what its database can decide; words of a query and
        regular expressions are decided job by job."""
        if query.where is None:
            return await self.store.count(self.who, query)
        found = await self.counted(query)
        if found.exact:
            return found.number
        query = msgspec.structs.replace(query, sort=None, after=None, limit=PAGE)
        return sum([len(jobs) async for jobs in self._pages(query)])

    async def error_groups(self, query: JobFilter) -> list[ErrorGroup]:
        check_countable(query.where)
        return await self.store.error_groups(self.who, query)

    async def counted(self, query: JobFilter) -> JobCount:
        return await self.store.counted(self.who, query)

    async def facets(self, query: JobFilter) -> Facets:
        return await self.store.facets(self.who, query)

    async def values(self, field: str, prefix: str, limit: int) -> list[str]:
        return await self.store.values(self.who, field, prefix, limit)

    async def resolve(self, part: str) -> str:
        """The one id that begins or ends with this text."""
        if not part:
            raise InvalidInput("job", part, "an id, or its beginning or end")
        found = await self.store.resolve(self.who, part.lower())
        if not found:
            raise NotFound("job", part)
        if len(found) > 1 and found[0] != part.lower():
            raise InvalidInput("job", part, f"an id that fits one job only; it fits {found[0]} and {found[1]}")
        return found[0]

    async def explain(self, job_id: str) -> Explanation:
        """The reasons for the state of the job."""
        info = await self.get(job_id)
        parents = await self.store.parents(self.who, job_id) if info.state is State.BLOCKED else []
        waiting = await self.store.waiting(self.who, job_id)
        return explain(info, parents, waiting, self.store.now(), await self._beside(info))

    async def _beside(self, info: JobInfo) -> list[JobInfo]:
        """The running jobs that a job must not run beside."""
        if info.state is not State.HELD or info.alone is None:
            return []
        running = await self.find(JobFilter(states=(State.RUNNING,), limit=LARGEST_ORDER))
        fits = info.alone.match.fits
        return [one for one in running if fits(task=one.task, queue=one.queue, user=one.owner, labels=one.labels)]

    async def reprioritise(self, ids: Sequence[str], to: int) -> list[bool]:
        chosen = priority(to)
        return await self._in_steps(ids, lambda part: self.store.reprioritise(self.who, part, chosen))

    async def workflow(self, part: str) -> str:
        """The id of the one workflow that begins or ends with this text, or of the latest with this name."""
        if not part:
            raise NotFound("workflow", part)
        for info in await self.store.workflows(self.who, WorkflowFilter(name=part, limit=1)):
            return info.id  # a name may look like the end of an id: `feed`
        low = part.lower()
        found = [
            one for one in await self.store.resolve_workflow(self.who, low) if one.startswith(low) or one.endswith(low)
        ]
        if not found:
            raise NotFound("workflow", part)
        if len(found) > 1:
            raise InvalidInput("workflow", part, f"an id that fits one only; it fits {found[0]} and {found[1]}")
        return found[0]

    def wait_limit(self, timeout: Span | None) -> float | None:
        """The seconds that a wait may take; None: any number."""
        return None if timeout is None else duration(timeout, "timeout") / SECOND

    async def wait(self, job_id: str, timeout: Span | None = None) -> JobInfo:
        """Returns when the job has ended; raises WaitTimeout if that takes longer than `timeout` (`90s`)."""
        limit = self.wait_limit(timeout)
        info = await self.get(job_id)
        if info.ended:
            return info
        loop = asyncio.get_running_loop()
        waits = self._waits.get(loop)
        if waits is None:
            waits = self._waits[loop] = _Waits(self)
        try:
            async with asyncio.timeout(limit):
                return await waits.wait(job_id)
        except TimeoutError:
            info = await self.get(job_id)
            if info.ended:
                return info
            raise WaitTimeout(job_id, info.state) from None

    async def output(self, job_id: str, follow: bool = False) -> AsyncIterator[Chunk]:
        """The output of all attempts in order; with `follow` until the job has ended."""
        position = Position()
        while chunks := await self.output_page(job_id, position, follow):
            for chunk in chunks:
                yield chunk
            position = after(chunks)

    async def output_page(self, job_id: str, position: Position, follow: bool) -> Sequence[Chunk]:
        """The chunks after a position; none if there are no more. With `follow` it waits for them."""
        if not follow:
            return await self.store.output(self.who, job_id, position, PAGE)
        news = NewsListener(self.store)
        try:
            while True:
                ended = (await self.get(job_id)).ended
                chunks = await self.store.output(self.who, job_id, position, PAGE)
                if chunks or ended:
                    return chunks
                await news.wait(POLL)
        finally:
            news.close()


def after(chunks: Sequence[Chunk]) -> Position:
    return Position(chunks[-1].fence, chunks[-1].number)


def _accepted(answer: Answer) -> list[Submitted]:
    if isinstance(answer, list):
        return answer
    raise answer


def _orders(jobs: Sequence[NewJob]) -> Iterator[Sequence[NewJob]]:
    start = size = 0
    for index, job in enumerate(jobs):
        if index > start and (index - start >= LARGEST_ORDER or size + len(job.args) > HEAVIEST_ORDER):
            yield jobs[start:index]
            start, size = index, 0
        size += len(job.args)
    if start < len(jobs):
        yield jobs[start:]


def _weight(jobs: Sequence[NewJob]) -> int:
    """The weight of one order, in jobs of ordinary size."""
    return len(jobs) + sum(len(job.args) for job in jobs) * LARGEST_ORDER // HEAVIEST_ORDER


class NewsListener:
    """Wakes the watchers of jobs; they also poll, in case a wake-up gets lost."""

    def __init__(self, store: Store, topics: frozenset[Topic] = frozenset({Topic.NEWS})) -> None:
        self._event = asyncio.Event()
        self.close = store.listen(topics, self._event.set)

    async def wait(self, longest: float) -> None:
        alarm = asyncio.get_running_loop().call_later(longest, self._event.set)
        await self._event.wait()
        alarm.cancel()
        await asyncio.sleep(PAUSE)
        self._event.clear()


class _Waits:
    """All waits of one loop, answered by one query each time news arrive."""

    def __init__(self, client: JobsClient) -> None:
        self._client = client
        self._waiting: dict[str, list[asyncio.Future[JobInfo]]] = {}
        self._pump: asyncio.Task[None] | None = None
        self._next_count = 0.0

    async def wait(self, job_id: str) -> JobInfo:
        future: asyncio.Future[JobInfo] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(job_id, []).append(future)
        if self._pump is None:
            self._pump = asyncio.create_task(self._run())
        try:
            return await future
        finally:
            self._forget(job_id, future)

    def _forget(self, job_id: str, future: asyncio.Future[JobInfo]) -> None:
        futures = self._waiting.get(job_id, [])
        if future in futures:
            futures.remove(future)
        if not futures:
            self._waiting.pop(job_id, None)

    async def _run(self) -> None:
        news = NewsListener(self._client.store)
        try:
            while self._waiting:
                with suppress(StoreUnavailable):  # the store may be back at the next look
                    await self._look()
                if self._waiting:
                    await news.wait(POLL)
        except Exception as error:
            for future in [f for futures in self._waiting.values() for f in futures]:
                if not future.done():
                    future.set_exception(error)
        finally:
            news.close()
            self._pump = None

    async def _look(self) -> None:
        ids = tuple(self._waiting)
        # A purged job need not be noticed at once.
        now = asyncio.get_running_loop().time()
        count_missing = now > self._next_count
        if count_missing:
            self._next_count = now + COUNT_EVERY
        for start in range(0, len(ids), PAGE):
            part = ids[start : start + PAGE]
            for info in await self._client.find(JobFilter(ids=part, states=tuple(TERMINAL), limit=PAGE)):
                self._tell(info.id, info)
            if count_missing:
                found = {info.id for info in await self._client.find(JobFilter(ids=part, limit=PAGE))}
                for job_id in set(part) - found:
                    self._tell(job_id, None)

    def _tell(self, job_id: str, info: JobInfo | None) -> None:
        for future in self._waiting.pop(job_id, []):
            if future.done():
                continue
            if info is None:  # purged meanwhile
                future.set_exception(NotFound("job", job_id))
            else:
                future.set_result(info)
