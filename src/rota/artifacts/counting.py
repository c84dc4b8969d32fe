"""Bounds on a program, counted while it is packed or written: what a header claims is never believed."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rota.artifacts.faults import InvalidProgram

MIB = 1 << 20


class PackLimits(msgspec.Struct, frozen=True):
    size: int = 2048 * MIB  # bytes of all files
    entries: int = 100_000  # files and folders
    depth: int = 32  # folders in folders
    path: int = 1024  # bytes of a path
    # How much larger than its packed bytes a program may be. Our own code is 3.6 times as large, zeros 20,000 times.
    ratio: int = 200
    always: int = 64 * MIB  # allowed whatever the ratio

    def most(self, packed: int) -> int:
        """Bytes that this many packed bytes may unpack to."""
        return min(self.size, max(self.always, self.ratio * packed))


LIMITS = PackLimits()


class Tally:
    """Counts the files and bytes of one program, and refuses the first too many."""

    def __init__(self, what: str, limits: PackLimits, packed: int | None = None) -> None:
        """`packed`: the size of the packed bytes, as far as it is known before."""
        self.what, self.limits, self.packed = what, limits, packed
        self.most = limits.size if packed is None else limits.most(packed)
        self.entries = self.size = 0

    def entry(self, parts: Sequence[str]) -> None:
        limits, self.entries = self.limits, self.entries + 1
        if self.entries > limits.entries:
            right = f"at most {limits.entries:,} files and folders are allowed"
            raise InvalidProgram(self.what, f"more than {limits.entries:,} files and folders", right)
        if len(parts) > limits.depth:
            right = f"at most {limits.depth} are allowed"
            raise InvalidProgram(self.what, f"folders are nested {len(parts)} deep", right)
        if len("/".join(parts).encode()) > limits.path:
            raise InvalidProgram(self.what, f"a path has more than {limits.path} bytes", "shorten it")

    def add(self, size: int) -> None:
        self.size += size
        if self.size > self.most:
            self._refuse()

    def packed_to(self, packed: int) -> None:
        """The packed bytes are complete: packing refuses what unpacking would."""
        self.packed, self.most = packed, self.limits.most(packed)
        self.add(0)

    def _refuse(self) -> None:
        if self.most == self.limits.size or self.packed is None:
            problem, right = f"more than {self.most:,} bytes", "remove files, or name them in .rotaignore"
        else:
            problem = f"{self.packed:,} bytes unpack to more than {self.most:,}"
            right = f"at most {self.limits.ratio} times as many are allowed"
        raise InvalidProgram(self.what, problem, right)
