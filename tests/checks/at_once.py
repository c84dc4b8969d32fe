"""Holders at the same time: I4 (one attempt per job), I5 (so many holders per key), jobs that run alone."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

Who = TypeVar("Who")


class AtOnce(Generic[Who]):
    """The holders at this moment, by the name under which each began."""

    def __init__(self) -> None:
        self.holders: dict[Hashable, Who] = {}

    def begin(self, name: Hashable, who: Who) -> None:
        self.holders[name] = who

    def end(self, name: Hashable) -> None:
        """One that never began ends without a word."""
        self.holders.pop(name, None)

    def end_all(self, chosen: Callable[[Who], bool]) -> None:
        self.holders = {name: who for name, who in self.holders.items() if not chosen(who)}

    def beside(self, name: Hashable, counts: Callable[[Who], bool] = lambda who: True) -> list[Who]:
        """All others that count, in the order in which they began."""
        return [who for other, who in self.holders.items() if other != name and counts(who)]

    def crowd(
        self, name: Hashable, most: int | None, counts: Callable[[Who], bool] = lambda who: True
    ) -> list[Who] | None:
        """The others that leave no room for this one, if at most so many may hold at once. None: there is room."""
        beside = self.beside(name, counts)
        return beside if most is not None and len(beside) >= most else None


class Lasting(Protocol):
    @property
    def start(self) -> float: ...

    @property
    def last(self) -> float: ...


Span = TypeVar("Span", bound=Lasting)


class Meeting(NamedTuple, Generic[Span]):
    """One that began while others held."""

    one: Span
    beside: list[Span]


def meetings(spans: Sequence[Span], most: Callable[[Span], int] = lambda span: 1) -> list[Meeting[Span]]:
    """All that began when there was no room for them. A span that ends in the instant in which another one begins is
    over by then; one without any length is not over before those that begin in the same instant."""
    found: list[Meeting[Span]] = []
    now: AtOnce[Span] = AtOnce()
    for at, order, index in _events(spans):
        if order == _BEGIN:
            beside = now.crowd(index, most(spans[index]))
            if beside is not None:
                found.append(Meeting(spans[index], beside))
            now.begin(index, spans[index])
        else:
            assert at == spans[index].last
            now.end(index)
    return found


_END, _BEGIN, _END_AT_ONCE = 0, 1, 2


def _events(spans: Sequence[Lasting]) -> Iterable[tuple[float, int, int]]:
    begins = [(span.start, _BEGIN, index) for index, span in enumerate(spans)]
    ends = [(span.last, _END if span.start < span.last else _END_AT_ONCE, index) for index, span in enumerate(spans)]
    return sorted(begins + ends)
