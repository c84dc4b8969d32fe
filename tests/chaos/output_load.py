"""The client of runs about output: `python -m tests.chaos.output_load FOLDER PROFILE`, until SIGTERM."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import rota
from tests.chaos import app as tasks
from tests.chaos import output_tasks
from tests.chaos.load import ROOT, Load, Profile

PROFILES = {"output": Profile(rate=3.0, durations=(0.3, 0.8, 1.5, 3.0), commands=0.5)}


class OutputLoad(Load):
    async def submit(self, number: int, kind: str, seconds: float, options: dict[str, Any]) -> rota.Job[Any]:
        floods = number % 5 == 0
        if kind == "block":
            return await output_tasks.declaim.submit(number=number, seconds=seconds, floods=floods, **options)
        if kind == "linger":
            return await output_tasks.murmur.submit(number=number, seconds=seconds, **options)
        argv = [sys.executable, "-IS", str(ROOT / "tests/chaos/scribe.py"), str(number), str(seconds), str(floods)]
        variables = {"CHAOS_WITNESS": str(self.folder / "witness"), "CHAOS_ROOT": str(ROOT)}
        about = {"env": variables, "inherit": ["CHAOS_NODE"], "name": f"command.{number}", **options}
        return await tasks.app.submit_command(argv, **about)


async def main() -> None:
    os.chdir(sys.argv[1])
    load = OutputLoad(Path(sys.argv[1]), PROFILES[sys.argv[2]])
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, load.stop)
    await load.run()


if __name__ == "__main__":
    asyncio.run(main())
