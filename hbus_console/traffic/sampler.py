"""Reads where every subscription stands: for charts and gauges, and as the point to heal from after a loss."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

from django.db import transaction

from engine.bus.errors import GroupLost
from engine.bus.facts import Fact
from engine.bus.many_groups import GroupName, Stands, ask_stands
from engine.bus.partitions import together
from engine.bus.transport import Admin
from engine.core.clock import Clock, SystemClock
from engine.core.error_text import words_of
from engine.core.errors import ConfigurationError, HbusError, OutOfConnections, Unavailable
from engine.core.facts import Emitter
from hbus_console.messages.models import LagSample
from hbus_console.parts import Parts
from hbus_console.subscriptions.models import Subscription
from hbus_console.traffic import metrics

#: A group that was made a moment ago, or is being healed by its consumer, may be missing in one reading.
MISSING_TICKS = 2


class LagSampler:
    """A duty. What it cannot read leaves no sample; what it learns by that is a fact, said once."""

    name = "lag-sampler"
    interval_s = 5.0

    def __init__(
        self, admin: Callable[[str], Admin], facts: Emitter, *, node: str = "", clock: Clock | None = None
    ) -> None:
        self._admin = admin
        self._facts = facts
        self._node = node
        self._clock = clock or SystemClock()
        self._missing: dict[int, int] = {}
        self._away: set[str] = set()

    def tick(self) -> None:
        """Take one sample of everything, all with the same instant."""
        self._sample()

    def _sample(self) -> None:
        now_ms = self._clock.now_ms()
        samples: list[LagSample] = []
        moved: list[Subscription] = []
        away: dict[str, HbusError] = {}
        parts = Parts("{parts} could not be sampled", through=(GroupLost, Unavailable, ConfigurationError))
        known = list(Subscription.objects.select_related("topic").order_by("topic__name", "group"))
        asked: dict[str, Callable[[GroupName], Stands]] = {}
        for subscription in known:
            transport = subscription.topic.transport
            if transport in away:
                continue
            try:
                if transport not in asked:
                    asked[transport] = self._ask(transport, known)
                read = parts.do(subscription.label, partial(self._read, subscription, asked[transport], now_ms))
            except GroupLost as error:
                self._count_missing(subscription, words_of(error), now_ms)
                continue
            except (Unavailable, ConfigurationError) as error:
                away[transport] = error
                continue
            if read is None:
                continue
            sample, checkpoint = read
            self._missing.pop(subscription.pk, None)
            samples.append(sample)
            if checkpoint and checkpoint != subscription.checkpoint:
                subscription.checkpoint = checkpoint
                moved.append(subscription)
        self._say_reachable(away, {subscription.topic.transport for subscription in known}, now_ms)
        LagSample.objects.bulk_create(samples)
        self._keep_checkpoints(moved, now_ms)
        metrics.show_lag(samples, now_ms)
        parts.tell()

    def _ask(self, transport: str, known: list[Subscription]) -> Callable[[GroupName], Stands]:
        groups = [(each.topic.name, each.group) for each in known if each.topic.transport == transport]
        return ask_stands(self._admin(transport), groups)

    def _read(
        self, subscription: Subscription, tell: Callable[[GroupName], Stands], now_ms: int
    ) -> tuple[LagSample, str]:
        name = (subscription.topic.name, subscription.group)
        checkpoint, lag = tell(name)
        if subscription.topic.leaving:
            lag = together([lag, self._admin(subscription.topic.leaving).lag(*name)])
        sample = LagSample(
            at_ms=now_ms,
            topic=subscription.topic.name,
            subscription=subscription.group,
            waiting=lag.waiting,
            in_flight=lag.in_flight,
            retrying=lag.retrying,
            parked=lag.parked,
            oldest_ms=lag.oldest_ms,
            began_ms=lag.began_ms,
        )
        return sample, checkpoint

    def _keep_checkpoints(self, moved: list[Subscription], now_ms: int) -> None:
        if not moved:
            return
        at = datetime.fromtimestamp(now_ms / 1000, tz=UTC)
        with transaction.atomic():
            for subscription in moved:
                Subscription.objects.filter(pk=subscription.pk).update(
                    checkpoint=subscription.checkpoint, checkpoint_at=at
                )

    def _count_missing(self, subscription: Subscription, error: str, now_ms: int) -> None:
        count = self._missing[subscription.pk] = self._missing.get(subscription.pk, 0) + 1
        if count != MISSING_TICKS:
            return
        where = f"position {subscription.checkpoint}" if subscription.checkpoint else "the beginning"
        self._facts.emit(
            [
                Fact(
                    "group_lost",
                    now_ms,
                    topic=subscription.topic.name,
                    subscription=subscription.group,
                    node=self._node,
                    error=error,
                    detail=f"The store has no such group; its consumer will make it anew at {where}.",
                ).batch()
            ]
        )

    def _say_reachable(self, away: dict[str, HbusError], used: set[str], now_ms: int) -> None:
        for transport in sorted(used):
            name = transport or "the default transport"
            if transport in away and transport not in self._away:
                self._away.add(transport)
                error = away[transport]
                kind, detail = "store_lost", f"{name} cannot be reached: {error.what}"
                if isinstance(error, OutOfConnections):
                    kind, detail = "out_of_connections", f"{name}: {error.what}"
                self._facts.emit([Fact(kind, now_ms, node=self._node, detail=detail).batch()])
            elif transport not in away and transport in self._away:
                self._away.discard(transport)
                back = Fact("store_back", now_ms, node=self._node, detail=f"{name} answers again.")
                self._facts.emit([back.batch()])
