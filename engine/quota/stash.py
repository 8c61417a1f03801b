"""Where prepaid tokens lie: something that one C call takes one from, whole, whatever other threads do.

With the GIL that is ``next`` on :func:`itertools.repeat`, or a ``for`` over it that ends with its first turn: no other
thread runs between its test and its count, and it weighs the same for any number. Without the GIL iterators give more
than they have (measured: up to two thirds more); there it is the end of a list, which locks itself.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterator
from itertools import islice, repeat
from operator import length_hint
from typing import Any

#: Whether threads of this process take turns.
GIL: bool = getattr(sys, "_is_gil_enabled", lambda: not sysconfig.get_config_var("Py_GIL_DISABLED"))()


class CountedStash:
    """For builds with the GIL. What is kept is an iterator: each of its steps takes a token."""

    @staticmethod
    def of(n: int) -> Iterator[bool]:
        return repeat(True, n)

    @staticmethod
    def endless() -> Iterator[bool]:
        return repeat(True)

    @staticmethod
    def take(kept: Any, n: int) -> int:
        """Up to ``n``, in one go; how many."""
        return sum(islice(kept, n))

    left = staticmethod(length_hint)


class ListedStash:
    """For free-threaded builds. What is kept is a list: ``kept.pop()`` takes a token, or raises ``IndexError``."""

    @staticmethod
    def of(n: int) -> list[bool]:
        return [True] * n

    @staticmethod
    def endless() -> list[bool]:
        """None: there is no endless list. Whoever finds none asks its owner, who knows."""
        return []

    @staticmethod
    def take(kept: Any, n: int) -> int:
        taken = 0
        try:
            while taken < n:
                kept.pop()
                taken += 1
        except IndexError:
            pass
        return taken

    left = staticmethod(length_hint)
