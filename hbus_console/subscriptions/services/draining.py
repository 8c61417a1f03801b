"""Draining: holding a subscription until nothing of it is being worked on anywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import redis
from django.db import transaction

from engine.bus.errors import UNANSWERED, GroupLost
from engine.bus.partitions import together
from engine.bus.transport import Lag
from engine.core.error_text import words_of
from engine.core.errors import Unavailable
from hbus_console import checks
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import Actor, require
from hbus_console.cluster.services import nodes
from hbus_console.subscriptions.feature import SUBSCRIPTION_OPERATE
from hbus_console.subscriptions.models import Subscription
from hbus_console.subscriptions.services import lookup
from hbus_console.subscriptions.services.subscriptions import hold
from hbus_console.wiring import bus


@dataclass(frozen=True)
class DrainStatus:
    """How far a held subscription is from standing still. Counts are ``None`` where the store cannot tell."""

    #: Whether the store hands out nothing more.
    paused: bool
    #: Under a live lease: handed out before the pause and still being worked on.
    in_flight: int | None
    #: What stays for later.
    waiting: int | None = None
    retrying: int = 0
    parked: int = 0
    #: Node → handlers that run there and decisions the store has not taken yet, as of its last stamp; none at rest.
    at_work: Mapping[str, int] = field(default_factory=dict)
    #: Nodes that ran it and have fallen silent: nobody can tell what they still do. Their leases run out.
    silent: Sequence[str] = ()

    @property
    def drained(self) -> bool:
        """Nothing is handed out, nothing is leased, and no living node has any of it in its hands."""
        return self.paused and self.in_flight == 0 and not self.at_work

    @property
    def unsettled(self) -> int | None:
        """All that is not settled, in flight or not."""
        if self.waiting is None or self.in_flight is None:
            return None
        return self.waiting + self.in_flight + self.retrying + self.parked

    @property
    def busy(self) -> int:
        """How much is still being worked on. A handler that outlived its lease counts, although nothing is leased."""
        return max(self.in_flight or 0, sum(self.at_work.values()))

    @property
    def sentence(self) -> str:
        """How it stands, for a person."""
        left = f" {self.waiting:,} wait{'s' if self.waiting == 1 else ''}." if self.waiting else ""
        if self.drained:
            return f"Drained: nothing is in flight.{left}"
        if self.in_flight is None:
            return "Draining: the store cannot be asked."
        if not self.paused:
            return "Draining: the store has not obeyed yet."
        where = ", ".join(f"{count:,} on {node}" for node, count in sorted(self.at_work.items()))
        return f"Draining: {self.busy:,} in flight{f' ({where})' if where else ''}.{left}"


@transaction.atomic
def drain(actor: Actor, topic: str, group: str, reason: str) -> Subscription:
    """Pause with the intent to stand still; :func:`drain_status` tells when that is so."""
    require(actor, SUBSCRIPTION_OPERATE, topic)
    row = lookup.subscription(topic, group, lock=True)
    reason = checks.reason(reason)
    return hold(actor, row, True, reason, "subscription.drain")


def drain_status(actor: Actor, topic: str, group: str) -> DrainStatus:
    """Where a drain stands, as the store and the nodes tell. Raises ``Unavailable`` and ``GroupLost``."""
    require(actor, VIEW, topic)
    row = lookup.subscription(topic, group)
    lags = lags_of(row)
    lag = together(lags)
    at_work, silent = _at_work(topic, group)
    return DrainStatus(
        paused=all(each.paused for each in lags),
        in_flight=lag.in_flight,
        waiting=lag.waiting,
        retrying=lag.retrying,
        parked=lag.parked,
        at_work=at_work,
        silent=silent,
    )


def lags_of(row: Subscription) -> list[Lag]:
    """Where it stands in each store that holds messages of its topic. Raises ``Unavailable``, and ``GroupLost`` where
    the store that is published to does not know it; what a topic leaves may be gone already.
    """
    topic = row.topic
    lags = [bus.admin(topic.transport).lag(topic.name, row.group)]
    if topic.leaving:
        with suppress(GroupLost):
            lags.append(bus.admin(topic.leaving).lag(topic.name, row.group))
    return lags


def lag_of(row: Subscription) -> Lag:
    """Where it stands in all of them, held as it should be only where all obey. Raises as :func:`lags_of`."""
    lags = lags_of(row)
    obeyed = all if row.paused or row.topic.paused else any
    return replace(together(lags), paused=obeyed(each.paused for each in lags))


def drain_status_if_known(actor: Actor, topic: str, group: str) -> DrainStatus:
    """The same for one who has just asked for a drain: a store that is away leaves the counts unknown."""
    try:
        return drain_status(actor, topic, group)
    except UNANSWERED:
        return DrainStatus(paused=False, in_flight=None)


def _at_work(topic: str, group: str) -> tuple[dict[str, int], list[str]]:
    try:
        hosts = [node for node in nodes() if node.role == "consumer"]
    except redis.RedisError as error:
        raise Unavailable(f"The nodes cannot be asked: {words_of(error)}.", remedy="Look at the store.") from error
    busy: dict[str, int] = {}
    silent = []
    for node in hosts:
        for status in node.detail.get("consumers", ()):
            if (status.get("topic"), status.get("group")) != (topic, group):
                continue
            if node.silent:
                silent.append(node.name)
            elif count := int(status.get("in_flight", 0)) + int(status.get("unsettled", 0)):
                busy[node.name] = count
    return busy, silent
