"""Sinks that do something of their own with facts on their way to the next sink."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from engine.core.facts import FactBatch, FactSink


class SinkOnTheWay(ABC):
    """Takes note of facts and passes them on to ``sink``, which may fail and be offered the same again.

    What is offered again is noted once. For one thread, as every :class:`FactSink`.
    """

    def __init__(self, sink: FactSink) -> None:
        self._sink = sink
        self._noted: Sequence[FactBatch] | None = None

    def write(self, facts: Sequence[FactBatch]) -> None:
        # Noted first: notes must go on while the store is away.
        if facts is not self._noted:
            self.note(facts)
            self._noted = facts
        self._sink.write(facts)
        self._noted = None

    @abstractmethod
    def note(self, facts: Sequence[FactBatch]) -> None:
        """Do what is to be done with them."""
