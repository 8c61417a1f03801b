"""Which alerts nobody is to be told of now."""

from __future__ import annotations

from engine.core.subject import Subject
from hbus_console.alerts.models import Alert, Silence


class Silenced:
    """The silences of one instant, read once."""

    def __init__(self, now_ms: int) -> None:
        self._by_subject: dict[Subject, list[Silence]] = {}
        for silence in Silence.objects.filter(until_ms__gt=now_ms):
            self._by_subject.setdefault(silence.subject, []).append(silence)

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self._by_subject)

    def of(self, alert: Alert) -> Silence | None:
        """The silence that holds ``alert``; the longest when there are several."""
        fitting = [it for it in self._by_subject.get(alert.subject, ()) if it.rule_id in (None, alert.rule_id)]
        return max(fitting, key=lambda it: it.until_ms, default=None)

    def holds(self, alert: Alert) -> bool:
        return self.of(alert) is not None
