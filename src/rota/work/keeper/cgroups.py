"""Control groups: bounds for a whole tree of processes, and a way to kill it, where the system lets us make them.

On version 2 a command gets a leaf of its own with the controllers that the parent hands down: memory, pids, cpu. Where
the pids controller is still on version 1 only the number of processes is bounded so. All of this is tried once, when
the keeper starts. The keeper's group, above the leaves, is claimed and left behind like its folder.
"""

import os

from .folders import claim, inherit
from .kernel import attempt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

WANTED = (b"memory", b"pids", b"cpu")
PAGE = 65536


def read(path: bytes) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        text = b""
        while page := os.read(fd, PAGE):
            text += page
        return text
    except OSError:
        return b""
    finally:
        os.close(fd)


def write(path: bytes, text: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text)
    finally:
        os.close(fd)


class Leaf:
    """The groups of one command: one, or none, for each hierarchy."""

    def __init__(self, paths: "Iterable[bytes]", words: list[str]) -> None:
        self.paths = list(paths)
        self.words = words  # for the report

    def join(self) -> None:
        """Called by the process that becomes the command."""
        for path in self.paths:
            write(path + b"/cgroup.procs", b"0")

    def kill(self) -> None:
        for path in self.paths:
            attempt(write, path + b"/cgroup.kill", b"1")

    def ran_out_of_memory(self) -> bool:
        return any(numbers(path + b"/memory.events").get(b"oom_kill") for path in self.paths)

    def memory_peak(self) -> int:
        return max((int(read(path + b"/memory.peak") or 0) for path in self.paths), default=0)

    def cpu_seconds(self) -> float:
        return max((numbers(path + b"/cpu.stat").get(b"usage_usec", 0) / 1e6 for path in self.paths), default=0.0)

    def remove(self) -> None:
        for path in self.paths:
            attempt(os.rmdir, path)


def numbers(path: bytes) -> dict[bytes, int]:
    """Lines such as `oom_kill 1`."""
    pairs = (line.split() for line in read(path).splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


class Groups:
    """The groups in which leaves are made. `named`: a group of version 2 that a person has reserved for this; else our
    own."""

    def __init__(self, named: bytes) -> None:
        self.named = named
        self.locks: list[int] = []
        self.count = 0
        self.controllers: set[bytes] = set()
        own = _own_groups()
        place = named or own.get(b"unified", b"")
        self.unified = self._claim(place) if place and self._offers(place) else None
        if self.unified is None:
            self.controllers = set()
        bounded = b"pids" in self.controllers or b"pids" not in own
        self.pids = None if bounded else self._claim(own[b"pids"])

    def _claim(self, parent: bytes) -> bytes | None:
        """A group of ours below `parent`, if a process can be put into one."""
        path = None
        try:
            inherit(parent, dissolve)
            path, lock = claim(parent, 0o755)
            self.locks.append(lock)
            for name in self.controllers:
                write(path + b"/cgroup.subtree_control", b"+" + name)
            if _works(path + b"/probe"):
                return path
        except OSError:
            pass
        if path is not None:
            attempt(dissolve, path)
        return None

    def _offers(self, parent: bytes) -> bool:
        """A group without controllers is used only if a person has named it: it can still kill a tree."""
        if self.named:
            for name in WANTED:
                attempt(write, parent + b"/cgroup.subtree_control", b"+" + name)
        self.controllers = set(read(parent + b"/cgroup.subtree_control").split()) & set(WANTED)
        return bool(self.named or self.controllers)

    def leaf(self, memory: int | None, processes: int | None, nice: int) -> Leaf | None:
        """None if a leaf would set none of these bounds."""
        self.count += 1
        name = b"/%d-%d" % (os.getpid(), self.count)
        leaf = Leaf([], [])
        try:
            if self.unified is not None:
                self._bound_all(leaf, self.unified + name, memory, processes, nice)
            if self.pids is not None and processes is not None:
                self._add(leaf, self.pids + name)
                write(leaf.paths[-1] + b"/pids.max", b"%d" % processes)
                leaf.words.append("cgroup-v1:pids")
        except OSError:
            leaf.remove()
            raise
        return leaf if leaf.paths else None

    def _add(self, leaf: Leaf, path: bytes) -> None:
        os.mkdir(path, 0o755)
        leaf.paths.append(path)

    def _bound_all(self, leaf: Leaf, path: bytes, memory: int | None, processes: int | None, nice: int) -> None:
        self._add(leaf, path)
        kinds = ["kill"]
        if memory is not None and b"memory" in self.controllers:
            write(path + b"/memory.max", b"%d" % memory)
            attempt(write, path + b"/memory.swap.max", b"0")
            attempt(write, path + b"/memory.oom.group", b"1")
            kinds.append("memory")
        if processes is not None and b"pids" in self.controllers:
            write(path + b"/pids.max", b"%d" % processes)
            kinds.append("pids")
        if nice and b"cpu" in self.controllers:
            attempt(write, path + b"/cpu.weight.nice", b"%d" % nice)
            kinds.append("cpu")
        leaf.words.append("cgroup-v2:" + "+".join(kinds))

    def close(self) -> None:
        for path in (self.unified, self.pids):
            if path is not None:
                attempt(dissolve, path)


def dissolve(path: bytes) -> None:
    """Removes a group and its subgroups. Groups with processes stay, for the next keeper to try."""
    for name in os.listdir(path):
        if os.path.isdir(os.path.join(path, name)):
            attempt(os.rmdir, os.path.join(path, name))
    attempt(os.rmdir, path)


def _works(path: bytes) -> bool:
    """Whether a process can be put there."""
    os.mkdir(path)
    try:
        pid = os.fork()
        if pid == 0:
            try:
                Leaf([path], []).join()
                os._exit(0)
            finally:
                os._exit(1)
        return os.waitpid(pid, 0)[1] == 0
    finally:
        os.rmdir(path)


def _own_groups() -> dict[bytes, bytes]:
    """The folders of this process's groups: of version 2, and of pids on version 1."""
    own: dict[bytes, bytes] = {}
    for line in read(b"/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(b":", 2)
        own[b"pids" if b"pids" in controllers.split(b",") else b"" if controllers else b"unified"] = path
    found: dict[bytes, bytes] = {}
    for line in read(b"/proc/self/mountinfo").splitlines():
        fields, _, kind = line.partition(b" - ")
        _, _, _, root, place, *_ = fields.split()
        name, _, options = kind.split()[:3]
        is_pids = name == b"cgroup" and b"pids" in options.split(b",")
        key = b"unified" if name == b"cgroup2" else b"pids" if is_pids else b""
        if key in own and key and own[key].startswith(root):
            inside = own[key][len(root) :] if root != b"/" else own[key]
            found[key] = (place + b"/" + inside.strip(b"/")).rstrip(b"/")
    return found
