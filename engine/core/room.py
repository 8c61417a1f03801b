"""How much of what waits is taken at once, by what it weighs."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate


def fitting(sizes: Iterable[int], room: int) -> int:
    """How many of the first come to no more than ``room``; one at least, where there is one: it is taken alone."""
    number = 0
    for total in accumulate(sizes):
        if number and total > room:
            break
        number += 1
    return number
