"""The tasks that can be ordered by name, and what to say of a name that is none of them."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping

import msgspec

from rota.errors import UnknownTask
from rota.model.task import TaskInfo

START_A_NODE = "start a node that has it with `rota up --app MODULE:APP`"
NONE_YET = "no node has registered any: start one with `rota up --app MODULE:APP`"


class OfferedTasks(msgspec.Struct, frozen=True):
    """`place`: where they are known from; `none`: what to say if there are none."""

    infos: Mapping[str, TaskInfo]
    place: str = "nodes have registered"
    none: str = NONE_YET

    @classmethod
    def of(cls, tasks: Iterable[TaskInfo]) -> OfferedTasks:
        return cls({task.name: task for task in tasks})

    def get(self, name: str) -> TaskInfo:
        if name in self.infos:
            return self.infos[name]
        raise UnknownTask(name, hint(name, self.infos, self.place, self.none))


def hint(name: str, known: Collection[str], place: str, none: str = NONE_YET) -> str:
    if not known:
        return none
    close = difflib.get_close_matches(name, known, n=3)
    if close:
        return f"did you mean {' or '.join(close)}?"
    listed = ", ".join(sorted(known)[:10]) + (", ..." if len(known) > 10 else "")
    return f"{place} {listed}; {START_A_NODE}"
