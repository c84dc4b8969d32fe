"""Nodes with a spool and a small limit for output; afterwards the output of all jobs is read."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path

import rota
from rota.model.output_marks import left_out
from rota.model.principal import SYSTEM
from rota.store.values import CUT, Position
from tests.chaos.cluster import Cluster
from tests.chaos.evidence import Evidence
from tests.chaos.output_app import MUTANT
from tests.chaos.scribbles import Part, Scribbles, read_notes

LIMIT = 128 << 10
PAGE = 50
REPLAYED = 20.0  # seconds after the last job has ended


class OutputCluster(Cluster):
    def address(self, name: str) -> dict[str, str]:
        more = {"ROTA_SPOOL": str(self._spools), "ROTA_MAX_OUTPUT": str(LIMIT), MUTANT: os.environ.get(MUTANT, "")}
        return {**super().address(name), **more}

    @property
    def _spools(self) -> Path:
        return self.folder / "spools"

    def groups(self) -> list[list[str]]:
        return [[name] for name in self.nodes]  # the last one finds what the others left

    async def settle(self) -> Evidence:
        evidence = await super().settle()
        ((segments, chunks),) = self.ask(
            "SELECT (SELECT count(*) FROM rota.segments), (SELECT count(*) FROM rota.output)"
        )
        evidence.notes.append(f"{segments} segments, and {chunks} chunks that are not sealed yet")
        evidence.scribbles = await self._scribbles()
        return evidence

    async def before_end(self) -> None:
        """Only spools of living nodes are left."""
        try:
            await self.until(lambda: len(self._left_spools()) <= len(self.nodes), REPLAYED, "spools to be replayed")
        except TimeoutError:
            self.evidence.notes.append(f"not replayed: {self._left_spools()}")

    def _left_spools(self) -> list[str]:
        return [path.name for path in self._spools.glob("*/*")]

    async def _scribbles(self) -> dict[tuple[str, int], Scribbles]:
        noted = read_notes(self.folder)
        app = rota.App(self.records.url)
        shown: dict[tuple[str, int], list[Part]] = defaultdict(list)
        try:
            store = (await app._core.client()).store
            for job in {job for job, _ in noted}:
                position = Position()
                while chunks := await store.output(SYSTEM, job, position, PAGE):
                    for one in chunks:
                        cut = left_out(one.body)[0] if one.stream == CUT else 0
                        shown[job, one.fence].append(Part(one.stream, b"" if one.stream == CUT else one.body, cut))
                    position = Position(chunks[-1].fence, chunks[-1].number)
        finally:
            await app.close()
        return {ref: Scribbles(written, shown[ref]) for ref, written in noted.items()}
