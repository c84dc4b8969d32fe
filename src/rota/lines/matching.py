"""The lines of a segment that fit a condition.

What concerns the job, the stream and the attempt is decided for each track; tracks for which nothing is left are not
looked at, nor are marks of cut output. The others are scanned in pieces of some hundred lines: each text once over the
whole piece, which gives a set of lines, and the sets are joined as the condition says. `evaluate.line_holds` decides
the same for one line, and decides here too when few lines are left.

Nothing here excludes by the index of words; `needs` says what that may exclude.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from rota.lines.levels import hint, level_of
from rota.lines.scans import by_lines, in_lines, with_regex, with_text
from rota.lines.segment import Track
from rota.lines.sheet import Line, Sheet
from rota.model.query.evaluate import OutputLine, line_fits, line_holds
from rota.model.query.fields import LEVELS
from rota.model.query.normal import Leaf, fields_in, replaced
from rota.model.query.tree import EVERYTHING, NOTHING, All, Any, Condition, Not, Seek, Term, Text
from rota.store.values import CUT

# A step of the search: a search can stop or let others go on between two.
PIECE = 256 << 10
# So many lines are looked at one by one.
FEW = 40


class Piece(NamedTuple):
    """Whole lines: from the beginning of one to the line feed of another."""

    begin: int
    end: int
    condition: Condition


def find(sheet: Sheet, left: Mapping[str, Condition], attempts: Mapping[tuple[str, int], int]) -> Iterator[list[Line]]:
    """The lines that fit, piece by piece, in the order of the text.

    `left`: for each job what its lines must fit (`evaluate.left_for_lines`); a job that is not there has none.
    `attempts`: the number of each attempt, by job and fence."""
    for piece in pieces(sheet, left, attempts):
        found = Lines(sheet, piece).fitting(piece.condition)
        yield [sheet.line(start) for start in sorted(found)]


def pieces(sheet: Sheet, left: Mapping[str, Condition], attempts: Mapping[tuple[str, int], int]) -> Iterator[Piece]:
    """What has to be scanned: tracks side by side with the same condition are one piece up to its size, and a longer
    track is several."""
    begin, end = 0, -1
    condition: Condition = NOTHING
    for place, wanted in enumerate(_of_tracks(sheet.tracks, left, attempts)):
        if wanted != condition or end - begin > PIECE:
            yield from _cut(sheet, begin, end, condition)
            begin, condition = sheet.seen_begin(place), wanted
        end = sheet.seen_end(place)
    yield from _cut(sheet, begin, end, condition)


def _cut(sheet: Sheet, begin: int, end: int, condition: Condition) -> Iterator[Piece]:
    while condition != NOTHING and begin <= end:
        stop = sheet.seen.find(b"\n", min(begin + PIECE, end), end)
        stop = end if stop < 0 else stop
        yield Piece(begin, stop, condition)
        begin = stop + 1


def _of_tracks(
    tracks: Iterable[Track], left: Mapping[str, Condition], attempts: Mapping[tuple[str, int], int]
) -> Iterator[Condition]:
    decided: dict[tuple[int, str, int | None], Condition] = {}
    for track in tracks:
        condition = NOTHING if track.stream == CUT else left.get(track.job_id, NOTHING)
        number = attempts.get((track.job_id, track.fence))
        key = id(condition), track.stream, number
        if key not in decided:
            decided[key] = _of_track(condition, track.stream, number)
        yield decided[key]


def _of_track(condition: Condition, stream: str, number: int | None) -> Condition:
    if not {"stream", "attempt"} & fields_in(condition):
        return condition
    line = None if number is None else OutputLine("", 0, stream, number)

    def decide(leaf: Leaf) -> Condition:
        if isinstance(leaf, Text) or leaf.field not in ("stream", "attempt"):
            return leaf
        seen = OutputLine("", 0, stream, 0) if leaf.field == "stream" else line
        return EVERYTHING if line_fits(leaf, seen) else NOTHING

    return replaced(condition, decide)


class Lines:
    """The lines of a piece, as sets of the places where they begin."""

    def __init__(self, sheet: Sheet, piece: Piece) -> None:
        self._sheet = sheet
        self._begin, self._end = piece.begin, piece.end
        self._every: frozenset[int] | None = None
        self._times: dict[int, set[int]] | None = None  # the lines of each time: a query may have many conditions on it

    @property
    def every(self) -> frozenset[int]:
        if self._every is None:
            self._every = frozenset(self._sheet.starts(self._begin, self._end))
        return self._every

    def fitting(self, condition: Condition) -> set[int] | frozenset[int]:
        match condition:
            case All(()):
                return self.every
            case All(of):
                return self._all(sorted(of, key=_cost))
            case Any(of):
                return set().union(*map(self.fitting, of))
            case Not(of):
                return self.every - self.fitting(of)
            case Text():
                return self._with(condition)
            case Term(field="level"):
                return self._of_level(condition)
            case Term():
                return self._at(condition)

    def _all(self, parts: list[Condition]) -> set[int] | frozenset[int]:
        found = self.fitting(parts[0])
        for place, part in enumerate(parts[1:], 1):
            if len(found) <= FEW:
                rest = All(tuple(parts[place:]))
                return {start for start in found if line_holds(rest, self._line(start))}
            found = found & self.fitting(part)
        return found

    def _line(self, start: int) -> OutputLine:
        line = self._sheet.line(start)
        return OutputLine(line.text, line.at, line.stream, 0, line.level)

    def _with(self, text: Text) -> set[int]:
        if text.seek is not Seek.REGEX:
            return with_text(self._sheet.lowered, self._begin, self._end, text)
        if not by_lines(text.text):
            return {start for start in self.every if line_holds(text, self._line(start))}
        found = with_regex(self._sheet.seen, self._begin, self._end, in_lines(text.text))
        return found - self._sheet.unreal

    def _of_level(self, term: Term) -> set[int] | frozenset[int]:
        """Most lines have no name of the level in them, so most are not looked at."""
        if term.value is None:
            return self.every - self._of_levels(LEVELS)
        fitting = tuple(level for level in LEVELS if line_fits(term, OutputLine("", 0, "", 0, level)))
        return self._of_levels(fitting)

    def _of_levels(self, levels: tuple[str, ...]) -> set[int]:
        if not levels:
            return set()
        hinted = with_regex(self._sheet.seen, self._begin, self._end, hint(levels))
        return {start for start in hinted if self._level(start) in levels}

    def _level(self, start: int) -> str | None:
        end = self._sheet.seen.find(b"\n", start)
        return level_of(self._sheet.seen[start:end], self._sheet.stream(start))

    def _at(self, term: Term) -> set[int]:
        if self._times is None:
            self._times = defaultdict(set)
            for start in self.every:
                self._times[self._sheet.at(start)].add(start)
        return set().union(*(some for at, some in self._times.items() if line_fits(term, OutputLine("", at, "", 0))))


def _cost(condition: Condition) -> int:
    """Conditions that leave few lines for little work come first."""
    match condition:
        case Text(Seek.REGEX):
            return 1
        case Text():
            return 0
        case Term(field="level"):
            return 2
        case Not() | Term():
            return 3
        case All(of) | Any(of):
            return max(map(_cost, of), default=3)
