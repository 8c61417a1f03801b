from __future__ import annotations

from collections.abc import Sequence

import pytest

from engine.core.fact_sinks import SinkOnTheWay
from engine.core.facts import FactBatch


class Away:
    """A sink that fails so many times."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.taken: list[FactBatch] = []

    def write(self, facts: Sequence[FactBatch]) -> None:
        if self.times:
            self.times -= 1
            raise ConnectionError("away")
        self.taken += facts


class Noting(SinkOnTheWay):
    def __init__(self, sink: Away) -> None:
        super().__init__(sink)
        self.noted: list[FactBatch] = []

    def note(self, facts: Sequence[FactBatch]) -> None:
        self.noted += facts


def batch(kind: str) -> FactBatch:
    return FactBatch(kind, 0)


def test_what_is_offered_again_is_noted_once_and_at_the_first_time() -> None:
    sink = Noting(Away(2))
    facts = [batch("published")]
    for _ in range(2):
        with pytest.raises(ConnectionError):
            sink.write(facts)
        assert sink.noted == facts
    sink.write(facts)
    assert sink.noted == sink._sink.taken == facts  # type: ignore[attr-defined]


def test_the_same_list_is_noted_again_once_it_has_arrived() -> None:
    sink = Noting(Away(0))
    facts = [batch("published")]
    sink.write(facts)
    sink.write(facts)
    assert len(sink.noted) == 2
