"""When topics were last published to, remembered from round to round of the alert rules."""

from __future__ import annotations

from django.db.models import Max

from hbus_console.messages.models import FlowSample

#: Facts may be booked so much later than they happened.
LATE_MS = 60_000
BUCKET_MS = FlowSample.BUCKET_S * 1000


class Pulse:
    """Asks once for each topic, and then only for what is new. Not for several threads."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        self._through_ms = 0

    def last_ms(self, topic: str, now_ms: int) -> int:
        """Epoch milliseconds; 0 when it was never published to as far as the ledger remembers."""
        if self._through_ms != now_ms:
            self._refresh(now_ms)
        if topic not in self._last:
            rows = FlowSample.objects.filter(topic=topic, subscription="", published__gt=0)
            found = rows.order_by("-bucket_ms").values_list("bucket_ms", flat=True).first()
            self._last[topic] = 0
            if found is not None:
                self._note(topic, found, now_ms)
        return self._last[topic]

    def _refresh(self, now_ms: int) -> None:
        if self._last:
            fresh = (
                FlowSample.objects.filter(bucket_ms__gte=self._through_ms - LATE_MS, subscription="", published__gt=0)
                .values_list("topic")
                .annotate(latest=Max("bucket_ms"))
                .order_by()
            )
            for topic, bucket_ms in fresh:
                self._note(topic, bucket_ms, now_ms)
        self._through_ms = now_ms

    def _note(self, topic: str, bucket_ms: int, now_ms: int) -> None:
        self._last[topic] = max(self._last.get(topic, 0), min(bucket_ms + BUCKET_MS, now_ms))
