"""What an alert says of its value, the same on every page and in every message: never a number that contradicts its
state.
"""

from __future__ import annotations

from hbus_console.alerts.kinds import kind_named
from hbus_console.alerts.models import Alert
from hbus_console.ui.formats import duration


def measured(alert: Alert) -> str:
    """The newest value with what it means: ``0 dead letters in the last 5 m``."""
    kind, rule = kind_named(alert.kind), alert.rule
    over = f" in the last {_seconds(rule.window_s)}" if kind.windowed and rule is not None and rule.window_s else ""
    return kind.said(alert.value) + (over if alert.value >= 0 else "")


def lingers(alert: Alert) -> str:
    """Why it still fires with a value that would not make it fire; empty when its value would."""
    rule = alert.rule
    if alert.state != Alert.State.FIRING or rule is None or alert.value >= alert.threshold:
        return ""
    if alert.value >= rule.edge:
        return f"fires until below {kind_named(alert.kind).said(rule.edge)}"
    return f"fires until clear for {_seconds(rule.clear_s)}" if rule.clear_s else "fires until clear"


def standing_of(alert: Alert) -> str:
    """The newest value, and why it fires all the same."""
    return ", ".join(filter(None, (measured(alert), lingers(alert))))


def sentence(alert: Alert) -> str:
    """``billing on booking.created has unsettled 2,400 messages (threshold 1,000 messages)``."""
    kind = kind_named(alert.kind)
    if alert.state == Alert.State.RESOLVED:
        return f"{alert.target}: over; it peaked at {kind.said(alert.peak)}."
    if alert.value < 0 or lingers(alert):
        return f"{alert.target}: {standing_of(alert)}; it peaked at {kind.said(alert.peak)}."
    return f"{alert.target} {kind.says} {measured(alert)} (threshold {kind.said(alert.threshold)})."


def _seconds(seconds: int) -> str:
    return duration(seconds * 1_000_000)
