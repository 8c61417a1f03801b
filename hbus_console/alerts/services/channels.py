"""Channels: who is told, and how. They belong to the whole installation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from engine.core.clock import Clock, SystemClock
from engine.core.errors import BadInput, Conflict
from engine.core.signing import new_secret
from hbus_console import checks
from hbus_console.access.permissions import Actor, require
from hbus_console.alerts.feature import ALERT_CHANNEL
from hbus_console.alerts.models import Channel
from hbus_console.alerts.services import lookup, trying
from hbus_console.alerts.services.channel_draft import SETTINGS, ChannelDraft, changed, checked
from hbus_console.alerts.services.trying import Tried
from hbus_console.audit.meanwhile import require_current
from hbus_console.audit.services import record


def create_channel(actor: Actor, draft: ChannelDraft, reason: str = "") -> Channel:
    """Make a channel. A webhook's secret is in ``secret`` of the answer: show it now, never again."""
    require(actor, ALERT_CHANNEL)
    # What is wrong with the rest can only be said of a kind that there is.
    checks.choice(draft.kind, "kind", Channel.Kind.values)
    reason = checks.reason(reason, required=False)
    made = Channel(**SETTINGS.columns(checked(draft)))
    if made.kind == Channel.Kind.WEBHOOK:
        made.secret = new_secret()
    with transaction.atomic():
        _refuse_taken(made)
        made.save()
        record(actor, "alert_channel.create", made.subject, reason=reason, after=SETTINGS.snapshot(made))
    return made


def change_channel(
    actor: Actor, number: int, changes: Mapping[str, Any], reason: str = "", *, revision: int | None = None
) -> Channel:
    """Change some settings; what is left out stays. Changing nothing leaves no trace."""
    require(actor, ALERT_CHANNEL)
    for field in changes.keys() - set(SETTINGS.changeable):
        raise BadInput(f"A channel has no setting {field!r} to change.", remedy="See the API.", field=field)
    reason = checks.reason(reason, required=False)
    wanted = changed(lookup.channel(actor, number), changes)
    with transaction.atomic():
        row = lookup.channel(actor, number, lock=True)
        before = SETTINGS.snapshot(row)
        for column, value in SETTINGS.columns(wanted).items():
            setattr(row, column, value)
        if SETTINGS.snapshot(row) == before:
            return row
        require_current(revision, row.revision, row.name, row.subject)
        _refuse_taken(row)
        row.revision += 1
        row.save()
        record(actor, "alert_channel.change", row.subject, reason=reason, before=before, after=SETTINGS.snapshot(row))
    return row


@transaction.atomic
def delete_channel(actor: Actor, number: int, reason: str) -> None:
    """Delete a channel: nobody is told through it any more, and what was sent through it is forgotten."""
    require(actor, ALERT_CHANNEL)
    row = lookup.channel(actor, number, lock=True)
    reason = checks.reason(reason)
    before = {**SETTINGS.snapshot(row), "rules": sorted(row.rules.values_list("name", flat=True))}
    record(actor, "alert_channel.delete", row.subject, reason=reason, before=before)
    row.delete()


@transaction.atomic
def rotate_secret(actor: Actor, number: int, reason: str) -> str:
    """Give a webhook a new secret; calls are signed with it at once. The answer is the only time it is seen."""
    require(actor, ALERT_CHANNEL)
    row = lookup.channel(actor, number, lock=True)
    reason = checks.reason(reason)
    if row.kind != Channel.Kind.WEBHOOK:
        raise BadInput(f"{row.name} is no webhook.", remedy="Only webhooks have a secret.", field="channel")
    row.secret = new_secret()
    row.revision += 1
    row.save()
    record(
        actor,
        "alert_channel.rotate_secret",
        row.subject,
        reason=reason,
        after={"signed_with": "a new secret"},
    )
    return row.secret


def try_channel(actor: Actor, number: int, *, clock: Clock | None = None) -> Tried:
    """Send a message marked as a test through the channel, now, and tell what it answered."""
    require(actor, ALERT_CHANNEL)
    row = lookup.channel(actor, number)
    with transaction.atomic():
        record(actor, "alert_channel.test", row.subject)
    return trying.try_all(None, [row], clock or SystemClock())[0]


def _refuse_taken(wanted: Channel) -> None:
    if Channel.objects.filter(name__iexact=wanted.name).exclude(pk=wanted.pk).exists():
        raise Conflict(f"There is already a channel {wanted.name!r}.", remedy="Choose another name.", field="name")
