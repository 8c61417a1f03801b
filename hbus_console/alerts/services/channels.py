"""Channels: who is told, and how. They belong to the whole installation."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction

from engine.core.clock import Clock, SystemClock
from engine.core.errors import BadInput, Conflict
from hbus_console import checks
from hbus_console.access.permissions import Actor, require
from hbus_console.alerts.feature import ALERT_CHANNEL
from hbus_console.alerts.models import Channel
from hbus_console.alerts.services import lookup, trying
from hbus_console.alerts.services.trying import Tried
from hbus_console.audit.services import record
from hbus_console.outgoing import check_url

MOST_RECIPIENTS = 20


@dataclass(frozen=True)
class ChannelDraft:
    """A channel as somebody wants it: a webhook with a ``url``, or an e-mail to ``recipients``."""

    name: str
    kind: str
    url: str = ""
    recipients: tuple[str, ...] = ()
    enabled: bool = True


CHANGES = ("name", "url", "recipients", "enabled")


def create_channel(actor: Actor, draft: ChannelDraft, reason: str = "") -> Channel:
    """Make a channel. A webhook's secret is in ``secret`` of the answer: show it now, never again."""
    require(actor, ALERT_CHANNEL)
    made = Channel(kind=checks.choice(draft.kind, "kind", Channel.Kind.values))
    reason = checks.reason(reason, required=False)
    # Names are looked up before the transaction, which would make every other writer wait.
    _apply(made, {field: getattr(draft, field) for field in CHANGES})
    if made.kind == Channel.Kind.WEBHOOK:
        made.secret = _new_secret()
    with transaction.atomic():
        _refuse_taken(made)
        made.save()
        record(actor, "alert_channel.create", made.subject, reason=reason, after=snapshot(made))
    return made


def change_channel(
    actor: Actor, number: int, changes: Mapping[str, Any], reason: str = "", *, revision: int | None = None
) -> Channel:
    """Change some settings; what is left out stays. Changing nothing leaves no trace."""
    require(actor, ALERT_CHANNEL)
    for field in changes.keys() - set(CHANGES):
        raise BadInput(f"A channel has no setting {field!r} to change.", remedy="See the API.", field=field)
    reason = checks.reason(reason, required=False)
    if changes.get("url") not in (None, "", lookup.channel(actor, number).url):
        _checked_url(changes["url"])
    with transaction.atomic():
        row = lookup.channel(actor, number, lock=True)
        before = snapshot(row)
        _apply(row, {**before, **changes}, known_url=before["url"])
        if snapshot(row) == before:
            return row
        if revision is not None and revision != row.revision:
            raise Conflict(f"{row.name} was changed by somebody else meanwhile.", remedy="Reload and change it again.")
        _refuse_taken(row)
        row.revision += 1
        row.save()
        record(actor, "alert_channel.change", row.subject, reason=reason, before=before, after=snapshot(row))
    return row


@transaction.atomic
def delete_channel(actor: Actor, number: int, reason: str) -> None:
    """Delete a channel: nobody is told through it any more, and what was sent through it is forgotten."""
    require(actor, ALERT_CHANNEL)
    row = lookup.channel(actor, number, lock=True)
    reason = checks.reason(reason)
    before = {**snapshot(row), "rules": sorted(row.rules.values_list("name", flat=True))}
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
    row.secret = _new_secret()
    row.revision += 1
    row.save()
    record(
        actor,
        "alert_channel.rotate_secret",
        row.subject,
        reason=reason,
        after={"secret": "new"},
    )
    return row.secret


def try_channel(actor: Actor, number: int, *, clock: Clock | None = None) -> Tried:
    """Send a message marked as a test through the channel, now, and tell what it answered."""
    require(actor, ALERT_CHANNEL)
    row = lookup.channel(actor, number)
    with transaction.atomic():
        record(actor, "alert_channel.test", row.subject)
    return trying.try_all(None, [row], clock or SystemClock())[0]


def snapshot(row: Channel) -> dict[str, Any]:
    """A channel as a draft says it; never its secret."""
    return {
        "name": row.name,
        "kind": str(row.kind),
        "url": row.url,
        "recipients": list(row.recipients),
        "enabled": row.enabled,
    }


def _apply(row: Channel, values: Mapping[str, Any], known_url: str = "") -> None:
    row.name = checks.text(values["name"], "name", most=80, required=True)
    row.enabled = checks.flag(values["enabled"], "enabled")
    url, recipients = values["url"], values["recipients"]
    if row.kind == Channel.Kind.WEBHOOK:
        row.url = url if url and url == known_url else _checked_url(url)
        if recipients:
            raise BadInput("A webhook has no recipients.", remedy="Leave them out.", field="recipients")
        return
    if url:
        raise BadInput("An e-mail has no address of a webhook.", remedy="Leave it out.", field="url")
    row.recipients = _recipients(recipients)
    if not settings.EMAIL_HOST:
        raise BadInput(
            "This installation has no mail server.",
            remedy="Set EMAIL_HOST (and what it needs) and start again; see docs/operations.md.",
            field="kind",
        )


def _checked_url(url: object) -> str:
    try:
        return check_url(url)
    except BadInput as refused:
        raise type(refused)(refused.what, remedy=refused.remedy, field="url") from refused


def _recipients(values: object) -> list[str]:
    if not isinstance(values, (list, tuple)) or not 1 <= len(values) <= MOST_RECIPIENTS:
        raise BadInput(
            f"An e-mail goes to 1 to {MOST_RECIPIENTS} addresses.", remedy="Give them as a list.", field="recipients"
        )
    found = [checks.text(value, "recipients", most=200, required=True) for value in values]
    for address in found:
        try:
            validate_email(address)
        except ValidationError:
            raise BadInput(f"{address!r} is no mail address.", remedy="Write name@host.", field="recipients") from None
    return list(dict.fromkeys(found))


def _refuse_taken(wanted: Channel) -> None:
    if Channel.objects.filter(name__iexact=wanted.name).exclude(pk=wanted.pk).exists():
        raise Conflict(f"There is already a channel {wanted.name!r}.", remedy="Choose another name.", field="name")


def _new_secret() -> str:
    return f"whsec_{secrets.token_urlsafe(32)}"
