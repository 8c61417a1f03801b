"""What a handler may know about the attempt it runs in, and how a publish inside it inherits from its cause."""

from __future__ import annotations

from contextvars import ContextVar

import msgspec

from engine.bus.message import Message
from engine.core.ids import TraceParent, new_trace, parse_traceparent


class Context(msgspec.Struct, eq=False, gc=False):
    """One attempt. Made by the consumer; valid while the handler runs.

    ``attempt`` is 1 for the first. ``delivered_ms`` is the wall time at which the attempt began. ``lease_lost`` turns
    true when the delivery may have been given to another consumer (or the drain deadline has passed): a long handler
    should look at it between steps and give up.
    """

    message: Message
    topic: str
    group: str
    attempt: int
    delivered_ms: int
    lease_lost: bool = False
    _trace: TraceParent | None = None

    @property
    def replayed(self) -> bool:
        """Whether the message is a copy made by a redrive or a replay; ``causationid`` names the original."""
        return bool(self.message.hbusreplay)

    @property
    def correlation_id(self) -> str:
        """Shared by everything that goes back to the same beginning."""
        return self.message.correlationid or self.message.id

    @property
    def trace(self) -> TraceParent:
        """The span of this attempt: in the message's trace, or in a new one when it has none."""
        if self._trace is None:
            parent = parse_traceparent(self.message.traceparent)
            self._trace = parent.child() if parent else new_trace()
        return self._trace


_current: ContextVar[Context | None] = ContextVar("hbus_context", default=None)

#: Internal to the consumer: enters and leaves an attempt.
enter = _current.set
leave = _current.reset


#: ``current()``: the attempt this thread (or task) is running in, or ``None`` outside a handler.
current = _current.get
