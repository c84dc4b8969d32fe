"""The bus: everybody who subscribed hears of an event, whatever another does with it."""

from __future__ import annotations

import pytest

from rota.telemetry import events
from rota.telemetry.events import AttemptStarted, Bus, Event, NodeStopped


def kinds() -> list[type[Event]]:
    return [
        kind
        for kind in vars(events).values()
        if isinstance(kind, type) and issubclass(kind, Event) and kind is not Event
    ]


def test_all_subscribers_hear_in_the_order_in_which_they_came() -> None:
    heard: list[tuple[str, Event]] = []
    bus, event = Bus(), NodeStopped("box")
    for name in "ab":
        bus.subscribe(lambda event, name=name: heard.append((name, event)))  # type: ignore[misc]
    bus.emit(event)
    assert heard == [("a", event), ("b", event)]


def test_a_subscriber_that_fails_keeps_nobody_from_hearing() -> None:
    heard: list[Event] = []

    def fail(event: Event) -> None:
        raise ValueError("a mistake of a subscriber")

    bus = Bus()
    bus.subscribe(fail)
    bus.subscribe(heard.append)
    bus.emit(NodeStopped("box"))
    assert heard == [NodeStopped("box")]


def test_without_subscribers_nothing_happens() -> None:
    Bus().emit(AttemptStarted("job", "task", 1))


@pytest.mark.parametrize("kind", kinds())
def test_events_are_values(kind: type[Event]) -> None:
    """They cross threads: nobody may change one that another has yet to hear of."""
    assert kind.__struct_config__.frozen
