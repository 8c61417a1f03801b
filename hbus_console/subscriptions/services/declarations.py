"""Handlers declared in code become subscriptions; what a person has changed since stays changed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field

from django.db import transaction

from engine.bus.handlers import Registration, registrations
from hbus_console.access.permissions import SYSTEM, Actor, require
from hbus_console.subscriptions.feature import SUBSCRIPTION_EDIT
from hbus_console.subscriptions.models import Subscription
from hbus_console.subscriptions.services.draft import snapshot
from hbus_console.subscriptions.services.policy import declared_values
from hbus_console.subscriptions.services.subscriptions import record_act, save
from hbus_console.topics import lookup as topic_lookup
from hbus_console.topics import transport_objects
from hbus_console.topics.models import StoreRemoval, Topic


@dataclass
class SyncReport:
    """What a sync did; each entry is ``topic/group``."""

    created: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    #: Declared for a topic that is not there (yet).
    waiting: list[str] = field(default_factory=list)
    #: Declared while the store still has to forget a deleted one of that name.
    leaving: list[str] = field(default_factory=list)
    #: Once declared, now gone from the code; the subscription stays until somebody deletes it.
    gone: list[str] = field(default_factory=list)


#: A subscription: its topic, and its group there.
Key = tuple[str, str]
#: What this process has brought its declarations to: of each which row it was, and what of it persons hold.
Brought = MutableMapping[Key, tuple[int, Sequence[str]]]


def sync_registrations(
    actor: Actor = SYSTEM,
    *,
    brought: Brought | None = None,
    hosted: Callable[[], Collection[Key] | None] = tuple,
) -> SyncReport:
    """Bring the subscriptions in line with the handlers this process has loaded; two queries when they are.

    Call it only where all handlers are loaded: what is not declared here counts as gone from the code, unless it is
    among what ``hosted`` says that others run just now; ``None``: that is not known, and nothing is gone.

    ``brought`` is the caller's memory. With it each declaration is brought once, and again where the row is another
    one, a person has let go of a field, or nobody's handler is named: processes of two versions side by side would else
    undo each other's for as long as both run.
    """
    report = SyncReport()
    brought = {} if brought is None else brought
    declared = {(one.topic, one.group): one for one in registrations()}
    topics = set(Topic.objects.filter(name__in={topic for topic, _ in declared}).values_list("name", flat=True))
    rows = {(row.topic.name, row.group): row for row in Subscription.objects.select_related("topic")}
    for key, registration in declared.items():
        if registration.topic not in topics:
            report.waiting.append("/".join(key))
        elif (
            key not in rows and StoreRemoval.objects.filter(topic=registration.topic, group=registration.group).exists()
        ):
            report.leaving.append("/".join(key))
        else:
            row = rows.get(key)
            if row is None or ((brought.get(key) != _mark(row) or not row.handler_name) and _behind(row, registration)):
                row = _sync_one(actor, registration, report)
            brought[key] = _mark(row)
    _let_go({key: row for key, row in rows.items() if row.handler_name and key not in declared}, hosted, report)
    return report


def _let_go(rows: Mapping[Key, Subscription], hosted: Callable[[], Collection[Key] | None], report: SyncReport) -> None:
    """Of these no handler is declared here, and perhaps elsewhere."""
    if not rows or (elsewhere := hosted()) is None:
        return
    for key, row in rows.items():
        if key not in elsewhere:
            Subscription.objects.filter(pk=row.pk).update(handler_name="")
            report.gone.append("/".join(key))


def _mark(row: Subscription) -> tuple[int, Sequence[str]]:
    return row.pk, tuple(row.held_fields)


def _behind(row: Subscription, declared: Registration) -> bool:
    if row.handler != Subscription.Handler.CODE:
        return False
    followed = {name: value for name, value in declared_values(declared.policy).items() if name not in row.held_fields}
    return row.handler_name != declared.name or any(getattr(row, name) != value for name, value in followed.items())


@transaction.atomic
def _sync_one(actor: Actor, declared: Registration, report: SyncReport) -> Subscription:
    require(actor, SUBSCRIPTION_EDIT, declared.topic)
    topic = topic_lookup.topic(declared.topic)
    row = topic.subscriptions.select_for_update().filter(group=declared.group).first()
    if row is None:
        row = _create(actor, topic, declared)
        report.created.append(f"{topic.name}/{declared.group}")
    elif _follow(actor, row, declared):
        report.changed.append(f"{topic.name}/{declared.group}")
    return row


def _create(actor: Actor, topic: Topic, declared: Registration) -> Subscription:
    row = Subscription(
        topic=topic,
        group=declared.group,
        handler_name=declared.name,
        **declared_values(declared.policy),
    )
    row.save()
    record_act(actor, "subscription.declare", row, "declared in code", after=snapshot(row))
    transport_objects.after_commit(f"create {row.label}", lambda: transport_objects.begin_group(row))
    return row


def _follow(actor: Actor, row: Subscription, declared: Registration) -> bool:
    """Take over what no person has set; ``True`` if a policy changed."""
    before = snapshot(row)
    for name, value in declared_values(declared.policy).items():
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
