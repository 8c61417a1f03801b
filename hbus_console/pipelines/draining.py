"""Up to when a subscription is done with what was stored, by what the keeper has read of it of late."""

from __future__ import annotations

from hbus_console.messages.models import LagSample

#: Whoever lives has told of what it did so long ago, milliseconds.
TOLD_MS = 15_000
#: A reading that is older says nothing of now.
_FRESH_MS = 15_000


def drained_ms(topic: str, group: str, now_ms: int) -> int:
    """What was stored before, epoch milliseconds, is settled, and was so :data:`TOLD_MS` ago; 0: nobody knows that."""
    begin_ms = now_ms - TOLD_MS - _FRESH_MS
    rows = LagSample.objects.filter(topic=topic, subscription=group, at_ms__gte=begin_ms, at_ms__lte=now_ms)
    # The oldest first: whatever was stored before it was settled by then, if nothing has been open since.
    readings = list(rows.order_by("at_ms").values_list("at_ms", "waiting", "in_flight", "retrying", "parked"))
    if not readings or readings[0][0] > now_ms - TOLD_MS or readings[-1][0] < now_ms - _FRESH_MS:
        return 0
    return readings[0][0] if all(each[1:] == (0, 0, 0, 0) for each in readings) else 0
