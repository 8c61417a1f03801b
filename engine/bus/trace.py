"""W3C Trace Context, level 2: reading ``traceparent`` and making the next one.

A message carries the ``traceparent`` of the span that published it. Every attempt to handle it is a span of its own
in the same trace, and what the handler publishes hangs under that attempt.
"""

from __future__ import annotations

import random
import re
from typing import NamedTuple

_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_NO_TRACE = "0" * 32
_NO_SPAN = "0" * 16
#: Sampled, and the trace id is random (level 2).
NEW_FLAGS = "03"

# Ids need chance, not secrecy; the system's generator would cost more than the rest of a publish.
_rng = random.Random()  # noqa: S311


class TraceParent(NamedTuple):
    """The parts of a ``traceparent``."""

    trace_id: str
    span_id: str
    flags: str

    def __str__(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{self.flags}"

    def child(self) -> TraceParent:
        """The same trace, a new span."""
        return TraceParent(self.trace_id, new_span_id(), self.flags)


def new_span_id() -> str:
    """16 hex digits, never all zero."""
    return f"{_rng.getrandbits(64) or 1:016x}"


def new_trace() -> TraceParent:
    """The first span of a new trace."""
    return TraceParent(f"{_rng.getrandbits(128) or 1:032x}", new_span_id(), NEW_FLAGS)


def new_traceparents(count: int) -> list[str]:
    """The texts of so many :func:`new_trace`, made in one go: every publish outside a handler needs one."""
    digits = _rng.randbytes(24 * count).hex()
    made = []
    for at in range(0, 48 * count, 48):
        trace_id, span_id = digits[at : at + 32], digits[at + 32 : at + 48]
        given = span_id != _NO_SPAN and trace_id != _NO_TRACE
        made.append(f"00-{trace_id}-{span_id}-{NEW_FLAGS}" if given else str(new_trace()))
    return made


def parse(text: str) -> TraceParent | None:
    """The parts of ``text``, or ``None`` when the standard says to ignore it and start a new trace."""
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if version == "ff" or (version == "00" and more) or trace_id == _NO_TRACE or span_id == _NO_SPAN:
        return None
    return TraceParent(trace_id, span_id, flags)


def trace_id_of(traceparent: str) -> str:
    """The trace id of a ``traceparent``; empty when it is malformed. What lies between the dashes is not read."""
    if len(traceparent) == 55 and traceparent[2] == traceparent[35] == "-":
        return traceparent[3:35]
    return ""
