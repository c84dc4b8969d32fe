from __future__ import annotations

import rota
from rota.testing import harness


async def test_hooks_see_the_parents_of_a_function_without_context() -> None:
    app = rota.App(name="hooked")
    seen: list[tuple[str, list[object]]] = []

    @app.on("attempt.before")
    def look(ctx: rota.Context) -> None:
        seen.append((ctx.job.task, [parent.result for parent in ctx.parents]))

    @app.task
    def first() -> int:
        return 1

    @app.task
    def second() -> None: ...

    async with harness(app) as rota_test:
        await second.options(after=await first.submit()).submit()
        await rota_test.drain()
    assert seen == [("first", []), ("second", [1])]
