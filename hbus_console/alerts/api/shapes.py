"""What the endpoints take and give."""

from __future__ import annotations

from typing import Any

import msgspec

from engine.core.clock import to_rfc3339
from hbus_console.alerts.models import Alert, Channel, Rule, Silence
from hbus_console.alerts.services import Preview
from hbus_console.alerts.services.channel_draft import DESTINATIONS
from hbus_console.alerts.services.channel_draft import SETTINGS as CHANNEL
from hbus_console.alerts.services.rule_draft import SETTINGS as RULE
from hbus_console.alerts.standing import AlertRow, Health
from hbus_console.api.answers import plain
from hbus_console.api.bodies import Body
from hbus_console.api.drafts import answer, answered, change_body, new_body
from hbus_console.api.subjects import subscription_of, topic_of


class AcknowledgeBody(Body):
    """A word to the others."""

    note: str = ""


class SilenceBody(Body):
    """For how long, and why. ``every_rule``: nobody is told of any rule on this target."""

    minutes: int
    reason: str
    every_rule: bool = False


NewRule = new_body(RULE, "NewRule", "A rule; see the reference of its kinds on the page of rules.")
RuleChange = change_body(
    RULE, "RuleChange", "What to change of a rule. ``revision`` guards against a change meanwhile."
)


NewChannel = new_body(CHANNEL, "NewChannel", "A ``webhook`` with a ``url``, or an ``email`` to ``recipients``.")
ChannelChange = change_body(CHANNEL, "ChannelChange", "What to change of a channel.")


class AlertOut(msgspec.Struct):
    """An alert. ``state`` is what the rule says; ``standing`` also what people did: acknowledged, silenced."""

    id: int
    rule: str
    rule_id: int | None
    kind: str
    severity: str
    #: What it is about, such as ``subscription:booking.created/billing``.
    subject: str
    #: Its namespace, and its name in there; the same as topic and subscription, where it has to do with these.
    namespace: str
    name: str
    topic: str
    subscription: str
    state: str
    standing: str
    value: float
    peak: float
    threshold: float
    began_at: str
    fired_at: str | None
    resolved_at: str | None
    over_because: str
    acknowledged_by: str
    acknowledged_at: str | None
    silenced_until: str | None


RuleOut = answer(RULE, "RuleOut", "A rule as it is configured.", first=[("id", int)], last=[("revision", int)])


ChannelOut = answer(
    CHANNEL,
    "ChannelOut",
    "A channel; its secret is never given, its address only to who may change it.",
    first=[("id", int)],
    last=[("revision", int)],
)
ChannelMade = answer(
    CHANNEL,
    "ChannelMade",
    "A new channel, with a webhook's secret: given this once.",
    first=[("id", int)],
    last=[("revision", int), ("secret", str)],
)


class SecretOut(msgspec.Struct):
    """A webhook's secret, given this once."""

    secret: str


class SilenceOut(msgspec.Struct):
    """A silence. ``rule`` is null for one of every rule; ``topic`` and ``subscription`` are the bus's alone."""

    id: int
    rule: str | None
    subject: str
    namespace: str
    name: str
    topic: str
    subscription: str
    by: str
    reason: str
    until: str


class TriedOut(msgspec.Struct):
    """What a channel answered to a test."""

    channel: str
    taken: bool
    said: str


class LineOut(msgspec.Struct):
    """One target and what was measured; ``topic`` and ``subscription`` are the bus's alone."""

    subject: str
    topic: str
    subscription: str
    value: float
    fires: bool


class PreviewOut(msgspec.Struct):
    """For what a rule would fire now; ``lines`` are the highest values."""

    watched: int
    fires: int
    unknown: int
    paused: int
    lines: list[LineOut]


class EvaluationOut(msgspec.Struct):
    """Whether the rules are evaluated: ``current``, ``behind`` or ``never``.

    ``rules`` are those that can concern what the caller may see; ``targets`` is null unless that is everything.
    """

    state: str
    evaluated_at: str | None
    took_ms: int
    rules: int
    targets: int | None


def alert(row: AlertRow) -> dict[str, Any]:
    """An alert with what silences it."""
    it: Alert = row.alert
    out = AlertOut(
        id=it.pk,
        rule=it.rule_name,
        rule_id=it.rule_id,
        kind=it.kind,
        severity=it.severity,
        subject=str(it.subject),
        namespace=it.namespace,
        name=it.subject_name,
        topic=topic_of(it.subject),
        subscription=subscription_of(it.subject),
        state=it.state,
        standing=row.state,
        value=it.value,
        peak=it.peak,
        threshold=it.threshold,
        began_at=to_rfc3339(it.began_ms),
        fired_at=_at(it.fired_ms),
        resolved_at=_at(it.resolved_ms),
        over_because=it.over_because,
        acknowledged_by=it.acknowledged_by,
        acknowledged_at=_at(it.acknowledged_ms),
        silenced_until=_at(row.silence.until_ms) if row.silence else None,
    )
    return plain(out)


def rule(row: Rule) -> dict[str, Any]:
    """A rule."""
    return {"id": row.pk, **answered(RULE, row), "revision": row.revision}


def channel(row: Channel, *, whole: bool) -> dict[str, Any]:
    """A channel; not ``whole``: without where it leads, which may be a secret by itself."""
    hidden = {} if whole else dict.fromkeys(DESTINATIONS)
    return {"id": row.pk, **answered(CHANNEL, row), **hidden, "revision": row.revision}


def silence(row: Silence) -> dict[str, Any]:
    """A silence."""
    out = SilenceOut(
        row.pk,
        row.rule.name if row.rule else None,
        str(row.subject),
        row.namespace,
        row.subject_name,
        topic_of(row.subject),
        subscription_of(row.subject),
        row.by,
        row.reason,
        to_rfc3339(row.until_ms),
    )
    return plain(out)


def preview(found: Preview) -> dict[str, Any]:
    """What a rule would do now."""
    lines = [
        LineOut(str(it.subject), topic_of(it.subject), subscription_of(it.subject), it.value, it.fires)
        for it in found.lines
    ]
    return plain(PreviewOut(found.watched, found.fires, found.unknown, found.paused, lines))


def evaluation(found: Health) -> dict[str, Any]:
    """How the evaluation stands."""
    state = found.state
    return plain(EvaluationOut(found.word, _at(state.at_ms), state.took_ms, found.rules, found.targets))


def _at(ms: int) -> str | None:
    return to_rfc3339(ms) if ms else None
