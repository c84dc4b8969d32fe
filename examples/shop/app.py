"""The app: which tasks there are. `rota up --app examples.shop.app` runs them."""

from __future__ import annotations

import rota

app = rota.App(name="shop", include=["examples.shop.tasks", "examples.shop.orders"])
