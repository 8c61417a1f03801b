"""The instants that a publish may ask for, as epoch milliseconds: when it is due, and until when it is wanted."""

from __future__ import annotations

from datetime import datetime

from engine.bus.errors import PublishRefused
from engine.bus.message import Message
from engine.bus.options import DELAY_HORIZON_DAYS, PublishOptions
from engine.core.clock import from_rfc3339

#: The farthest expiry, in days after the due time.
TTL_HORIZON_DAYS = 3_650

_DAY_MS = 86_400_000


def due_of(options: PublishOptions, now_ms: int) -> int:
    """Epoch milliseconds of the due time; 0 when the message is for now."""
    if options.delay_s is not None:
        if options.due is not None:
            raise PublishRefused("Both delay_s and due are given.", remedy="Give one of them.", field="due")
        # `not (x >= 0)` also refuses NaN.
        if not options.delay_s >= 0:
            raise PublishRefused("delay_s is negative.", remedy="Give seconds from now.", field="delay_s")
        if options.delay_s > DELAY_HORIZON_DAYS * 86_400:
            raise _beyond_horizon("delay_s")
        return now_ms + round(options.delay_s * 1000) if options.delay_s else 0
    if options.due is None:
        return 0
    due_ms = ms_of(options.due, "due")
    check_horizon(due_ms, now_ms)
    return due_ms


def check_horizon(due_ms: int, now_ms: int) -> None:
    """Refuse a due time farther away than the delay path reaches."""
    if due_ms - now_ms > DELAY_HORIZON_DAYS * _DAY_MS:
        raise _beyond_horizon("due")


def due_ms_of(message: Message) -> int:
    """The due time of an envelope in epoch milliseconds; 0 when it has none."""
    return from_rfc3339(message.hbusdue) if message.hbusdue else 0


def expires_ms_of(options: PublishOptions, from_ms: int) -> int:
    """Epoch milliseconds of the instant of expiry; the message is wanted from ``from_ms`` on."""
    assert options.expires is not None
    if options.ttl_s is not None:
        raise PublishRefused("Both ttl_s and expires are given.", remedy="Give one of them.", field="expires")
    expires_ms = ms_of(options.expires, "expires")
    if not 0 < expires_ms - from_ms <= TTL_HORIZON_DAYS * _DAY_MS:
        raise PublishRefused(
            f"The expiry lies before the message is wanted, or more than {TTL_HORIZON_DAYS} days after.",
            remedy="Give the instant after which nobody wants the message, or leave it out.",
            field="expires",
        )
    return expires_ms


def ms_of(moment: datetime, field: str) -> int:
    """The moment in epoch milliseconds; one without an offset is refused at ``field``."""
    if moment.tzinfo is None:
        raise PublishRefused(f"{field} has no UTC offset.", remedy="Use an aware datetime.", field=field)
    return round(moment.timestamp() * 1000)


def _beyond_horizon(field: str) -> PublishRefused:
    what = f"{field} lies more than {DELAY_HORIZON_DAYS} days ahead."
    return PublishRefused(what, remedy="Choose a nearer time; a job can publish it later.", field=field)
