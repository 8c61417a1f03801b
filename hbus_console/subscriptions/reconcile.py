"""Brings the store in line with the rows: what a crash between a commit and the store's call left undone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import structlog

from engine.bus.facts import Fact
from engine.bus.many_groups import GroupName, Stands, TellsStands
from engine.core.clock import Clock, SystemClock
from engine.core.errors import HbusError
from hbus_console.parts import Parts
from hbus_console.subscriptions.models import Subscription
from hbus_console.topics import transport_objects
from hbus_console.topics.models import StoreRemoval, Topic
from hbus_console.wiring import bus, fact_log, store

log = structlog.get_logger(__name__)


@dataclass
class Reconciled:
    """What had to be mended; each entry is ``topic`` or ``topic/group``."""

    groups_made: list[str] = field(default_factory=list)
    pauses_set: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    #: What could not be done now.
    left: Parts = field(default_factory=lambda: Parts("{parts} could not be brought in line"))


def ensure_transport_objects(clock: Clock | None = None) -> Reconciled:
    """Make every topic, group and pause of the rows true in the stores. Idempotent.

    A group that had vanished is made at its last known checkpoint, and a ``group_lost`` fact says so. What cannot be
    made true now stands in ``left`` and keeps nothing else from it.
    """
    clock = clock or SystemClock()
    done = Reconciled()
    for removal in StoreRemoval.objects.all():
        label = f"{removal.topic}/{removal.group}" if removal.group else removal.topic
        done.left.do(label, partial(_remove, removal, label, done), on=removal.transport)
    subscriptions = list(Subscription.objects.select_related("topic"))
    paused = _paused_now(subscriptions)
    there = {topic for topic, _ in paused}
    for topic in Topic.objects.all():
        # Where a group is there, so is its topic; but perhaps with too few partitions.
        if topic.name not in there or topic.partitions > 1:
            done.left.do(topic.name, partial(transport_objects.make_topic, topic), on=topic.transport)
    for subscription in subscriptions:
        topic = subscription.topic
        label = f"{topic.name}/{subscription.group}"
        known = paused.get((topic.name, subscription.group))
        if known is None or topic.partitions > 1:
            done.left.do(label, partial(_make_group, subscription, label, done, clock), on=topic.transport)
        # A topic that moves is paused in two stores: neither answers for the other.
        if topic.leaving or known != transport_objects.to_be_paused(subscription):
            on = None if topic.leaving else topic.transport
            done.left.do(label, partial(_set_pause, subscription, label, done), on=on)
    return done


def _paused_now(subscriptions: Sequence[Subscription]) -> dict[GroupName, bool]:
    """Which groups are there, and whether each is held: as far as the stores can tell in a few round trips."""
    by_transport: dict[str, list[GroupName]] = defaultdict(list)
    for subscription in subscriptions:
        by_transport[subscription.topic.transport].append((subscription.topic.name, subscription.group))
    found: dict[GroupName, bool] = {}
    for transport, groups in by_transport.items():
        found |= _ask(transport, groups)
    return found


def _ask(transport: str, groups: list[GroupName]) -> dict[GroupName, bool]:
    try:
        admin = bus.admin(transport)
        told = list(zip(groups, admin.stands(groups), strict=True)) if isinstance(admin, TellsStands) else []
    except HbusError:
        # Each is asked for itself then, and has it said what is wrong.
        return {}
    return {name: each.lag.paused for name, each in told if isinstance(each, Stands)}


def _remove(removal: StoreRemoval, label: str, done: Reconciled) -> None:
    if transport_objects.remove(removal):
        done.removed.append(label)


def _make_group(subscription: Subscription, label: str, done: Reconciled, clock: Clock) -> None:
    if transport_objects.make_group(subscription):
        done.groups_made.append(label)
        if subscription.checkpoint_at is not None:
            fact_log.emitter().emit([_group_lost(subscription, clock).batch()])


def _set_pause(subscription: Subscription, label: str, done: Reconciled) -> None:
    if transport_objects.set_pause(subscription):
        done.pauses_set.append(label)


def _group_lost(subscription: Subscription, clock: Clock) -> Fact:
    return Fact(
        "group_lost",
        clock.now_ms(),
        topic=subscription.topic.name,
        subscription=subscription.group,
        position=subscription.checkpoint,
        node=store.node_name(),
        detail=f"made anew after position {subscription.checkpoint or 'zero'}; what lay before it is settled",
    )


class TopicReconciler:
    """The keeper's duty of it."""

    name = "topic-reconciler"
    interval_s = 30.0

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock

    def tick(self) -> None:
        """Raises what could not be done once the rest is, as :meth:`Parts.tell` does; the next tick tries again."""
        done = ensure_transport_objects(self._clock)
        if done.groups_made or done.pauses_set or done.removed:
            log.info("store brought in line", groups=done.groups_made, pauses=done.pauses_set, removed=done.removed)
        done.left.tell()
