"""What every audit entry and log line of one request shares."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass(frozen=True)
class RequestContext:
    """Ids of the request at hand; empty outside of one."""

    request_id: str = ""
    correlation_id: str = ""
    address: str = ""
    #: What was asked for and not done because it stood so already: a sentence each, for the person who asked.
    undone: list[str] = field(default_factory=list, compare=False)
    #: What was decided and is not there yet, because the store did not take it; the keeper sees to it later.
    owed: list[str] = field(default_factory=list, compare=False)
    #: Not empty where it is a repeat, of a request of which nobody knows whether it was done: the ids of that and of
    #: its repeats before this one, as far as they may have done something.
    repeated: list[str] = field(default_factory=list, compare=False)


_NONE = RequestContext()
_current: ContextVar[RequestContext] = ContextVar("hbus_request", default=_NONE)


def current() -> RequestContext:
    return _current.get()


def note_undone(say: Callable[[], str]) -> None:
    """Keep the sentence for whoever sent the request at hand; outside of one nobody is there to be told."""
    if (request := current()) is not _NONE:
        request.undone.append(say())


def note_owed(what: str) -> None:
    """Keep that the request at hand decided what the store has still to be told."""
    if (request := current()) is not _NONE:
        request.owed.append(what)


def as_it_is(said: str) -> str:
    """What is told of an act: ``said``, or that it holds only once the store has taken it."""
    if not current().owed:
        return said
    return f"Decided, and done once the store takes it, which it does not just now: {said}"


def note_repeat(tries: Sequence[str]) -> None:
    """Keep that the request at hand repeats those with these ids, whose answers nobody had."""
    if (request := current()) is not _NONE:
        request.repeated.extend(tries)


@contextmanager
def bound(context: RequestContext) -> Iterator[RequestContext]:
    """Make ``context`` current for the block."""
    token = _current.set(context)
    try:
        yield context
    finally:
        _current.reset(token)
