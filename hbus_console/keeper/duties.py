"""Every duty of an installation. Each runs in one keeper at a time, under the lease of its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from django.conf import settings

from engine.core.duties import Duty
from hbus_console.keeper.housekeeping import IdempotencyExpiry
from hbus_console.wiring import bus, store

DutyMaker = Callable[[], Duty]

_more: list[DutyMaker] = []


def add_duty(maker: DutyMaker) -> None:
    """Let keepers run another duty; call it from an app's ``ready``. Adding it again does nothing."""
    if maker not in _more:
        _more.append(maker)


def all_duties() -> Sequence[Duty]:
    """Made anew with each call, not started."""
    from engine.bus.delay_mover import DelayMover
    from hbus_console.accounts.housekeeping import SignInExpiry
    from hbus_console.audit.anchor import AuditAnchor
    from hbus_console.audit.duty import AuditVerification
    from hbus_console.consumers.breakers import BreakerGauge
    from hbus_console.consumers.names import ConsumerNameExpiry
    from hbus_console.deadletters.collector import DeadLetterCollector
    from hbus_console.evidence.collector import FactCollector
    from hbus_console.evidence.fact_stream import FactReader
    from hbus_console.messages.retention import LedgerRetention
    from hbus_console.outbox.relay import OutboxRelay
    from hbus_console.outbox.retention import InboxRetention
    from hbus_console.topics.reconcile import TopicReconciler
    from hbus_console.topics.trimmer import StreamRetention
    from hbus_console.traffic.sampler import LagSampler

    facts, node = store.facts(), store.node_name()
    return [
        OutboxRelay(bus.producer, store.client),
        DelayMover(bus.delays(), bus.producer),
        FactCollector(FactReader(store.client(), settings.HBUS_PREFIX), per_message=settings.HBUS_LEDGER),
        DeadLetterCollector(bus.admin),
        LagSampler(bus.admin, facts, node=node),
        StreamRetention(bus.admin, facts, node=node),
        LedgerRetention(settings.LEDGER_MAX_MESSAGES),
        TopicReconciler(),
        BreakerGauge(bus.breakers),
        ConsumerNameExpiry(bus.admin, idle_ms=settings.FORGET_CONSUMERS_H * 3_600_000),
        AuditAnchor(),
        AuditVerification(),
        SignInExpiry(),
        InboxRetention(),
        IdempotencyExpiry(),
        *(make() for make in _more),
    ]
