"""What an audit looks at: a span, its windows, and up to when everything is there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.pipeline.audit.summing import SKEW_MS

MINUTE_MS = 60_000
#: Windows of a span have the shortest of these lengths of which it has no more than :data:`MOST`.
LENGTHS_MS = tuple(minutes * MINUTE_MS for minutes in (10, 60, 360, 1_440, 10_080, 43_200))
MOST = 400


@dataclass(slots=True)
class Counted:
    """Messages by window."""

    count: NDArray[np.int64]
    bytes: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Scope:
    """Of one topic. Times are epoch milliseconds; messages belong to it by when they happened."""

    from_ms: int
    to_ms: int
    #: What was stored before is in the lake, and so is what was told of it.
    closed_ms: int
    window_ms: int
    #: Nothing that was stored before is awaited any more, see :mod:`~engine.pipeline.audit.resting`.
    at_rest: bool = False

    @property
    def windows(self) -> int:
        return max(0, -(-(self.to_ms - self.from_ms) // self.window_ms))

    @property
    def closed_windows(self) -> int:
        """A producer's clock may be ahead of the store's: so much later a window gets no more."""
        closed = (self.closed_ms - SKEW_MS - self.from_ms) // self.window_ms
        return self.windows if self.is_closed else max(0, min(self.windows, closed))

    @property
    def is_closed(self) -> bool:
        return self.to_ms + (0 if self.at_rest else SKEW_MS) <= self.closed_ms

    def holds(self, at: NDArray[np.int64]) -> NDArray[np.bool_]:
        return (at >= self.from_ms) & (at < self.to_ms)

    def counts(self, at: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many there are in each window, of those that it holds."""
        return np.bincount((at - self.from_ms) // self.window_ms, minlength=self.windows)

    def counted(self, at: NDArray[np.int64], sizes: NDArray[np.int64], which: NDArray[np.bool_]) -> Counted:
        """The same of some, with what they weigh."""
        place = (at[which] - self.from_ms) // self.window_ms
        weighed = np.bincount(place, weights=sizes[which], minlength=self.windows).astype(np.int64)
        return Counted(np.bincount(place, minlength=self.windows), weighed)


def window_of(span_ms: int) -> int:
    """How long a window of such a span is."""
    return next((length for length in LENGTHS_MS if span_ms <= MOST * length), LENGTHS_MS[-1])
