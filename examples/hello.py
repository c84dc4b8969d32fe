"""The app that `make up` runs: three small tasks to play with.

rota submit hello '{"name": "you"}'
rota submit flaky
rota submit count '{"upto": 5}'
"""

from __future__ import annotations

import asyncio

import rota

app = rota.App()


@app.task
async def hello(name: str) -> str:
    print(f"saying hello to {name}")
    return f"hello, {name}"


@app.task(retry=rota.Retry(5, backoff="1s..10s"))
def flaky(ctx: rota.Context) -> str:
    """Fails twice, then works: watch it with `rota job show`."""
    if ctx.attempt < 3:
        raise ConnectionError(f"attempt {ctx.attempt} could not connect")
    return f"worked at attempt {ctx.attempt}"


@app.task(timeout="1m")
async def count(upto: int = 10) -> int:
    """Prints a number each second: follow it with `rota job logs ID --follow`."""
    for number in range(1, upto + 1):
        print(number)
        await asyncio.sleep(1)
    return upto
