"""What the live cells of all sets of scopes have in common: asked once in a poll, however many sets there are.

What hangs is then waited for once as well: the poller has one thread, and every open stream waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

_Answer = TypeVar("_Answer")

_known: ContextVar[dict[Callable[[], Any], Any] | None] = ContextVar("known in this poll", default=None)


@contextmanager
def one_poll() -> Iterator[None]:
    """Within it :func:`once_a_poll` remembers."""
    token = _known.set({})
    try:
        yield
    finally:
        _known.reset(token)


def once_a_poll(question: Callable[[], _Answer]) -> _Answer:
    """``question()``, however often it is asked in one poll; outside of one it is asked each time."""
    known = _known.get()
    if known is None:
        return question()
    if question not in known:
        known[question] = question()
    found: _Answer = known[question]
    return found
