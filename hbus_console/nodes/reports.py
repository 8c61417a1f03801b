"""What readers of a stamp may rely on in its detail, whatever release or stranger has written it."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

import msgspec
from msgspec import Meta

from engine.core.error_text import text_of
from engine.core.facts import Moment
from engine.core.prepared import prepared

Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
#: Within thirty years: more is no duration, and may be no number that can be reckoned with.
Seconds = Annotated[float, Meta(ge=-1e9, le=1e9)]


class Hung(TypedDict, total=False):
    """A handler that does not return."""

    running_s: Seconds
    given_up: bool


class Consumer(TypedDict, total=False):
    """A consumer of one subscription."""

    topic: str
    group: str
    state: str
    in_flight: Count | None
    unsettled: Count
    handled: Count
    failed: Count
    concurrency: Count
    rate: Seconds
    loop_age_s: Seconds
    turned_ms: Moment | None
    hung: list[Hung]
    last_error: str | None
    last_error_ms: Moment
    recovered_ms: Moment


class Idle(TypedDict, total=False):
    """A subscription that the node might run and does not."""

    topic: str
    group: str
    why: str


class Duty(TypedDict, total=False):
    """A duty of the keeper."""

    name: str
    state: str
    ticks: Count | None
    failures: Count | None
    last_tick_ms: Moment | None
    last_tick_s: Seconds | None
    last_error: str | None


class Report(TypedDict, total=False):
    """The detail of a stamp: any of these, and whatever else its role tells."""

    consumers: list[Consumer]
    idle: list[Idle]
    duties: list[Duty]
    open: Count
    #: Of a node that decides slots: jobs it knows, runs it opened, what did not answer, and what it cannot decide.
    jobs: Count
    opened: Count
    trouble: str
    failing: dict[str, str]
    #: Of a worker: how many runs it does at the same time.
    processes: Count


def why_unreadable(detail: dict[str, Any]) -> str:
    """In which way ``detail`` is no :class:`Report`; empty when it is one."""
    try:
        msgspec.convert(detail, prepared(Report))
    except (msgspec.ValidationError, RecursionError) as error:
        return text_of(error)
    return ""
