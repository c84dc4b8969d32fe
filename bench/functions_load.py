"""The app with sync functions: they run in warm processes."""

from __future__ import annotations

import rota

app = rota.App()


@app.task
def noop(text: str) -> None:
    pass
