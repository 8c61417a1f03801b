"""A topic and its groups in its transport: made right after the commit, and again by the keeper if that failed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

import structlog
from django.db import transaction

from engine.bus.errors import UNANSWERED
from engine.bus.partitions import Partitioned
from engine.core.error_text import words_of
from hbus_console.access.context import note_owed
from hbus_console.topics import catalog, delayed
from hbus_console.topics.models import StoreRemoval, Topic
from hbus_console.topics.readers import topic_readers
from hbus_console.wiring import bus

log = structlog.get_logger(__name__)


class Reader(Protocol):
    """Who reads a topic as a group: a reader."""

    @property
    def topic(self) -> Topic: ...

    @property
    def group(self) -> str: ...

    @property
    def paused(self) -> bool: ...

    @property
    def checkpoint(self) -> str: ...


def after_commit(what: str, act: Callable[[], object]) -> None:
    """Run ``act`` on the store once the transaction has committed.

    The row is the truth by then: a store that does not answer is logged, and the reconciler brings it in line.
    """

    def attempt() -> None:
        try:
            act()
        except UNANSWERED as error:
            note_owed(what)
            log.warning("store not in line yet; the keeper will see to it", act=what, error=words_of(error))

    catalog.changed()
    transaction.on_commit(attempt)


def make_topic(topic: Topic) -> None:
    """Make the topic with its partitions."""
    carrier = bus.transport(topic.transport)
    carrier.admin.create_topic(topic.name)
    if topic.partitions > 1 and isinstance(carrier, Partitioned) and carrier.partitions(topic.name) < topic.partitions:
        carrier.set_partitions(topic.name, topic.partitions)


def make_group(reader: Reader) -> bool:
    """Make the group where the reader would continue; ``True`` when it was not there."""
    topic = reader.topic
    make_topic(topic)
    admin = bus.admin(topic.transport)
    # A position means something only to the kind of store that gave it.
    known = reader.checkpoint if bus.transport(topic.transport).capabilities.seek else ""
    return admin.create_group(topic.name, reader.group, known or "beginning")


def begin_group(reader: Reader) -> None:
    """Make the group of a new reader, with a closed breaker whoever had its name before."""
    # The last consumer of that one may have opened it once more after it was removed.
    bus.breakers().forget(reader.topic.name, reader.group)
    make_group(reader)


def to_be_paused(reader: Reader) -> bool:
    """Whether the rows say that the reader gets nothing."""
    return reader.topic.paused or reader.paused


def set_pause(reader: Reader) -> bool:
    """Make the store hold or hand out deliveries as the rows say; ``True`` when it had to be changed."""
    topic = reader.topic
    wanted = to_be_paused(reader)
    changed = False
    for transport in topic.carriers:
        admin = bus.admin(transport)
        if admin.lag(topic.name, reader.group).paused != wanted:
            (admin.pause if wanted else admin.resume)(topic.name, reader.group)
            changed = True
    return changed


def note_removals(topic: Topic, group: str = "") -> list[StoreRemoval]:
    """Note that every store which holds something of the topic, or of one group of it, shall forget it."""
    return [note_removal(topic.name, transport, group) for transport in topic.carriers]


def note_removal(topic: str, transport: str, group: str = "") -> StoreRemoval:
    """Likewise of one store."""
    # Asked now: with the topic goes what says so.
    read_by = "" if group else " ".join(reader.name for reader in topic_readers() if reader.reads(topic))
    return StoreRemoval.objects.create(topic=topic, group=group, transport=transport, read_by=read_by)


def remove_after_commit(removals: Iterable[StoreRemoval]) -> None:
    """Remove them once the transaction has committed, each by itself: one store that is away keeps no other waiting."""
    for removal in removals:
        what = f"remove {removal.topic} {removal.group}".rstrip()
        after_commit(f"{what} from {removal.transport}", partial(remove, removal))


def remove(removal: StoreRemoval) -> bool:
    """Delete from the store what was deleted here, then forget about it: whether that is done.

    It is not while dead letters lie there. The keeper takes these over, and comes back to what is left of it here.
    """
    return _remove_group(removal) if removal.group else _remove_topic(removal)


def _remove_group(removal: StoreRemoval) -> bool:
    """Also its breaker, unless the subscription lives on in another store."""
    topic, group = removal.topic, removal.group
    admin = bus.admin(removal.transport)
    # From now on nothing dies in it, so that what is seen to be there is all there will be.
    admin.delete_group(topic, group)
    if not Topic.objects.filter(name=topic, subscriptions__group=group).exists():
        bus.breakers().forget(topic, group)
    if admin.dead(topic, group, 1):
        return False
    removal.delete()
    return True


def _remove_topic(removal: StoreRemoval) -> bool:
    """Each of its groups before it, for what lies dead there. What waits for its due time in a topic that is gone is
    cancelled with it."""
    topic, transport = removal.topic, removal.transport
    if not Topic.objects.filter(name=topic).exists():
        # No other of its name is made before this is done: what waits is the deleted one's.
        delayed.cancel_all(topic)
    admin = bus.admin(transport)
    of_groups = StoreRemoval.objects.filter(topic=topic, transport=transport).exclude(group="")
    # Noted one by one: who is killed on the way leaves the names of those whose letters are still to be taken over.
    known = set(of_groups.values_list("group", flat=True))
    for group in admin.groups(topic):
        if group not in known:
            StoreRemoval.objects.create(topic=topic, group=group, transport=transport)
    waiting = [each for each in of_groups if not _remove_group(each)]
    if waiting:
        return False
    read_by = removal.read_by.split()
    left = [reader.leave(topic, transport, reader.name in read_by) for reader in topic_readers()]
    admin.delete_topic(topic)
    for tell in left:
        tell()
    removal.delete()
    return True
