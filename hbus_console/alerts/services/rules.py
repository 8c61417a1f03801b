"""Rules: made, changed, deleted and tried."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from django.db import transaction

from engine.core.clock import Clock, SystemClock
from engine.core.errors import BadInput, Conflict
from hbus_console import checks
from hbus_console.access.permissions import Actor, require
from hbus_console.alerts import judge, messages
from hbus_console.alerts.feature import ALERT_EDIT
from hbus_console.alerts.kinds import kind_named, kinds
from hbus_console.alerts.models import Alert, Channel, Notification, Rule
from hbus_console.alerts.services import lookup, trying
from hbus_console.alerts.services.rule_draft import SETTINGS, RuleDraft
from hbus_console.alerts.services.trying import Tried
from hbus_console.alerts.targets import Targets
from hbus_console.audit.meanwhile import require_current
from hbus_console.audit.services import record
from hbus_console.teams.services import owner as owner_named


def create_rule(actor: Actor, draft: RuleDraft, reason: str = "") -> Rule:
    """Make a rule. Raises ``Forbidden`` and :class:`BadInput` naming the field."""
    made, channels = checked(asdict(draft))
    require(actor, ALERT_EDIT, made.scope)
    reason = checks.reason(reason, required=False)
    with transaction.atomic():
        _refuse_taken(made)
        made.save()
        made.channels.set(channels)
        record(actor, "alert_rule.create", made.subject, reason=reason, after=SETTINGS.snapshot(made))
    return made


@transaction.atomic
def change_rule(
    actor: Actor, number: int, changes: Mapping[str, Any], reason: str = "", *, revision: int | None = None
) -> Rule:
    """Change some settings; what is left out stays, and changing nothing leaves no trace.

    A rule whose team was deleted watches nothing until it is given another, whatever else is changed.
    ``revision`` guards a form against a change made meanwhile (:class:`Outdated`).
    """
    row = lookup.rule(actor, number, lock=True)
    require(actor, ALERT_EDIT, row.scope)
    if row.kind not in kinds():
        raise BadInput(
            f"The kind {row.kind!r} is not installed.",
            remedy="Install the feature that brings it (HBUS_APPS), or delete the rule.",
            field="kind",
        )
    for field in changes.keys() - set(SETTINGS.changeable):
        raise BadInput(f"A rule has no setting {field!r} to change.", remedy="See the API.", field=field)
    reason = checks.reason(reason, required=False)
    before = SETTINGS.snapshot(row)
    wanted, channels = checked({**before, **changes})
    if changes.get("owner", before["owner"]) == before["owner"]:
        # Of a team that was deleted a snapshot knows nothing, and the rule must not watch everything for that.
        wanted.team, wanted.of_team = row.team, row.of_team
    require(actor, ALERT_EDIT, wanted.scope)
    wanted.pk, wanted.revision = row.pk, row.revision + 1
    after = {**SETTINGS.snapshot(wanted), "channels": sorted(it.name for it in channels)}
    if after == before:
        return row
    require_current(revision, row.revision, row.name, row.subject)
    _refuse_taken(wanted)
    wanted.save(force_update=True)
    wanted.channels.set(channels)
    record(actor, "alert_rule.change", wanted.subject, reason=reason, before=before, after=after)
    return wanted


def delete_rule(actor: Actor, number: int, reason: str, *, clock: Clock | None = None) -> None:
    """Delete a rule. Its open alerts are over, and whoever was told of them hears it; those that were stay."""
    # Targets are read before the transaction, which would make every other writer wait.
    teams = Targets([kind_named(lookup.rule(actor, number).kind).targets]).teams
    now_ms = (clock or SystemClock()).now_ms()
    with transaction.atomic():
        row = lookup.rule(actor, number, lock=True)
        require(actor, ALERT_EDIT, row.scope)
        reason = checks.reason(reason)
        row.alerts.filter(state=Alert.State.PENDING).delete()
        ended = list(row.alerts.filter(state=Alert.State.FIRING))
        for alert in ended:
            judge.resolve(alert, now_ms, f"The rule was deleted by {actor.name}.")
            alert.save(update_fields=["state", "resolved_ms", "over_because"])
        if told := [alert for alert in ended if alert.told_ms]:
            messages.leave(row, Notification.Event.RESOLVED, told, now_ms, teams)
        record(actor, "alert_rule.delete", row.subject, reason=reason, before=SETTINGS.snapshot(row))
        row.delete()


def try_rule(actor: Actor, number: int, *, clock: Clock | None = None) -> list[Tried]:
    """Send a message marked as a test to every channel of the rule, now, and tell what each answered."""
    row = lookup.rule(actor, number)
    require(actor, ALERT_EDIT, row.scope)
    channels = list(row.channels.filter(enabled=True))
    if not channels:
        raise BadInput(
            f"{row.name} has no channel that is switched on.",
            remedy="Choose one, or make one under Channels; firing alerts show on the page in any case.",
            field="channels",
        )
    with transaction.atomic():
        record(actor, "alert_rule.test", row.subject, after={"channels": [it.name for it in channels]})
    return trying.try_all(row, channels, clock or SystemClock())


def checked(values: Mapping[str, Any]) -> tuple[Rule, list[Channel]]:
    """The rule with those settings, not stored, and its channels; raises :class:`BadInput` naming the field."""
    clean = SETTINGS.checked(values)
    below, owner = clean["clear_below"], values["owner"]
    if below is not None and below > clean["threshold"]:
        raise BadInput(
            "An alert cannot be over above the value at which it begins.",
            remedy=f"At most {clean['threshold']:g}, or leave it empty for the same value.",
            field="clear_below",
        )
    made = Rule(**SETTINGS.columns(clean), team=owner_named(owner) if owner else None, of_team=bool(owner))
    return made, _channels(values["channels"])


def _channels(names: object) -> list[Channel]:
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise BadInput("channels is no list of names.", remedy='For example ["on-call"].', field="channels")
    known = {channel.name: channel for channel in Channel.objects.filter(name__in=names)}
    for name in names:
        if name not in known:
            raise BadInput(f"There is no channel {name!r}.", remedy="Make it under Channels first.", field="channels")
    return list(known.values())


def _refuse_taken(wanted: Rule) -> None:
    if Rule.objects.filter(name__iexact=wanted.name).exclude(pk=wanted.pk).exists():
        raise Conflict(f"There is already a rule {wanted.name!r}.", remedy="Choose another name.", field="name")
