"""What the first bytes of a file say about how it can run: a binary of which machine, a script for which program."""

from __future__ import annotations

import re
import struct
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

HEAD = 4096  # bytes that are looked at
_ELF = b"\x7fELF"
_FOREIGN = {
    b"MZ": "Windows", b"\xcf\xfa\xed\xfe": "macOS", b"\xce\xfa\xed\xfe": "macOS", b"\xca\xfe\xba\xbe": "macOS",
}  # fmt: skip
_MACHINES = {
    3: "x86", 8: "MIPS", 20: "PowerPC", 21: "ppc64", 22: "s390x", 40: "ARM", 62: "x86-64", 183: "AArch64",
    243: "RISC-V", 258: "LoongArch",
}  # fmt: skip
# Programs that a kernel of another machine runs too.
_ALSO = {(3, 62)}
_LOADER = 3  # the type of the program header that names it


class Machine(NamedTuple):
    number: int
    bits: int
    big_endian: bool

    def __str__(self) -> str:
        return _MACHINES.get(self.number, f"machine {self.number}")


class Binary(NamedTuple):
    machine: Machine
    loader: str | None  # a program that must be there to load it


def shebang(head: bytes) -> list[str] | None:
    """The program and its argument in the first line of a script, as kernels read them. None: there is no such line."""
    if not head.startswith(b"#!"):
        return None
    line = head[2:].partition(b"\n")[0].decode("utf-8", errors="replace").strip(" \t")
    return re.split("[ \t]+", line, maxsplit=1) if line else []


def foreign_system(head: bytes) -> str | None:
    return next((system for magic, system in _FOREIGN.items() if head.startswith(magic)), None)


def binary(head: bytes) -> Binary | None:
    """None: this is no ELF file."""
    if not head.startswith(_ELF) or len(head) < 64 or head[4] not in (1, 2) or head[5] not in (1, 2):
        return None
    wide, order = head[4] == 2, "<" if head[5] == 1 else ">"
    (number,) = struct.unpack_from(order + "H", head, 18)
    machine = Machine(number, 64 if wide else 32, order == ">")
    (table,) = struct.unpack_from(order + ("Q" if wide else "I"), head, 32 if wide else 28)
    size, count = struct.unpack_from(order + "HH", head, 54 if wide else 42)
    return Binary(machine, _loader(head, order, wide, table, size, count))


def _loader(head: bytes, order: str, wide: bool, table: int, size: int, count: int) -> str | None:
    """None also if it is named behind the bytes that are looked at."""
    for place in range(table, table + size * min(count, 64), size or 1):
        if place + (56 if wide else 32) > len(head):
            return None
        (kind,) = struct.unpack_from(order + "I", head, place)
        if kind == _LOADER:
            at, length = struct.unpack_from(order + ("Q16xQ" if wide else "I8xI"), head, place + (8 if wide else 4))
            return head[at : at + length].partition(b"\0")[0].decode("utf-8", errors="replace") or None
    return None


@cache
def this_machine() -> Machine | None:
    """None: programs of this system are no ELF files."""
    own = Path("/proc/self/exe")
    with (own if own.exists() else Path(sys.executable)).open("rb") as file:
        found = binary(file.read(HEAD))
    return found.machine if found else None


def runs_here(machine: Machine) -> bool:
    here = this_machine()
    return machine == here or (here is not None and (machine.number, here.number) in _ALSO)
