"""What is sent to a channel: the same facts as JSON for webhooks and as plain text for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.conf import settings

from engine.core.clock import to_rfc3339
from engine.core.subject import Subject
from hbus_console.alerts import paths
from hbus_console.alerts.models import Alert, Channel, Notification, Rule
from hbus_console.alerts.wording import sentence
from hbus_console.api.subjects import subscription_of, topic_of
from hbus_console.teams.models import Team

#: Alerts spelled out in one message; of more only the number is told.
SPELLED = 20
TEST_NOTE = "This is a test. Nothing is wrong, and nobody needs to act."


def leave(
    rule: Rule, event: str, alerts: Sequence[Alert], now_ms: int, teams: Mapping[Subject, int] | None = None
) -> None:
    """Write one message for each channel of ``rule``. Must run in the transaction of what it tells.

    ``teams`` are the numbers of those who answer for the targets.
    """
    channels = [channel for channel in rule.channels.all() if channel.enabled]
    if not channels:
        return
    body = about(rule, event, alerts, now_ms, teams)
    for channel in channels:
        row = Notification.objects.create(
            channel=channel, rule_name=rule.name, event=event, body=body, made_ms=now_ms, next_ms=now_ms
        )
        row.alerts.set(alerts)


def about(
    rule: Rule, event: str, alerts: Sequence[Alert], now_ms: int, teams: Mapping[Subject, int] | None = None
) -> dict[str, Any]:
    """What is told of ``alerts``, all of one rule."""
    owners = _owners(alerts[:SPELLED], teams or {})
    return {
        "event": f"alert.{event}",
        "test": event == Notification.Event.TEST,
        "at": to_rfc3339(now_ms),
        "environment": settings.ENVIRONMENT_NAME,
        "rule": {"name": rule.name, "kind": rule.kind, "severity": rule.severity, "threshold": rule.threshold},
        "advice": rule.advice,
        "alerts": [_alert(alert, owners.get(alert.subject)) for alert in alerts[:SPELLED]],
        "count": len(alerts),
        "url": settings.PUBLIC_URL + paths.ALERTS,
    }


def sample(rule: Rule | None, channel: Channel, now_ms: int) -> dict[str, Any]:
    """A message that cannot be taken for a real one."""
    if rule is not None:
        body = about(rule, Notification.Event.TEST, [], now_ms)
    else:
        body = {
            "event": "alert.test",
            "test": True,
            "at": to_rfc3339(now_ms),
            "environment": settings.ENVIRONMENT_NAME,
            "alerts": [],
            "count": 0,
            "url": settings.PUBLIC_URL + paths.channel(channel.pk),
        }
    return {**body, "note": TEST_NOTE}


def subject(body: dict[str, Any]) -> str:
    """One line: ``[production] Firing: Dead letters wait, 3 targets``."""
    name = body["rule"]["name"] if "rule" in body else "a channel"
    event = {"alert.fired": "Firing", "alert.resolved": "Resolved", "alert.test": "Test"}[body["event"]]
    alerts, count = body["alerts"], body["count"]
    where = f", {alerts[0]['target']}" if count == 1 else f", {count:,} targets" if count else ""
    return f"[{body['environment']}] {event}: {name}{where}"


def text(body: dict[str, Any]) -> str:
    """The message for people."""
    lines = [body["note"], ""] if body["test"] else []
    for alert in body["alerts"]:
        lines.append(f"{alert['sentence']}")
        if alert["owner"]:
            lines.append(f"  owner: {alert['owner']} ({alert['contact']})")
        lines.append(f"  {alert['url']}")
    if body["count"] > len(body["alerts"]):
        lines.append(f"… and {body['count'] - len(body['alerts']):,} more.")
    if body.get("advice"):
        lines += ["", body["advice"]]
    return "\n".join([*lines, "", body["url"], ""])


def _alert(alert: Alert, owner: Team | None) -> dict[str, Any]:
    return {
        "id": alert.pk,
        "state": alert.state,
        "subject": str(alert.subject),
        "topic": topic_of(alert.subject),
        "subscription": subscription_of(alert.subject),
        "target": alert.target,
        "sentence": sentence(alert),
        "value": alert.value,
        "peak": alert.peak,
        "threshold": alert.threshold,
        "since": to_rfc3339(alert.began_ms),
        "owner": owner.name if owner else "",
        "contact": owner.contact if owner else "",
        "url": settings.PUBLIC_URL + paths.alert(alert.pk),
    }


def _owners(alerts: Sequence[Alert], teams: Mapping[Subject, int]) -> dict[Subject, Team]:
    owned = {alert.subject: teams[alert.subject] for alert in alerts if alert.subject in teams}
    known = Team.objects.in_bulk(set(owned.values())) if owned else {}
    return {subject: known[number] for subject, number in owned.items() if number in known}
