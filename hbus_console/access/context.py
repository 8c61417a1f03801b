"""What every audit entry and log line of one request shares."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True)
class RequestContext:
    """Ids of the request at hand; empty outside of one."""

    request_id: str = ""
    correlation_id: str = ""
    address: str = ""


_NONE = RequestContext()
_current: ContextVar[RequestContext] = ContextVar("hbus_request", default=_NONE)


def current() -> RequestContext:
    return _current.get()


@contextmanager
def bound(context: RequestContext) -> Iterator[RequestContext]:
    """Make ``context`` current for the block."""
    token = _current.set(context)
    try:
        yield context
    finally:
        _current.reset(token)
