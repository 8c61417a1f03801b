"""What became of one alert, as a timeline and as a chart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hbus_console.alerts.kinds import kind_named
from hbus_console.alerts.models import Alert, Notification, Silence
from hbus_console.ui.formats import duration


@dataclass(frozen=True)
class AlertMoment:
    """One thing that happened."""

    at_ms: int
    tone: str
    text: str
    note: str = ""


def moments(alert: Alert) -> list[AlertMoment]:
    """From the first sign to the end, in order."""
    kind = kind_named(alert.kind)
    at_once = alert.fired_ms == alert.began_ms
    note = "" if at_once else "from here on it was pending"
    told = [AlertMoment(alert.began_ms, "warn", f"Reached {kind.said(alert.threshold)}", note)]
    if alert.fired_ms:
        lasted = "at once" if at_once else f"after {duration((alert.fired_ms - alert.began_ms) * 1000)}"
        told.append(AlertMoment(alert.fired_ms, "bad", "Fired", lasted))
    told += [_sent(row) for row in alert.notifications.select_related("channel").order_by("pk")[:50]]
    if alert.acknowledged_ms:
        told.append(
            AlertMoment(
                alert.acknowledged_ms,
                "act",
                f"Acknowledged by {alert.acknowledged_by}",
                f"“{alert.acknowledged_note}”" if alert.acknowledged_note else "",
            )
        )
    silences = Silence.objects.filter(
        subject_kind=alert.subject_kind,
        namespace=alert.namespace,
        subject_name=alert.subject_name,
        until_ms__gte=alert.began_ms,
    ).order_by("pk")
    for it in silences[:50]:
        if it.rule_id in (None, alert.rule_id) and (not alert.resolved_ms or it.began_ms <= alert.resolved_ms):
            span = duration((it.until_ms - it.began_ms) * 1000)
            told.append(AlertMoment(it.began_ms, "act", f"Silenced by {it.by} for {span}", f"“{it.reason}”"))
    if alert.better_ms and not alert.resolved_ms:
        told.append(AlertMoment(alert.better_ms, "ok", "Below the threshold", "it is over once that has lasted"))
    if alert.resolved_ms:
        lasted = duration((alert.resolved_ms - (alert.fired_ms or alert.began_ms)) * 1000)
        told.append(AlertMoment(alert.resolved_ms, "ok", f"Over, after {lasted}", alert.over_because))
    return sorted(told, key=lambda it: it.at_ms)


def chart(alert: Alert) -> dict[str, Any]:
    """What charts.js draws: the readings, the threshold, and marks for what happened."""
    kind = kind_named(alert.kind)
    rows = list(alert.readings.order_by("at_ms").values_list("at_ms", "value"))
    if alert.measured_ms > (rows[-1][0] if rows else 0):
        rows.append((alert.measured_ms, alert.value))
    marks = [(alert.fired_ms, "fired"), (alert.acknowledged_ms, f"acknowledged by {alert.acknowledged_by}")]
    marks.append((alert.resolved_ms, "over"))
    return {
        "t": [at_ms // 1000 for at_ms, _ in rows],
        "unit": {"seconds": "s", "minutes": "m"}.get(kind.unit, ""),
        "series": [
            {
                "name": kind.title.lower(),
                "tone": "accent",
                "values": [max(value, 0) for _, value in rows],
                "area": True,
                # Of what is counted there is nothing between one and two.
                "steps": all(value == int(value) for _, value in rows) and kind.unit not in ("seconds", "minutes"),
            },
            {"name": "threshold", "tone": "bad", "values": [alert.threshold] * len(rows)},
        ],
        "marks": [{"t": at_ms // 1000, "label": label} for at_ms, label in marks if at_ms],
    }


def _sent(row: Notification) -> AlertMoment:
    what = {"fired": "firing", "resolved": "end"}.get(row.event, row.event)
    if row.state == Notification.State.SENT:
        return AlertMoment(row.sent_ms, "ok", f"{row.channel.name} was told of its {what}", row.answer)
    if row.state == Notification.State.WAITING:
        note = f"{row.answer}; tried {row.attempts} times" if row.attempts else "not tried yet"
        return AlertMoment(row.made_ms, "warn", f"{row.channel.name} is to be told of its {what}", note)
    return AlertMoment(row.made_ms, "bad", f"{row.channel.name} could not be told of its {what}", row.answer)
