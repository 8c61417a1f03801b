"""Brings the store in line with the rows: what a crash between a commit and the store's call left undone."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import structlog

from engine.bus.facts import Fact
from engine.core.clock import Clock, SystemClock
from hbus_console.parts import Parts
from hbus_console.subscriptions.models import Subscription
from hbus_console.topics import transport_objects
from hbus_console.topics.models import StoreRemoval, Topic
from hbus_console.wiring import fact_log, store

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
    for topic in Topic.objects.all():
        done.left.do(topic.name, partial(transport_objects.make_topic, topic), on=topic.transport)
    for subscription in Subscription.objects.select_related("topic"):
        label = f"{subscription.topic.name}/{subscription.group}"
        on = subscription.topic.transport
        done.left.do(label, partial(_make_group, subscription, label, done, clock), on=on)
        # A topic that moves is paused in two stores: neither answers for the other.
        done.left.do(
            label, partial(_set_pause, subscription, label, done), on=None if subscription.topic.leaving else on
        )
    return done


def _remove(removal: StoreRemoval, label: str, done: Reconciled) -> None:
    transport_objects.remove(removal)
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
