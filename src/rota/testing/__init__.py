"""For users' own tests: run tasks without a server and without waiting for the clock.

    async with rota.testing.harness(app) as rota_test:
        job = await welcome.submit(user_id=7, delay="2h")
        await rota_test.drain()
        assert (await job.info()).result == "sent"

Inside the harness the app has a temporary store in memory and a clock that moves only when told. `drain()` runs all due
jobs, moves the clock to the next due time, and goes on until no job is left: delays and retries take no time. Time
*inside* a function is real: a function that sleeps, sleeps. Commands and HTTP calls don't run unless a fake answers
them, or the harness allows them. docs/testing.md has all of it.
"""

from rota.clock import ManualClock
from rota.testing.fakes import CommandFake, HttpFake, RecordedRequest
from rota.testing.harnesses import Harness, HarnessBlock, SyncHarness, harness, run
from rota.testing.orders import OrderRecord

__all__ = [
    "CommandFake",
    "Harness",
    "HarnessBlock",
    "HttpFake",
    "ManualClock",
    "OrderRecord",
    "RecordedRequest",
    "SyncHarness",
    "harness",
    "run",
]
