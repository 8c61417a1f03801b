"""A small language that chooses messages: ``type == "booking.cancelled" and payload.nights > 3``.

No call leads out of it, it has no loops and no patterns, and both its text and its work are bounded, so that anybody
who may read payloads may be given it. ``docs/filters.md`` is its reference.
"""

from engine.bus.filters.judging import MessageFilter, compile_filter
from engine.bus.filters.lexing import FilterError

__all__ = ["FilterError", "MessageFilter", "compile_filter"]
