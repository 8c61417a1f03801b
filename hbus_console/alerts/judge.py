"""The life of one alert: pending, firing, resolved. Nothing here reads a clock, a database or a setting."""

from __future__ import annotations

from hbus_console.alerts.models import Alert, Rule
from hbus_console.alerts.targets import Target

#: After a gap nothing fires for so long: evidence is caught up and what had merely waited is handled first.
SETTLE_MS = 60_000
#: An alert keeps a reading at most this often, and about so many over its whole life.
READ_EVERY_MS, READINGS = 10_000, 240


def met(rule: Rule, value: float) -> bool:
    """Whether the condition holds."""
    return value >= rule.threshold


def begin(rule: Rule, target: Target, value: float, now_ms: int) -> Alert:
    """The alert of a condition that has just been met; :func:`advance` decides whether it fires at once."""
    return Alert(
        rule=rule,
        rule_name=rule.name,
        kind=rule.kind,
        severity=rule.severity,
        subject_kind=target.subject.kind,
        namespace=target.subject.namespace,
        subject_name=target.subject.name,
        state=Alert.State.PENDING,
        threshold=rule.threshold,
        value=value,
        peak=value,
        began_ms=now_ms,
        measured_ms=now_ms,
    )


def advance(alert: Alert, rule: Rule, value: float, now_ms: int, watching_ms: int) -> bool:
    """Take a new value in. ``False``: it was pending and is over, so it never was.

    What lasted while nobody looked, before ``watching_ms``, does not count towards the rule's ``for``.
    """
    alert.value, alert.peak, alert.measured_ms = value, max(alert.peak, value), now_ms
    alert.threshold, alert.severity, alert.rule_name = rule.threshold, rule.severity, rule.name
    if alert.state == Alert.State.PENDING:
        if not met(rule, value):
            return False
        lasted_ms = now_ms - max(alert.began_ms, watching_ms)
        if lasted_ms >= rule.for_s * 1000 and now_ms - watching_ms >= SETTLE_MS:
            alert.state, alert.fired_ms = Alert.State.FIRING, now_ms
        return True
    if value >= rule.edge:
        alert.better_ms = 0
        return True
    alert.better_ms = alert.better_ms or now_ms
    if now_ms - alert.better_ms >= rule.clear_s * 1000:
        resolve(alert, now_ms)
    return True


def resolve(alert: Alert, now_ms: int, because: str = "") -> None:
    """It is over."""
    alert.state, alert.resolved_ms, alert.over_because = Alert.State.RESOLVED, now_ms, because


def reading_due(alert: Alert, now_ms: int) -> bool:
    """Whether this value is worth keeping for the chart."""
    return now_ms - alert.read_ms >= max(READ_EVERY_MS, (now_ms - alert.began_ms) // READINGS)
