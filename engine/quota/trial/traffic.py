"""When calls come, by the shape of the traffic. The same traffic is the same moments, however often it is asked."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

#: How fine a rate that changes is followed, in seconds.
_STEP_S = 0.01


class Shape(StrEnum):
    """How many come a second, over time."""

    #: The rate, evenly.
    STEADY = "steady"
    #: The rate evenly, and as many as the peak says all at once after a third of the time.
    BURST = "burst"
    #: From the rate to the peak, straight.
    RAMP = "ramp"
    #: Up and down between the rate and the peak, three times.
    WAVES = "waves"
    #: The rate, and the peak in the middle third.
    FLOOD = "flood"


@dataclass(frozen=True, slots=True)
class Traffic:
    """``rate`` and ``peak`` are calls a second (the peak of a burst: calls), each of ``tokens``, for ``seconds``."""

    shape: Shape
    rate: float
    seconds: float
    peak: float = 0.0
    tokens: int = 1

    @property
    def calls(self) -> float:
        """How many there are, about."""
        means = {
            Shape.STEADY: self.rate,
            Shape.BURST: self.rate + self.peak / self.seconds,
            Shape.RAMP: (self.rate + self.peak) / 2,
            Shape.WAVES: (self.rate + self.peak) / 2,
            Shape.FLOOD: (2 * self.rate + self.peak) / 3,
        }
        return means[self.shape] * self.seconds

    def rate_at(self, second: float) -> float:
        """Calls a second then, but for those of a burst."""
        part = second / self.seconds
        if self.shape is Shape.RAMP:
            return self.rate + (self.peak - self.rate) * part
        if self.shape is Shape.WAVES:
            return self.rate + (self.peak - self.rate) * (1 - math.cos(part * 6 * math.pi)) / 2
        if self.shape is Shape.FLOOD and 1 / 3 <= part < 2 / 3:
            return self.peak
        return self.rate

    def moments(self) -> Iterator[float]:
        """When each call comes, in seconds from the beginning."""
        due, burst_at = 0.0, self.seconds / 3 if self.shape is Shape.BURST else math.inf
        for step in range(math.ceil(self.seconds / _STEP_S)):
            second = step * _STEP_S
            if second >= burst_at:
                burst_at = math.inf
                yield from (second for _ in range(round(self.peak)))
            length = min(_STEP_S, self.seconds - second)
            come = self.rate_at(second) * length
            whole = math.floor(due + come + 1e-9)
            yield from (second + length * min(1.0, (number - due) / come) for number in range(1, whole + 1))
            due += come - whole
