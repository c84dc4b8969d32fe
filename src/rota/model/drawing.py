"""A workflow as text: a tree for the terminal, and the languages of Graphviz and Mermaid.

A graph is not a tree, so the tree is walked like this: a vertex is drawn as soon as its last parent has been drawn,
directly below that one. So the lines are in topological order (all parents of a vertex are above it), each vertex has
one line, and that line names the other parents.

Labels are untrusted. They are cut to a decent length and lose unprintable characters, so none can move a cursor, open a
second line or end a quoted text. The names of nodes are made up.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from typing import NamedTuple, cast

import msgspec

from rota.errors import InvalidInput
from rota.model.graph import Need
from rota.model.lifecycle import State

LONGEST_LABEL = 60
LONGEST_NOTE = 100
MOST_NAMED = 3  # parents named in one line
LONGEST_RUN = 20  # equal siblings drawn one by one
DEEPEST = 16  # levels of indentation; deeper lines show a number

COLOURS: dict[State, str] = {
    State.BLOCKED: "#e0e0e0",
    State.SCHEDULED: "#d9d2f0",
    State.HELD: "#f5e0c0",
    State.READY: "#fff3b0",
    State.RUNNING: "#b3d9ff",
    State.SUCCEEDED: "#b8e6b8",
    State.FAILED: "#ffb3b3",
    State.CANCELLED: "#d6c4c4",
    State.SKIPPED: "#f2f2f2",
    State.DROPPED: "#c9c9c9",
}
_STATES = f"one of {', '.join(State)}"
_CONDITIONS = {None: "", Need.SUCCESS: ""} | {need: f"on {need}" for need in Need if need is not Need.SUCCESS}
_DOT_EDGES = {need: f' [style=dotted, label="{need}"]' for need in Need}
_DOT_EDGES |= {Need.SUCCESS: "", Need.FINISH: " [style=dashed]"}
_MERMAID_EDGES = {need: f"-.->|{need}|" for need in Need} | {Need.SUCCESS: "-->", Need.FINISH: "-.->"}
# Safe characters in Mermaid. All others might end a text, or begin an entity, a directive or Markdown.
_NOT_MERMAID = re.compile(r"[^\w -]|(?<![^\W_])[-_]|[-_](?![^\W_])")


class Vertex(msgspec.Struct, frozen=True):
    id: str
    label: str
    state: State
    parents: tuple[tuple[str, Need], ...] = ()
    note: str = ""
    detail: str = ""  # the label with what tells it apart from others with the same label; "": nothing does

    @property
    def shown(self) -> str:
        return self.detail or self.label

    def __post_init__(self) -> None:
        for what, text in (("id", self.id), ("label", self.label), ("note", self.note), ("detail", self.detail)):
            _check(isinstance(text, str), f"{what} of a vertex", text, "a text")
        _check(self.id != "", "id of a vertex", self.id, "a text that is not empty")
        _check(isinstance(self.state, State), "state of a vertex", self.state, _STATES)
        parents = cast("object", self.parents)
        fits = isinstance(parents, tuple) and all(map(_is_parent, parents))
        _check(fits, "parents of a vertex", parents, f"a tuple of pairs (id, {', '.join(Need)})")


def tree(vertices: Sequence[Vertex], limit: int = 1000) -> list[str]:
    """Lines for a terminal. A chain is drawn straight down with arrows, without indentation."""
    most = cast("object", limit)
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise InvalidInput("limit", limit, "a whole number, 1 or more")
    known = _by_id(vertices)
    lines: list[str] = []
    shown = 0
    for place in islice(_places(known), min(most, len(known))):
        lines.append(place.lead + _line(place, known))
        shown += len(place.run)
    if shown < len(known):
        lines.append(f"… and {len(known) - shown:,} more, not shown")
    return lines


def graphviz(vertices: Sequence[Vertex], name: str) -> str:
    _check(isinstance(name, str), "name of a workflow", name, "a text")
    known = _by_id(vertices)
    nodes = _nodes(known)
    lines = ["digraph workflow {", f'    label="{_dot(_label(name))}"', "    labelloc=t"]
    lines += ['    node [shape=box, style="rounded,filled", fillcolor=white]']
    for key, node in nodes.items():
        label = r"\n".join(map(_dot, _caption(key, known)))
        look = f'fillcolor="{COLOURS[known[key].state]}"' if key in known else 'style="rounded,dashed"'
        lines.append(f'    {node} [label="{label}", {look}]')
    lines += [f"    {nodes[above]} -> {nodes[key]}{_DOT_EDGES[need]}" for above, key, need in _edges(known)]
    return "\n".join([*lines, "}", ""])


def mermaid(vertices: Sequence[Vertex]) -> str:
    """Mermaid refuses more than 500 edges or 50,000 characters unless its page is configured for more."""
    known = _by_id(vertices)
    nodes = _nodes(known)
    lines = ["flowchart TD"]
    for key, node in nodes.items():
        label = "<br/>".join(map(_entities, _caption(key, known)))
        lines.append(f'    {node}["{label}"]:::{known[key].state if key in known else "elsewhere"}')
    lines += [f"    {nodes[above]} {_MERMAID_EDGES[need]} {nodes[key]}" for above, key, need in _edges(known)]
    used = {vertex.state for vertex in known.values()}
    lines += [f"    classDef {state} fill:{colour},color:#222" for state, colour in COLOURS.items() if state in used]
    if len(nodes) > len(known):
        lines.append("    classDef elsewhere stroke-dasharray:4")
    return "\n".join([*lines, ""])


def _check(fits: bool, what: str, given: object, expected: str) -> None:
    if not fits:
        raise InvalidInput(what, given, expected)


def _is_parent(given: object) -> bool:
    return isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], str) and isinstance(given[1], Need)


def _by_id(vertices: Sequence[Vertex]) -> dict[str, Vertex]:
    _check(isinstance(vertices, list | tuple), "vertices", vertices, "a list of vertices")
    known: dict[str, Vertex] = {}
    for vertex in vertices:
        _check(isinstance(vertex, Vertex), "vertex", vertex, "a Vertex")
        _check(vertex.id not in known, "id of a vertex", vertex.id, "each id once")
        known[vertex.id] = vertex
    return known


class _Forest(NamedTuple):
    roots: list[str]
    children: dict[str, list[str]]  # all of them
    below: dict[str, list[str]]  # those that are drawn below this one
    alone: set[str]  # those with one parent


def _forest(known: dict[str, Vertex]) -> _Forest:
    children: dict[str, list[str]] = {key: [] for key in known}
    missing: dict[str, int] = {}  # how many parents have not been drawn
    for key, vertex in known.items():
        parents = {parent for parent, _ in vertex.parents if parent in known}
        missing[key] = len(parents)
        for parent in parents:
            children[parent].append(key)
    alone = {key for key, count in missing.items() if count == 1}
    roots = [key for key, count in missing.items() if count == 0]
    below: dict[str, list[str]] = {key: [] for key in known}
    stack = roots[::-1]
    while stack:
        key = stack.pop()
        for child in children[key]:
            missing[child] -= 1
            if missing[child] == 0:
                below[key].append(child)
        stack += reversed(below[key])
    # No workflow has a cycle, but a row may hold anything: vertices of a cycle are listed at the end.
    roots += [key for key, count in missing.items() if count]
    return _Forest(roots, children, below, alone)


class _Row(NamedTuple):
    """One line: its position and its vertices (several if they were folded)."""

    run: list[str]
    home: str | None  # the parent it is drawn below
    lead: str  # the text before it
    margin: str  # the text before all lines below it
    depth: int


def _places(known: dict[str, Vertex]) -> Iterator[_Row]:
    forest = _forest(known)
    runs = _runs(forest.roots, None, known, forest)
    stack = [_Row(run, None, "", "", 0) for run in reversed(runs)]
    while stack:
        place = stack.pop()
        yield place
        home = place.run[-1]
        below = forest.below[home]
        if len(forest.children[home]) == 1 and below and below[0] in forest.alone:
            stack.append(_Row(below, home, f"{place.margin}↓ ", place.margin, place.depth))
        else:
            runs = _runs(below, home, known, forest)
            stack += reversed([_branch(run, home, place, run is runs[-1]) for run in runs])


def _branch(run: list[str], home: str, above: _Row, last: bool) -> _Row:
    depth = above.depth + 1
    arm, space = ("└─ ", "   ") if last else ("├─ ", "│  ")
    if depth > DEEPEST:
        return _Row(run, home, f"{above.margin}⋯{depth:,} {arm}", above.margin, depth)
    return _Row(run, home, above.margin + arm, above.margin + space, depth)


def _runs(keys: list[str], home: str | None, known: dict[str, Vertex], forest: _Forest) -> list[list[str]]:
    """Siblings in groups: many equal ones without children together, all others one by one."""

    def kind(key: str) -> tuple[object, ...]:
        vertex = known[key]
        return (key,) if forest.below[key] else (vertex.label, vertex.state, _need(vertex, home))

    runs: list[list[str]] = []
    for _, group in groupby(keys, kind):
        run = list(group)
        runs += [run] if len(run) > LONGEST_RUN else [[key] for key in run]
    return runs


def _line(place: _Row, known: dict[str, Vertex]) -> str:
    first = known[place.run[0]]
    alike = all(known[key].parents == first.parents for key in place.run)
    if len(place.run) > 1:
        parts = [f"{_label(first.label)} ×{len(place.run):,}", first.state]
    else:
        parts = [_label(first.shown), _short(first.id), first.state]
    parts.append(_CONDITIONS[_need(first, place.home)])
    parts.append(_clean(first.note, LONGEST_NOTE) if len(place.run) == 1 else "")
    parts += _others(first, place.home, known) if alike else ["(after others too)"]
    return "  ".join(part for part in parts if part)


def _others(vertex: Vertex, home: str | None, known: dict[str, Vertex]) -> list[str]:
    """The parents below which this vertex is not drawn."""
    here: list[tuple[str, str]] = []
    elsewhere: list[tuple[str, str]] = []
    for parent, need in dict(vertex.parents).items():
        if parent not in known:
            elsewhere.append((_short(parent), _CONDITIONS[need]))
        elif parent != home:
            here.append((known[parent].shown, _CONDITIONS[need]))
    also = "after" if home is None else "also after"
    return [f"({also} {_named(here)})" if here else "", f"(after {_named(elsewhere)} elsewhere)" if elsewhere else ""]


def _named(parents: list[tuple[str, str]]) -> str:
    groups = Counter(parents)
    names: list[str] = []
    for (label, condition), count in islice(groups.items(), MOST_NAMED):
        times = f"×{count:,}" if count > 1 else ""
        names.append(" ".join(part for part in (_label(label), times, condition) if part))
    rest = sum(islice(groups.values(), MOST_NAMED, None))
    return ", ".join(names) + (f" and {rest:,} more" if rest else "")


def _need(vertex: Vertex, parent: str | None) -> Need | None:
    return None if parent is None else dict(vertex.parents)[parent]


def _nodes(known: dict[str, Vertex]) -> dict[str, str]:
    """A made-up name for each vertex, and for each parent that is not among them."""
    keys = dict.fromkeys(known)
    keys.update(dict.fromkeys(parent for vertex in known.values() for parent, _ in vertex.parents))
    return {key: f"n{number}" for number, key in enumerate(keys)}


def _edges(known: dict[str, Vertex]) -> Iterator[tuple[str, str, Need]]:
    for key, vertex in known.items():
        for parent, need in dict(vertex.parents).items():
            yield parent, key, need


def _caption(key: str, known: dict[str, Vertex]) -> list[str]:
    vertex = known.get(key)
    if vertex is None:
        return [_short(key), "elsewhere"]
    lines = [_label(vertex.shown), f"{_short(key)} {vertex.state}", _clean(vertex.note, LONGEST_NOTE)]
    return [line for line in lines if line]


def _clean(text: str, longest: int) -> str:
    cut = text if len(text) <= longest else text[: longest - 1] + "…"
    return "".join(c if c.isprintable() else "·" for c in cut).strip()


def _label(text: str) -> str:
    return _clean(text, LONGEST_LABEL) or "(no name)"


def _short(key: str) -> str:
    return _clean(key[-8:], 8)


def _dot(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;")


def _entities(text: str) -> str:
    return _NOT_MERMAID.sub(lambda found: f"#{ord(found[0])};", text)
