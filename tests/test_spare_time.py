"""Time to spare, as the kernel's counters tell it."""

from __future__ import annotations

from rota.spare_time import SpareTime


def test_it_is_short_while_little_is_idle() -> None:
    said = ["cpu  100 0 50 1000 10 0 0 0 0 0\ncpu0 ..."]
    spare = SpareTime(lambda: said[-1])
    assert not spare.is_short(), "one look tells nothing"
    said.append("cpu  180 10 60 1002 12 0 0 0 0 0\n")
    assert spare.is_short()
    said.append("cpu  181 10 60 1003 12 0 0 0 0 0\n")
    assert spare.is_short(), "too little time has passed to tell"
    said.append("cpu  200 10 60 1080 12 0 0 0 0 0\n")
    assert not spare.is_short()


def test_where_the_kernel_does_not_tell_there_is_time() -> None:
    spare = SpareTime(lambda: "")
    assert not spare.is_short()
    assert not spare.is_short()


def test_the_kernel_of_this_machine_tells() -> None:
    spare = SpareTime()
    assert spare.is_short() in (True, False)
    assert spare._all > 0
