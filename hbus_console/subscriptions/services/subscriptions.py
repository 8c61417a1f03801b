"""Subscriptions: who reads a topic, how failures are met, and who may hold it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from engine.core.errors import BadInput, Conflict
from engine.core.signing import new_secret
from hbus_console import checks
from hbus_console.access.permissions import Actor, require
from hbus_console.audit.already import already
from hbus_console.audit.meanwhile import require_current
from hbus_console.audit.services import record
from hbus_console.outgoing import check_url
from hbus_console.subscriptions.feature import SUBSCRIPTION_EDIT, SUBSCRIPTION_GOVERN, SUBSCRIPTION_OPERATE
from hbus_console.subscriptions.models import Subscription
from hbus_console.subscriptions.services import lookup
from hbus_console.subscriptions.services.draft import POLICY, SETTINGS, SubscriptionDraft, checked, snapshot
from hbus_console.teams import services as teams
from hbus_console.topics import lookup as topic_lookup
from hbus_console.topics import transport_objects
from hbus_console.topics.leaving import record_leaving, require_exit
from hbus_console.topics.models import StoreRemoval, Topic
from hbus_console.topics.payloads import MaskingRules
from hbus_console.wiring import bus


def create_subscription(actor: Actor, draft: SubscriptionDraft, reason: str = "") -> Subscription:
    """Make a subscription. A webhook's secret is in ``webhook_secret`` of the answer: show it now, never again.

    A webhook on a topic that masks something takes the right to reveal it: the receiver gets it in clear.
    Raises ``Forbidden``, :class:`BadInput` naming the field, :class:`Conflict` when the group exists.
    """
    require(actor, SUBSCRIPTION_EDIT, draft.topic)
    group = checks.name(draft.group, "group")
    handler = checks.choice(draft.handler, "handler", Subscription.Handler.values)
    reason = checks.reason(reason, required=False)
    values = {name: getattr(draft, name) for name in SETTINGS.stored}
    # Names are looked up and the store is asked before the transaction, which would make every other writer wait.
    if handler == Subscription.Handler.WEBHOOK:
        values["webhook_url"] = check_url(draft.webhook_url)
    checkpoint = _start(topic_lookup.topic(draft.topic), draft.start)
    with transaction.atomic():
        topic = topic_lookup.topic(draft.topic)
        leaves = handler == Subscription.Handler.WEBHOOK and require_exit(actor, topic)
        _refuse_taken(topic, group)
        row = Subscription(topic=topic, group=group, team=teams.owner(draft.owner), handler=handler)
        _apply(row, values)
        if handler == Subscription.Handler.WEBHOOK:
            row.webhook_secret = new_secret()
        else:
            row.held_fields = [name for name in POLICY if getattr(draft, name) != SETTINGS[name].default]
        row.checkpoint = checkpoint
        row.save()
        record_act(actor, "subscription.create", row, reason, after={**snapshot(row), "start": draft.start})
        if leaves:
            _record_leaving(actor, row, reason)
        transport_objects.after_commit(f"create {row.label}", lambda: _begin(row))
    return row


def change_subscription(
    actor: Actor,
    topic: str,
    group: str,
    changes: Mapping[str, Any],
    reason: str = "",
    *,
    revision: int | None = None,
) -> Subscription:
    """Change some settings. Policies set here hold against the declaration in code until :func:`follow_code`.

    Each setting asks for its own permission, a new owner for a reason, and another address of a webhook for the right
    to reveal what the topic masks. ``revision`` guards a form against a change
    made meanwhile (:class:`Outdated`).
    """
    require(actor, SUBSCRIPTION_EDIT, topic)
    for field in changes.keys() - set(SETTINGS.changeable):
        raise BadInput(f"A subscription has no setting {field!r} to change.", remedy="See the API.", field=field)
    changes = dict(changes)
    if changes.get("webhook_url") not in (None, lookup.subscription(topic, group).webhook_url):
        changes["webhook_url"] = check_url(changes["webhook_url"])
    with transaction.atomic():
        return _change(actor, lookup.subscription(topic, group, lock=True), changes, reason, revision)


@transaction.atomic
def follow_code(actor: Actor, topic: str, group: str, reason: str = "") -> Subscription:
    """Let the declaration in code set all policies again, from its next start on."""
    require(actor, SUBSCRIPTION_EDIT, topic)
    row = lookup.subscription(topic, group, lock=True)
    if row.handler != Subscription.Handler.CODE or not row.held_fields:
        already(row.subject, "has nothing that people had set", "subscription.follow_code", reason=reason)
        return row
    before, row.held_fields = row.held_fields, []
    save(row)
    reason = checks.reason(reason, required=False)
    record_act(
        actor, "subscription.follow_code", row, reason, before={"held_fields": before}, after={"held_fields": []}
    )
    return row


@transaction.atomic
def pause_subscription(actor: Actor, topic: str, group: str, reason: str) -> Subscription:
    """Hand out nothing more; what is in flight ends. Pausing twice leaves one trace."""
    require(actor, SUBSCRIPTION_OPERATE, topic)
    row = lookup.subscription(topic, group, lock=True)
    reason = checks.reason(reason)
    return hold(actor, row, True, reason, "subscription.pause")


@transaction.atomic
def resume_subscription(actor: Actor, topic: str, group: str, reason: str = "") -> Subscription:
    """Hand out deliveries again, unless the topic itself is paused."""
    require(actor, SUBSCRIPTION_OPERATE, topic)
    row = lookup.subscription(topic, group, lock=True)
    reason = checks.reason(reason, required=False)
    return hold(actor, row, False, reason, "subscription.resume")


@transaction.atomic
def rotate_secret(actor: Actor, topic: str, group: str, reason: str) -> str:
    """Give a webhook a new secret; calls are signed with it at once. The answer is the only time it is seen."""
    require(actor, SUBSCRIPTION_EDIT, topic)
    row = lookup.subscription(topic, group, lock=True)
    reason = checks.reason(reason)
    if row.handler != Subscription.Handler.WEBHOOK:
        raise BadInput(f"{row.label} is no webhook.", remedy="Only webhooks have a secret.", field="group")
    row.webhook_secret = new_secret()
    save(row)
    record_act(actor, "subscription.rotate_secret", row, reason, after={"signed_with": "a new secret"})
    return row.webhook_secret


@transaction.atomic
def delete_subscription(actor: Actor, topic: str, group: str, typed_name: str, reason: str) -> None:
    """Delete a subscription: what it has not settled is lost to it. Its dead letters stay, as evidence.

    ``typed_name`` is the group's name as a person typed it to confirm.
    """
    require(actor, SUBSCRIPTION_EDIT, topic)
    row = lookup.subscription(topic, group, lock=True)
    reason = checks.reason(reason)
    checks.typed(typed_name, group)
    if row.handler_name:
        raise Conflict(
            f"{row.label} is declared in code as {row.handler_name}, which would bring it back.",
            remedy="Remove the handler and restart the consumers first, or pause it.",
            field="group",
        )
    removals = transport_objects.note_removals(row.topic, group)
    record_act(actor, "subscription.delete", row, reason, before=snapshot(row))
    row.delete()
    transport_objects.remove_after_commit(removals)


def _change(
    actor: Actor, row: Subscription, changes: Mapping[str, Any], reason: str, revision: int | None
) -> Subscription:
    before = snapshot(row)
    wanted = SETTINGS.differing(before, changes)
    if not wanted:
        return row
    acts = SETTINGS.acts_of(wanted)
    for act in acts:
        require(actor, act, row.topic.name)
    leaves = "webhook_url" in wanted and require_exit(actor, row.topic)
    reason = checks.reason(reason, required=SUBSCRIPTION_GOVERN in acts)
    require_current(revision, row.revision, row.label, row.subject)
    _apply(row, {**before, **wanted})
    if "owner" in wanted:
        row.team = teams.owner(wanted["owner"]) if wanted["owner"] else None
    after = snapshot(row)
    if after == before:
        return row
    if row.handler == Subscription.Handler.CODE:
        row.held_fields = sorted({*row.held_fields, *(field for field in POLICY if after[field] != before[field])})
    save(row)
    record_act(actor, "subscription.change", row, reason, before=before, after=after)
    if leaves:
        _record_leaving(actor, row, reason)
    return row


def _record_leaving(actor: Actor, row: Subscription, reason: str) -> None:
    where = {"subscription": row.group, "webhook_url": row.webhook_url}
    record_leaving(actor, row.topic.subject, MaskingRules.of(row.topic), where, reason)


def _apply(row: Subscription, values: Mapping[str, Any]) -> None:
    """Check and set everything but the owner; a webhook's address was checked before."""
    for name, value in checked(values, row.handler).items():
        setattr(row, name, value)


def _refuse_taken(topic: Topic, group: str) -> None:
    if topic.subscriptions.filter(group=group).exists():
        raise Conflict(f"{topic.name} already has a subscription {group}.", remedy="Choose another.", field="group")
    if StoreRemoval.objects.filter(topic=topic.name, group=group).exists():
        raise Conflict(
            f"A deleted subscription {group} is still being removed from the store.",
            remedy="Try again in a minute.",
            field="group",
        )


def _start(topic: Topic, start: str) -> str:
    """The position after which a new subscription begins; empty: the beginning.

    Fixed now, so that what is published until the store knows the group is not missed.
    """
    if checks.choice(start, "start", ("beginning", "end")) == "beginning":
        return ""
    newest = bus.admin(topic.transport).browse(topic.name, limit=1, newest_first=True).entries
    return newest[0].position if newest else ""


def _begin(row: Subscription) -> None:
    transport_objects.begin_group(row)
    transport_objects.set_pause(row)


def _bring_in_line(row: Subscription) -> None:
    transport_objects.make_group(row)
    transport_objects.set_pause(row)


def hold(actor: Actor, row: Subscription, paused: bool, reason: str, action: str) -> Subscription:
    """Write a pause or its end, its audit entry, and the store's part for after the commit; the caller has asked.

    What stands so already is left, and whoever asked is told.
    """
    if row.paused == paused:
        ways = ("subscription.pause", "subscription.drain") if paused else ("subscription.resume",)
        already(row.subject, "is paused" if paused else "is handed messages", *ways, reason=reason)
        return row
    row.paused, row.pause_reason = paused, reason if paused else ""
    save(row)
    record_act(actor, action, row, reason, before={"paused": not paused}, after={"paused": paused})
    transport_objects.after_commit(f"{'pause' if paused else 'resume'} {row.label}", lambda: _bring_in_line(row))
    return row


def save(row: Subscription) -> None:
    """Write a changed row, its revision raised."""
    row.revision += 1
    # The keeper writes the checkpoint all the time; it is not ours to put back.
    row.save(update_fields=[field.name for field in row._meta.fields if field.name not in _KEEPERS])


_KEEPERS = ("id", "checkpoint", "checkpoint_at")


def record_act(
    actor: Actor,
    action: str,
    row: Subscription,
    reason: str,
    *,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
) -> None:
    """Audit an act on a subscription, in its topic's namespace."""
    record(
        actor,
        action,
        row.subject,
        reason=reason,
        before=before,
        after=after,
    )
