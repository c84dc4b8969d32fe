"""The command line of rota, whose API is killed (-9) when it would answer the route that DIE_AT names: its write is
committed, and the answer is lost."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from rota.api.app import Api
from rota.cli.main import main


def answering(send: Any) -> Any:
    async def answer(self: Api, route: Any, *args: Any) -> None:
        if route.name == os.environ["DIE_AT"]:
            os.kill(os.getpid(), signal.SIGKILL)
        await send(self, route, *args)

    return answer


if __name__ == "__main__":
    Api._send = answering(Api._send)  # type: ignore[method-assign]
    sys.exit(main(sys.argv[1:]))
