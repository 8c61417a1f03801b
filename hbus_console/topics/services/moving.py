"""Moving a live topic to another transport: it is published to the new one at once, and the old one is read empty.

While a topic is *leaving*, its subscriptions read both, so that it can turn back at any moment. The steps are taken by
the operation of that name.
"""

from __future__ import annotations

from collections.abc import Collection

from django.db import transaction
from django.utils import timezone

from engine.bus.errors import GroupLost
from engine.bus.optional import ClosesTopics
from engine.bus.transport import Lag
from engine.core.errors import BadInput, Conflict
from hbus_console import checks
from hbus_console.access.permissions import Actor, require
from hbus_console.audit.services import record
from hbus_console.registry.reading import TopicReader
from hbus_console.topics import catalog, lookup, transport_objects
from hbus_console.topics.feature import TOPIC_GOVERN
from hbus_console.topics.models import StoreRemoval, Topic
from hbus_console.topics.readers import topic_readers
from hbus_console.topics.services.draft import checked, snapshot
from hbus_console.topics.services.topic_rules import capabilities, carrier_of, fit_name
from hbus_console.ui.formats import counted
from hbus_console.wiring import bus

#: What a topic can do without, where the transport that it moves to knows nothing of the kind.
PRIORITIES = "priorities"
DISPENSABLE = (PRIORITIES,)


def lacks_priorities(row: Topic, to: str) -> bool:
    """Whether the topic takes priorities and ``to`` knows none."""
    return row.priorities and not capabilities(to).priority


def told_of_lacks(row: Topic, to: str) -> list[str]:
    """What ``to`` lacks of what the topic has where it is, a sentence each."""
    had, able = capabilities(row.transport), capabilities(to)
    told = []
    if lacks_priorities(row, to):
        told.append(f"{to} knows no priorities: who asks for another than normal is refused there.")
    if had.seek and not able.seek:
        told.append(f"On {to} nothing can be replayed or read back: see what the topic promises there.")
    if row.idempotency_window_s:
        told.append(
            f"On {to} nobody knows the idempotency keys from before: a repeat of what was published is stored again."
        )
    if had.exact_keys and not able.exact_keys:
        told.append(f"On {to} a repeat under the same key may be stored twice, where its producer lost the answer.")
    return told


def check_move(actor: Actor, name: str, to: str, without: Collection[str] = ()) -> Topic:
    """The topic, if it may move, giving up what of ``without`` is not to be had there.

    Raises ``Forbidden``, or :class:`BadInput` naming what stands in the way.
    """
    require(actor, TOPIC_GOVERN, name)
    row = lookup.topic(name)
    if row.leaving and to in row.carriers:
        # An earlier move was cancelled on the way and goes on, or turns back to where everything is still there.
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
    if lacks_priorities(row, to) and PRIORITIES not in without:
        raise BadInput(
            f"{to} knows no priorities, and {name} takes them.",
            remedy="Move it without: --without priorities, or the box beside the button.",
            field="without",
        )
    checked({**snapshot(row), "transport": to, "priorities": row.priorities and not lacks_priorities(row, to)})
    return row


def is_being_removed(name: str) -> bool:
    """Whether a transport still has to forget what the topic left there: it would forget what is made there anew."""
    return StoreRemoval.objects.filter(topic=name).exists()


def prepare(row: Topic, to: str) -> None:
    """Make topic, groups and pauses on the new transport, before anything is published there."""
    admin = bus.admin(to)
    admin.create_topic(row.name)
    for subscription in row.subscriptions.all():
        admin.create_group(row.name, subscription.group, "beginning")
        if row.paused or subscription.paused:
            admin.pause(row.name, subscription.group)
    for reader in topic_readers():
        reader.prepare(row.name, to)


@transaction.atomic
def cut_over(actor: Actor, name: str, to: str, without: Collection[str], reason: str) -> Topic:
    """From now on it is published to ``to``, and read from both."""
    check_move(actor, name, to, without)
    row = lookup.topic(name, lock=True)
    before = snapshot(row)
    row.priorities = row.priorities and not lacks_priorities(row, to)
    row.leaving, row.transport, row.moved_at = carrier_of(row.transport), to, timezone.now()
    row.revision += 1
    row.save()
    # A position means something only to the store that gave it.
    row.subscriptions.update(checkpoint="", checkpoint_at=None)
    record(actor, "topic.move", row.subject, reason=checks.reason(reason), before=before, after=snapshot(row))
    catalog.changed()
    return row


def close_old(name: str, old: str) -> None:
    """Let nobody publish to ``old`` any more, which the topic is leaving and which can close it: by then only who stood
    still for long would, and nobody would find it there."""
    admin = bus.admin(old)
    if not isinstance(admin, ClosesTopics):
        return
    admin.close_topic(name)
    row = Topic.objects.filter(name=name).first()
    if row is not None and carrier_of(row.transport) == old:
        # It has turned back meanwhile.
        admin.create_topic(name)


@transaction.atomic
def finish_move(actor: Actor, name: str, old: str, reason: str) -> Topic:
    """What ``old`` held is settled: it is read no more, and removed. Raises ``Conflict`` when it is not being left."""
    require(actor, TOPIC_GOVERN, name)
    row = lookup.topic(name, lock=True)
    if row.leaving != old:
        raise Conflict(f"{name} is not leaving {old} any more.", remedy="Look where it is now.", field="to")
    before = snapshot(row)
    transport_objects.note_removal(name, row.leaving)
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


def unread_there(transport: str, topic: str) -> list[tuple[TopicReader, str]]:
    """What has not read beside subscriptions all that a transport holds of a topic, each with how much that is: ``the
    archive has 3 messages to read``."""
    found = [(reader, reader.unread(topic, transport)) for reader in topic_readers()]
    return [(reader, _behind(reader, number)) for reader, number in found if number != 0]


def _behind(reader: TopicReader, number: int | None) -> str:
    if number is None:
        return f"how much {reader.words} has to read cannot be told"
    return f"{reader.words} has {counted(number, 'message')} to read"
