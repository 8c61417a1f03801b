"""How many messages, and what they weigh: from arrays by window to what a report says."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from engine.pipeline.audit.report import Amount
from engine.pipeline.audit.scope import Counted


def summed(parts: Iterable[Counted]) -> Counted:
    """Of several ranges together."""
    every = list(parts)
    return Counted(np.sum([part.count for part in every], axis=0), np.sum([part.bytes for part in every], axis=0))


def amount_of(counted: Counted, window: int) -> Amount:
    """In one window."""
    return Amount(int(counted.count[window]), int(counted.bytes[window]))


def total_of(counted: Counted) -> Amount:
    """In all of them."""
    return Amount(int(counted.count.sum()), int(counted.bytes.sum()))


def share_of(some: int, of: int) -> float | None:
    """What part that is, 0 to 1; ``None``: of nothing."""
    return some / of if of else None
