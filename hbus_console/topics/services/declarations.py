"""Handlers declared in code become subscriptions; what a person has changed since stays changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from django.db import transaction

from hbus_console.accounts.permissions import SYSTEM, Action, Actor, require
from hbus_console.topics.models import Subscription, Team, Topic
from hbus_console.topics.services import store
from hbus_console.topics.services.subscriptions import POLICY, record_act, save, snapshot

if TYPE_CHECKING:
    from engine.bus.handlers import Registration


@dataclass
class SyncReport:
    """What a sync did; each entry is ``topic/group``."""

    created: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    #: Declared for a topic that is not there (yet).
    waiting: list[str] = field(default_factory=list)
    #: Once declared, now gone from the code; the subscription stays until somebody deletes it.
    gone: list[str] = field(default_factory=list)


def sync_registrations(actor: Actor = SYSTEM) -> SyncReport:
    """Bring the subscriptions in line with the handlers this process has loaded.

    Call it only where all handlers are loaded: what is not declared here counts as gone from the code.
    """
    from engine.bus.handlers import registrations

    report = SyncReport()
    declared = list(registrations())
    for registration in declared:
        with transaction.atomic():
            _sync_one(actor, registration, report)
    names = {(registration.topic, registration.group) for registration in declared}
    rows = Subscription.objects.exclude(handler_name="").select_related("topic")
    for row in rows:
        if (row.topic.name, row.group) not in names:
            Subscription.objects.filter(pk=row.pk).update(handler_name="")
            report.gone.append(f"{row.topic.name}/{row.group}")
    return report


def _sync_one(actor: Actor, declared: Registration, report: SyncReport) -> None:
    label = f"{declared.topic}/{declared.group}"
    topic = Topic.objects.filter(name=declared.topic).first()
    if topic is None:
        report.waiting.append(label)
        return
    require(actor, Action.SUBSCRIPTION_EDIT, topic.name)
    row = topic.subscriptions.select_for_update().filter(group=declared.group).first()
    if row is None:
        _create(actor, topic, declared)
        report.created.append(label)
    elif row.handler == Subscription.Handler.CODE and _follow(actor, row, declared):
        report.changed.append(label)


def _create(actor: Actor, topic: Topic, declared: Registration) -> None:
    row = Subscription(
        topic=topic,
        group=declared.group,
        team=Team.objects.filter(name=declared.owner).first() if declared.owner else None,
        handler_name=declared.name,
        **_policy(declared),
    )
    row.save()
    record_act(actor, "subscription.declare", row, "declared in code", after=snapshot(row))
    store.after_commit(f"create {row.label}", lambda: store.make_group(row))


def _follow(actor: Actor, row: Subscription, declared: Registration) -> bool:
    """Take over what no person has set; ``True`` if a policy changed."""
    before = snapshot(row)
    for name, value in _policy(declared).items():
        if name not in row.held_fields:
            setattr(row, name, value)
    after = snapshot(row)
    if after != before:
        row.handler_name = declared.name
        save(row)
        record_act(actor, "subscription.declare", row, "declaration changed in code", before=before, after=after)
        return True
    if row.handler_name != declared.name:
        Subscription.objects.filter(pk=row.pk).update(handler_name=declared.name)
    return False


def _policy(declared: Registration) -> dict[str, object]:
    values = {name: getattr(declared, name) for name in POLICY}
    return {**values, "backoff_s": list(declared.backoff_s), "lease_s": round(declared.lease_s)}
