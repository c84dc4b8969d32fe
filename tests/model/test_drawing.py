"""Workflows as text: every vertex once, below what it waits for, and no label can break out."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rota.model.drawing import (
    COLOURS,
    DEEPEST,
    LONGEST_LABEL,
    LONGEST_NOTE,
    LONGEST_RUN,
    Vertex,
    graphviz,
    mermaid,
    tree,
)
from rota.model.graph import Need
from rota.model.lifecycle import State

ALL = 10**30
HOSTILE = [
    'say "hi"', "back\\", "\\N\\G\\n", '"];', 'n0["x"]', '%%{init: {"theme": "dark"}}%%', "%% comment",
    'style a:"b', "classDef q:#f00;", "1. one", "- item", "**b** _c_ `d`", "<script>alert(1)</script>", "&lt;&amp;",
    "#quot;#35;", "\x1b[31mred\x1b[0m", "a\nb\r\nc\u2028d", "nul\0", "\ud800", "\u202eevil", "x" * 10_000, "", "  ",
    "}\n digraph {", "-->", "|x|", "n0:::failed", "├─ └─ │", "Straße 日本 e\u0301",
]  # fmt: skip

texts = st.text(st.characters(), max_size=80) | st.text('"\\&#;%{}[]()<>|`*_-~:@$ \n\x1b1nN', max_size=80)
texts = texts | st.sampled_from(HOSTILE)
needs = st.sampled_from(Need)
states = st.sampled_from(State)


def job(name: str, *parents: str, state: State = State.READY, need: Need = Need.SUCCESS, note: str = "") -> Vertex:
    """Its label is its id without what follows a slash."""
    return Vertex(name, name.split("/")[0], state, tuple((parent, need) for parent in parents), note)


@st.composite
def graphs(draw: st.DrawFn, most: int = DEEPEST) -> list[Vertex]:
    """Graphs in any order of their vertices, with labels that are found again in a line."""
    count = draw(st.integers(0, most))
    vertices = []
    for number in range(count):
        parents = draw(st.sets(st.integers(0, number - 1), max_size=4)) if number else set()
        edges = tuple((f"v{parent}", draw(needs)) for parent in sorted(parents))
        vertices.append(Vertex(f"v{number}", f"job{number}", draw(states), edges))
    return draw(st.permutations(vertices))


# The tree


def test_each_stands_below_its_last_parent_and_names_the_others() -> None:
    vertices = [
        job("start", state=State.SUCCEEDED, note="took 2s"),
        job("extract-1", "start", state=State.SUCCEEDED),
        job("extract-2", "start", state=State.RUNNING),
        job("extract-3", "start", state=State.RUNNING),
        job("load", "extract-1", "extract-2", "extract-3", state=State.BLOCKED),
        job("report", "load", state=State.BLOCKED),
        job("mail", "report", state=State.BLOCKED),
        job("page", "report", state=State.BLOCKED, need=Need.FAILURE),
        job("tidy", "extract-2", state=State.BLOCKED, need=Need.FINISH),
    ]
    assert tree(vertices) == [
        "start  start  succeeded  took 2s",
        "├─ extract-1  xtract-1  succeeded",
        "├─ extract-2  xtract-2  running",
        "│  └─ tidy  tidy  blocked  on finish",
        "└─ extract-3  xtract-3  running",
        "   └─ load  load  blocked  (also after extract-1, extract-2)",
        "      ↓ report  report  blocked",
        "      ├─ mail  mail  blocked",
        "      └─ page  page  blocked  on failure",
    ]


def test_nothing_is_drawn_as_nothing() -> None:
    assert tree([]) == []
    assert graphviz([], "").startswith("digraph")
    assert mermaid([]) == "flowchart TD\n"


def test_at_most_three_other_parents_are_named_and_equal_ones_are_counted() -> None:
    names = [f"p{number}" for number in range(6)]
    alone = [job(name) for name in names]
    assert tree([*alone, job("end", *names)])[-1] == "└─ end  end  ready  (also after p0, p1, p2 and 2 more)"
    assert tree([*alone[:4], job("end", *names[:4])])[-1] == "└─ end  end  ready  (also after p0, p1, p2)"
    pages = [f"page/{number}" for number in range(9)]
    alike = [job(name) for name in pages]
    assert tree([*alike, job("end", *pages)])[-1] == "└─ end  end  ready  (also after page ×8)"
    assert tree([*alike, job("end", *pages, need=Need.FINISH)])[-1] == (
        "└─ end  end  ready  on finish  (also after page ×8 on finish)"
    )


def test_parents_that_are_elsewhere_are_named_by_their_id() -> None:
    assert tree([job("a", "0190-aaaabbbb")]) == ["a  a  ready  (after aaaabbbb elsewhere)"]
    lines = tree([job("a"), job("b", "a", "0190-aaaabbbb", need=Need.FAILURE)])
    assert lines[1] == "↓ b  b  ready  on failure  (after aaaabbbb on failure elsewhere)"
    many = tree([job("a", *[f"outside{number}" for number in range(5)])])
    assert many == ["a  a  ready  (after outside0, outside1, outside2 and 2 more elsewhere)"]


def test_many_equal_siblings_are_one_line() -> None:
    pages = [f"resize/{number}" for number in range(9_998)]
    parts = [job(name, "split", state=State.SUCCEEDED) for name in pages]
    assert tree([job("split"), *parts]) == ["split  split  ready", "└─ resize ×9,998  succeeded"]
    assert tree([job("split"), *parts, job("join", *pages)]) == [
        "split  split  ready",
        "├─ resize ×9,997  succeeded",
        "└─ resize  ize/9997  succeeded",
        "   └─ join  join  ready  (also after resize ×9,997)",
    ]


def test_siblings_are_folded_only_if_more_than_twenty_follow_each_other() -> None:
    few = [job(f"a/{number}") for number in range(LONGEST_RUN)]
    more = job("a/more")
    assert len(tree(few)) == LONGEST_RUN
    assert tree([*few, more]) == [f"a ×{LONGEST_RUN + 1}  ready"]
    assert len(tree([*few, job("b"), more])) == LONGEST_RUN + 2
    assert len(tree([*few, job("a/more", state=State.FAILED)])) == LONGEST_RUN + 1
    assert len(tree([*few, more, job("b", "a/more")])) == LONGEST_RUN + 2


def test_a_fold_hides_no_need_and_no_other_parent() -> None:
    top = [job("top"), job("side", "top")]
    good = [job(f"a/{number}", "top") for number in range(30)]
    bad = [job(f"a/b{number}", "top", need=Need.FAILURE) for number in range(30)]
    assert tree([*top, *good, *bad])[2:] == ["├─ a ×30  ready", "└─ a ×30  ready  on failure"]
    both = [job(f"a/{number}", "top", "side") for number in range(30)]
    assert tree([*top, *both])[1:] == ["└─ side  side  ready", "   └─ a ×30  ready  (also after top)"]
    mixed = [job(f"a/{number}", "side", *["top"] * (number % 2)) for number in range(30)]
    assert tree([*top, *mixed])[1:] == ["└─ side  side  ready", "   └─ a ×30  ready  (after others too)"]


@given(graphs(30), st.integers(1, 40))
def test_a_limit_counts_lines_and_the_last_one_tells_the_rest(vertices: list[Vertex], limit: int) -> None:
    whole, cut = tree(vertices, ALL), tree(vertices, limit)
    assert cut[:limit] == whole[:limit]
    rest = len(vertices) - limit
    assert cut[limit:] == ([f"… and {rest} more, not shown"] if rest > 0 else [])


def test_what_is_not_shown_is_counted_in_vertices_not_in_lines() -> None:
    vertices = [job("top"), job("one", "top"), *[job(f"a/{number}", "top") for number in range(5_000)]]
    assert tree(vertices, 2)[2:] == ["… and 5,000 more, not shown"]
    assert len(tree(vertices, 3)) == 3


MARGIN = re.compile(r"((?:│  |   )*)(├─ |└─ |↓ )?job(\d+)  v\3  ")


@given(graphs())
def test_every_vertex_is_drawn_once_below_the_last_of_its_parents(vertices: list[Vertex]) -> None:
    by_id = {vertex.id: vertex for vertex in vertices}
    drawn: list[tuple[int, str]] = []
    for line in tree(vertices):
        found = MARGIN.match(line)
        assert found is not None, line
        margin, arm, number = found.groups()
        key, level = f"v{number}", len(margin) // 3 + (arm in ("├─ ", "└─ "))
        parents = [parent for parent, _ in by_id[key].parents]
        order = [before for _, before in drawn]
        assert set(parents) <= set(order)
        if arm is None:
            assert parents == []
        else:
            above = order[-1] if arm == "↓ " else next(name for deep, name in reversed(drawn) if deep == level - 1)
            assert above == max(parents, key=order.index)
        drawn.append((level, key))
    assert sorted(key for _, key in drawn) == sorted(by_id)


@given(graphs())
def test_every_branch_leads_on_to_the_line_below(vertices: list[Vertex]) -> None:
    lines = tree(vertices)
    for line, following in zip(lines, [*lines, ""][1:], strict=True):
        for column, sign in enumerate(line):
            if sign in "│├":
                assert following[column : column + 1] in set("│├└"), "\n".join(lines)


@given(graphs())
def test_every_other_parent_and_need_is_told(vertices: list[Vertex]) -> None:
    by_id = {vertex.id: vertex for vertex in vertices}
    for line in tree(vertices):
        found = MARGIN.match(line)
        assert found is not None, line
        vertex = by_id[f"v{found[3]}"]
        named = re.findall(r"job(\d+)", line)
        assert len(named) == max(len(vertex.parents), 1)
        for need in (Need.FINISH, Need.FAILURE):
            assert line.count(f"on {need}") == sum(given is need for _, given in vertex.parents)


def test_a_chain_is_a_list() -> None:
    vertices = [job("c0"), *[job(f"c{number}", f"c{number - 1}") for number in range(1, 10_000)]]
    lines = tree(vertices, ALL)
    assert lines[:2] == ["c0  c0  ready", "↓ c1  c1  ready"]
    assert lines[-1] == "↓ c9999  c9999  ready"
    assert lines == tree(vertices[::-1], ALL)


def test_what_is_very_deep_says_how_deep_it_is() -> None:
    pairs = [
        job(f"{row}-{side}", *([f"{row - 1}-a", f"{row - 1}-b"] if row else [])) for row in range(99) for side in "ab"
    ]
    lines = tree(pairs)
    assert lines[-1].lstrip() == "⋯98 └─ 98-b  98-b  ready  (also after 97-a)"
    assert len(lines) == len(pairs)


def test_a_parent_named_twice_is_one_parent() -> None:
    twice = Vertex("b", "b", State.READY, (("a", Need.SUCCESS), ("a", Need.FINISH)))
    assert tree([job("a"), twice]) == ["a  a  ready", "↓ b  b  ready  on finish"]
    assert graphviz([job("a"), twice], "").count("->") == 1


def test_a_circle_is_drawn_flat() -> None:
    vertices = [job("top"), job("a", "top", "c"), job("b", "a"), job("c", "b"), job("d", "c"), job("self", "self")]
    assert tree(vertices) == [
        "top  top  ready",
        "a  a  ready  (after top, c)",
        "b  b  ready  (after a)",
        "c  c  ready  (after b)",
        "d  d  ready  (after c)",
        "self  self  ready  (after self)",
    ]


def edges_at_random(draw: st.DrawFn) -> list[Vertex]:
    ids = [f"v{number}" for number in range(draw(st.integers(1, 8)))]
    parents = st.lists(st.tuples(st.sampled_from([*ids, "elsewhere"]), needs), max_size=4).map(tuple)
    return [Vertex(key, f"job {key}", draw(states), draw(parents)) for key in ids]


@given(st.composite(edges_at_random)())
def test_any_edges_at_all_can_be_drawn(vertices: list[Vertex]) -> None:
    lines = tree(vertices)
    assert sorted(re.findall(r"job (v\d)  v\d", "\n".join(lines))) == sorted(vertex.id for vertex in vertices)
    assert len(lines) == len(vertices)
    distinct = sum(len(dict(vertex.parents)) for vertex in vertices)
    assert graphviz(vertices, "").count("->") == distinct == len(re.findall("-->|-.->", mermaid(vertices)))


def _fan() -> list[Vertex]:
    middle = [f"m{number}" for number in range(9_998)]
    return [job("top"), *[job(name, "top") for name in middle], job("end", *middle)]


def _layers(width: int, reach: int) -> list[Vertex]:
    rows = range(10_000 // width)
    return [
        job(f"{row}-{column}", *([f"{row - 1}-{(column + step) % width}" for step in range(reach)] if row else []))
        for row in rows
        for column in range(width)
    ]


@pytest.mark.parametrize(
    "shape",
    [
        pytest.param(_fan, id="fan"),
        pytest.param(lambda: [job(f"r{number}") for number in range(10_000)], id="roots"),
        pytest.param(lambda: _layers(1, 1), id="chain"),
        pytest.param(lambda: _layers(2, 2), id="ladder"),
        pytest.param(lambda: _layers(100, 10), id="layers"),
        pytest.param(lambda: _layers(1_000, 3), id="wide"),
    ],
)
@pytest.mark.slow
def test_ten_thousand_vertices_are_drawn_at_once_and_narrow(shape: Callable[[], list[Vertex]]) -> None:
    vertices = shape()
    before = time.process_time()
    lines = tree(vertices)
    assert time.process_time() - before < 1
    assert len(lines) <= 1_001
    assert max(map(len, tree(vertices, ALL))) < 200
    before = time.process_time()
    graphviz(vertices, "big")
    mermaid(vertices)
    assert time.process_time() - before < 2


# Texts from outside


def _shown(text: str, longest: int = LONGEST_LABEL) -> str:
    cut = text if len(text) <= longest else text[: longest - 1] + "…"
    return "".join(sign if sign.isprintable() else "·" for sign in cut).strip()


def test_escapes_never_reach_the_terminal() -> None:
    vertex = Vertex("\x1b[2J\x07\x9b", "\x1b[31mred\n", State.READY, (("\r\u202e", Need.FINISH),), "\x00note\ud800")
    assert tree([vertex]) == ["·[31mred·  ·[2J··  ready  ·note·  (after ·· on finish elsewhere)"]


def test_long_texts_are_cut_and_empty_ones_have_a_word() -> None:
    (line,) = tree([Vertex("i", "l" * 10_000, State.READY, (), "n" * 10_000)])
    assert line == f"{'l' * (LONGEST_LABEL - 1)}…  i  ready  {'n' * (LONGEST_NOTE - 1)}…"
    assert tree([Vertex("i", " ", State.READY)]) == ["(no name)  i  ready"]


@given(st.text(min_size=1), texts, texts, st.text())
def test_whatever_the_texts_are_the_lines_can_be_printed(key: str, label: str, note: str, parent: str) -> None:
    one = Vertex(key, label, State.READY, ((parent, Need.FAILURE),), note)
    two = Vertex(key + "'", label, State.HELD, ((key, Need.SUCCESS), ("\x1b", Need.SUCCESS)), note)
    lines = tree([one, two])
    assert len(lines) == 2
    assert all(line.isprintable() for line in lines)
    for drawing in (graphviz([one, two], note), mermaid([one, two])):
        assert drawing.replace("\n", "").isprintable()
        assert drawing.encode()


DOT_NODE = re.compile(r'    (n\d+) \[label="((?:[^"\\]|\\.)*)", (?:fillcolor="#\w{6}"|style="rounded,dashed")\]')
DOT_EDGE = re.compile(r'    n\d+ -> n\d+(?: \[style=dashed\]| \[style=dotted, label="failure"\])?')
DOT_NAME = re.compile(r'    label="((?:[^"\\]|\\.)*)"')


def _dot_lines(text: str) -> list[str]:
    """A label as Graphviz shows it: `\\n` parts lines, any other backslash stands before what is meant."""
    shown = re.sub(r"\\(.)", lambda found: "\n" if found[1] == "n" else found[1], text)
    return shown.replace("&amp;", "&").split("\n")


@given(texts, texts)
@example("back\\", "\\")
@example('"', '\\"')
def test_graphviz_shows_each_text_as_it_is(label: str, note: str) -> None:
    vertices = [
        Vertex("a", label, State.FAILED, (), note),
        Vertex("b", note, State.READY, (("a", Need.FINISH),), label),
    ]
    first, name, at_top, look, one, two, edge, last, end = graphviz(vertices, label).split("\n")
    assert (first, at_top.strip(), look.strip()[:4], last, end) == ("digraph workflow {", "labelloc=t", "node", "}", "")
    titled = DOT_NAME.fullmatch(name)
    assert titled is not None
    assert _dot_lines(titled[1]) == [_shown(label) or "(no name)"]
    for number, (line, vertex) in enumerate(zip((one, two), vertices, strict=True)):
        found = DOT_NODE.fullmatch(line)
        assert found is not None, line
        caption = [
            _shown(vertex.label) or "(no name)",
            f"{vertex.id} {vertex.state}",
            _shown(vertex.note, LONGEST_NOTE),
        ]
        assert found[1] == f"n{number}"
        assert _dot_lines(found[2]) == [text for text in caption if text]
    assert DOT_EDGE.fullmatch(edge)


MERMAID_NODE = re.compile(r'    (n\d+)\["([^"]*)"\]:::(\w+)')


def _mermaid_lines(text: str) -> list[str]:
    return [re.sub(r"#(\d+);", lambda found: chr(int(found[1])), part) for part in text.split("<br/>")]


@given(texts, texts)
def test_mermaid_shows_each_text_as_it_is(label: str, note: str) -> None:
    vertices = [
        Vertex("a", label, State.FAILED, (), note),
        Vertex("b", note, State.READY, (("a", Need.FINISH),), label),
    ]
    first, one, two, edge, *classes, end = mermaid(vertices).split("\n")
    assert (first, edge, end) == ("flowchart TD", "    n0 -.-> n1", "")
    assert [line.split()[:2] for line in classes] == [["classDef", "ready"], ["classDef", "failed"]]
    for number, (line, vertex) in enumerate(zip((one, two), vertices, strict=True)):
        found = MERMAID_NODE.fullmatch(line)
        assert found is not None, line
        caption = [
            _shown(vertex.label) or "(no name)",
            f"{vertex.id} {vertex.state}",
            _shown(vertex.note, LONGEST_NOTE),
        ]
        assert (found[1], found[3]) == (f"n{number}", vertex.state)
        assert _mermaid_lines(found[2]) == [text for text in caption if text]
        assert re.fullmatch(r"(?:[\w -]|#\d+;|<br/>)*", found[2])  # nothing that Mermaid could take for its own


def test_edges_look_like_their_needs() -> None:
    vertices = [job("a"), *[job(need, "a", need=need) for need in Need]]
    dot, flow = graphviz(vertices, "x"), mermaid(vertices)
    assert "    n0 -> n1\n    n0 -> n2 [style=dashed]\n" in dot
    assert '    n0 -> n3 [style=dotted, label="failure"]\n' in dot
    assert "    n0 --> n1\n    n0 -.-> n2\n    n0 -.->|failure| n3\n" in flow


def test_every_state_has_a_colour_of_its_own() -> None:
    assert set(COLOURS) == set(State)
    assert len(set(COLOURS.values())) == len(State)
    vertices = [job(state, state=state) for state in State]
    dot, flow = graphviz(vertices, "x"), mermaid(vertices)
    for number, (state, colour) in enumerate((state, COLOURS[state]) for state in State):
        assert f'n{number} [label="{state}\\n{state[-8:]} {state}", fillcolor="{colour}"]' in dot
        assert f'n{number}["{state}<br/>{state[-8:]} {state}"]:::{state}\n' in flow
        assert f"classDef {state} fill:{colour}," in flow


def test_parents_elsewhere_are_nodes_of_their_own() -> None:
    vertices = [job("a", "0190-aaaabbbb"), job("b", "0190-aaaabbbb", "a")]
    dot, flow = graphviz(vertices, "x"), mermaid(vertices)
    assert '    n2 [label="aaaabbbb\\nelsewhere", style="rounded,dashed"]\n    n2 -> n0\n    n2 -> n1\n' in dot
    assert '    n2["aaaabbbb<br/>elsewhere"]:::elsewhere\n' in flow
    assert "classDef elsewhere" in flow
    assert "elsewhere" not in mermaid([job("a")])
