"""Moving a live topic to another transport: it is published to the new one at once, and the old one is read empty.

While a topic is *leaving*, its subscriptions read both. The steps are taken by the operation of that name.
"""

from __future__ import annotations

from django.db import transaction

from engine.bus.errors import GroupLost
from engine.bus.transport import Lag
from engine.core.errors import BadInput, Conflict
from hbus_console import checks
from hbus_console.access.permissions import Actor, require
from hbus_console.audit.services import record
from hbus_console.topics import catalog, lookup
from hbus_console.topics.feature import TOPIC_GOVERN
from hbus_console.topics.models import StoreRemoval, Topic
from hbus_console.topics.services.draft import checked, snapshot
from hbus_console.topics.services.topic_rules import capabilities, carrier_of, fit_name
from hbus_console.wiring import bus


def check_move(actor: Actor, name: str, to: str) -> Topic:
    """The topic, if it may move. Raises ``Forbidden``, or :class:`BadInput` naming what stands in the way."""
    require(actor, TOPIC_GOVERN, name)
    row = lookup.topic(name)
    if row.leaving and carrier_of(row.transport) == to:
        # An earlier move was cancelled on the way: it goes on.
        return row
    if row.leaving:
        raise Conflict(f"{name} is on its way from {row.leaving} already.", remedy="Finish that move.", field="to")
    if carrier_of(row.transport) == to:
        raise BadInput(f"{name} is carried by {to} already.", remedy="Choose another transport.", field="to")
    if row.ordering != "none":
        raise BadInput(
            f"{name} keeps the order of keys, and two transports at a time cannot.",
            remedy="Stop publishing, let it drain, and change the transport in its settings.",
            field="ordering",
        )
    fit_name(name, to)
    if not capabilities(to).durable:
        raise BadInput(f"{to} forgets everything with a restart.", remedy="Choose another transport.", field="to")
    checked({**snapshot(row), "transport": to})
    if StoreRemoval.objects.filter(topic=name).exists():
        raise Conflict(f"What {name} left behind is still being removed.", remedy="Try again in a minute.", field="to")
    return row


def prepare(row: Topic, to: str) -> None:
    """Make topic, groups and pauses on the new transport, before anything is published there."""
    admin = bus.admin(to)
    admin.create_topic(row.name)
    for subscription in row.subscriptions.all():
        admin.create_group(row.name, subscription.group, "beginning")
        if row.paused or subscription.paused:
            admin.pause(row.name, subscription.group)


@transaction.atomic
def cut_over(actor: Actor, name: str, to: str, reason: str) -> Topic:
    """From now on it is published to ``to``, and read from both."""
    check_move(actor, name, to)
    row = lookup.topic(name, lock=True)
    before = snapshot(row)
    row.leaving, row.transport = carrier_of(row.transport), to
    row.revision += 1
    row.save()
    # A position means something only to the store that gave it.
    row.subscriptions.update(checkpoint="", checkpoint_at=None)
    record(actor, "topic.move", row.subject, reason=checks.reason(reason), before=before, after=snapshot(row))
    catalog.changed()
    return row


@transaction.atomic
def finish_move(actor: Actor, name: str, reason: str) -> Topic:
    """What the old transport held is settled: it is read no more, and removed."""
    require(actor, TOPIC_GOVERN, name)
    row = lookup.topic(name, lock=True)
    before = snapshot(row)
    StoreRemoval.objects.create(topic=name, transport=row.leaving)
    row.leaving = ""
    row.revision += 1
    row.save()
    record(actor, "topic.moved", row.subject, reason=checks.reason(reason), before=before, after=snapshot(row))
    catalog.changed()
    return row


def lag_there(transport: str, topic: str, group: str) -> Lag:
    """Where a group stands on one transport; nothing where it is not."""
    try:
        return bus.admin(transport).lag(topic, group)
    except GroupLost:
        return Lag(0, 0, 0, 0, None)
