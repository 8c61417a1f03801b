"""What people do about alerts: say that they look, and keep them quiet for a while."""

from __future__ import annotations

from django.db import transaction

from engine.core.clock import Clock, SystemClock, to_rfc3339
from engine.core.errors import BadInput
from engine.core.subject import Subject
from hbus_console import checks
from hbus_console.access.permissions import Actor, require
from hbus_console.alerts.feature import ALERT_OPERATE
from hbus_console.alerts.models import Alert, Silence
from hbus_console.alerts.services import lookup
from hbus_console.audit.already import already
from hbus_console.audit.services import record

LONGEST_MS = 31 * 24 * 3_600_000


def acknowledge(actor: Actor, number: int, note: str = "", *, clock: Clock | None = None) -> Alert:
    """Say that somebody looks at it: it stays open, and waits for nobody any more. Twice leaves one trace."""
    with transaction.atomic():
        row = lookup.alert(actor, number)
        require(actor, ALERT_OPERATE, row.namespace)
        note = checks.text(note, "note", most=300)
        if row.acknowledged_ms:
            already(_subject(row), "is looked at", "alert.acknowledge", reason=note)
            return row
        _refuse_over(row)
        row.acknowledged_by, row.acknowledged_note = actor.name, note
        row.acknowledged_ms = (clock or SystemClock()).now_ms()
        row.save(update_fields=["acknowledged_by", "acknowledged_note", "acknowledged_ms"])
        record(actor, "alert.acknowledge", _subject(row), reason=note, after=_about(row))
    return row


def silence(
    actor: Actor,
    number: int,
    *,
    until_ms: int,
    reason: str,
    every_rule: bool = False,
    clock: Clock | None = None,
) -> Silence:
    """Tell nobody of this rule on this target until then; with ``every_rule``, of any rule on it.

    It holds too when the alert is over and begins anew meanwhile.
    """
    now_ms = (clock or SystemClock()).now_ms()
    with transaction.atomic():
        row = lookup.alert(actor, number)
        require(actor, ALERT_OPERATE, row.namespace)
        reason = checks.reason(reason)
        if not now_ms < until_ms <= now_ms + LONGEST_MS:
            raise BadInput(
                "A silence ends in the future, within 31 days.", remedy="Choose an earlier or later end.", field="until"
            )
        if row.rule_id is None and not every_rule:
            raise BadInput(
                "The rule of this alert is gone, so there is nothing to silence.",
                remedy="Silence every rule on the target instead.",
                field="every_rule",
            )
        made = Silence.objects.create(
            rule=None if every_rule else row.rule,
            subject_kind=row.subject_kind,
            namespace=row.namespace,
            subject_name=row.subject_name,
            by=actor.name,
            reason=reason,
            began_ms=now_ms,
            until_ms=until_ms,
        )
        after = {**_about(row), "until": to_rfc3339(until_ms), "every_rule": every_rule}
        record(actor, "alert.silence", _subject(row), reason=reason, after=after)
    return made


def end_silence(actor: Actor, number: int, reason: str = "", *, clock: Clock | None = None) -> None:
    """Let alerts speak again; what fires meanwhile is told with the next evaluation. Twice leaves one trace."""
    now_ms = (clock or SystemClock()).now_ms()
    with transaction.atomic():
        row = lookup.silence_of(actor, number)
        require(actor, ALERT_OPERATE, row.namespace)
        reason = checks.reason(reason, required=False)
        if row.until_ms <= now_ms:
            already(row.subject, "is over", "alert.silence.end", reason=reason)
            return
        before = {"until": to_rfc3339(row.until_ms)}
        row.until_ms = now_ms
        row.save(update_fields=["until_ms"])
        record(actor, "alert.silence.end", row.subject, reason=reason, before=before,
               after={"until": to_rfc3339(now_ms)})  # fmt: skip


def _subject(row: Alert) -> Subject:
    return Subject("alert", row.namespace, str(row.pk))


def _refuse_over(row: Alert) -> None:
    if row.state == Alert.State.RESOLVED:
        raise BadInput("This alert is over.", remedy="There is nothing left to acknowledge.", field="alert")


def _about(row: Alert) -> dict[str, object]:
    return {"rule": row.rule_name, "target": row.target, "value": row.value, "threshold": row.threshold}
