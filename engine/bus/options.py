"""What a producer may ask for a message beyond its payload."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from engine.bus.transport import Priority

#: The farthest due time, in days: two years, the reach of the delay service's coarsest level.
DELAY_HORIZON_DAYS = 730


class PublishOptions(msgspec.Struct, frozen=True):
    """Options of one message; everything may be left out.

    ``delay_s`` and ``due`` exclude each other; a due time beyond :data:`DELAY_HORIZON_DAYS` is refused. ``headers``
    become CloudEvents extension attributes: names of a-z and 0-9 (at most 20), values text.
    """

    type: str = ""
    key: str = ""
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    delay_s: float | None = None
    due: datetime | None = None
    priority: Priority = Priority.NORMAL
    #: Seconds until nobody wants the message any more, counted from its due time.
    ttl_s: float | None = None
    #: The same as an instant; excludes ``ttl_s``.
    expires: datetime | None = None
    idempotency_key: str = ""
    #: Remember the key for so many seconds at least, where the topic's window is shorter.
    idempotency_at_least_s: int = 0
    correlation_id: str = ""
    causation_id: str = ""
    traceparent: str = ""
    tracestate: str = ""
    subject: str = ""
    #: Its place among those of its key, as the producer counts.
    sequence: str = ""
    #: The schema that the producer wrote it by. A topic with a schema of its own takes no other.
    dataschema: str = ""
    #: Refused where the topic's is another: left out, it is the topic's.
    classification: str = ""
    #: When it happened; now when left out.
    time: datetime | None = None
    #: Who says so; the producer's own source when left out.
    source: str = ""
    #: A fresh ULID when left out.
    message_id: str = ""


#: Nothing asked for.
NO_OPTIONS = PublishOptions()
