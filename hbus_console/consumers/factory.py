"""Makes consumers out of the rows of subscriptions."""

from __future__ import annotations

from engine.bus.consumer import Consumer
from hbus_console.consumers.pair import Pair
from hbus_console.consumers.policies import handler_of
from hbus_console.consumers.positions import DjangoPositions
from hbus_console.outbox.inbox import DjangoInbox
from hbus_console.quotas.asking import CONSUME, pacing
from hbus_console.subscriptions.models import Subscription
from hbus_console.subscriptions.services import policy_of
from hbus_console.wiring import bus, fact_log, store


def consumer_for(subscription: Subscription) -> Consumer | Pair:
    """A consumer for one row, not started; its topic must be loaded.

    Raises ``ConfigurationError`` when the row's handler is code that this process has not registered.
    """
    policy = policy_of(subscription)
    handler = handler_of(subscription)

    def on(name: str) -> Consumer:
        return Consumer(
            bus.transport(name),
            policy,
            handler.call,
            name=store.node_name(),
            facts=fact_log.emitter(),
            inbox=DjangoInbox() if policy.transactional else None,
            positions=DjangoPositions(),
            handler_name=handler.name,
            breakers=bus.breakers(),
            pacing=pacing(CONSUME, policy.topic, policy.group),
        )

    topic = subscription.topic
    return Pair(on(topic.transport), on(topic.leaving)) if topic.leaving else on(topic.transport)
