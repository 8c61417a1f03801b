"""What the measures of one evaluation share, so that each question is asked at most once a round."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from hbus_console.alerts.targets import Target
from hbus_console.evidence import freshness
from hbus_console.evidence.freshness import Freshness

P = ParamSpec("P")
T = TypeVar("T")


class Round:
    """One evaluation, as measures see it. Not for several threads."""

    def __init__(self, now_ms: int, watching_ms: int, kept: dict[Callable[[], Any], Any] | None = None) -> None:
        #: When it is; epoch milliseconds.
        self.now_ms = now_ms
        #: Since when evaluations have gone on without a gap.
        self.watching_ms = watching_ms
        self._kept = {} if kept is None else kept
        self._read: dict[Hashable, Any] = {}

    def once(self, read: Callable[Concatenate[Round, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What ``read(round, …)`` gives, asked at the first use in this round and remembered to its end."""
        key = (read, args, tuple(kwargs.items()))
        if key not in self._read:
            self._read[key] = read(self, *args, **kwargs)
        found: T = self._read[key]
        return found

    def kept(self, make: Callable[[], T]) -> T:
        """What ``make()`` made at its first use: the same one in every round of this evaluator."""
        if make not in self._kept:
            self._kept[make] = make()
        found: T = self._kept[make]
        return found


class Case(NamedTuple):
    """What a measure is asked: one target under one rule."""

    round: Round
    target: Target
    #: Over how long the rule counts, in seconds; 0 for a kind that is not windowed.
    window_s: int
    #: Whether its alert fires already.
    firing: bool
    #: What its open alert was last measured at, and when; 0 and 0 without one.
    value: float = 0.0
    measured_ms: int = 0

    @property
    def since_ms(self) -> int:
        """Where the window begins."""
        return self.round.now_ms - self.window_s * 1000


def evidence(now: Round) -> Mapping[str, Freshness]:
    """Of when the evidence is that measures count, as :func:`~hbus_console.evidence.freshness.read`."""
    return freshness.read(now.now_ms)


def at_least(case: Case, count: float, known: bool) -> float | None:
    """``count``; where more may have come than is ``known``, it makes an alert worse and never better."""
    return count if known or (count and count >= case.value) else None
