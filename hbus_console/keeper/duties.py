"""Every duty of an installation. Each runs in one keeper at a time, under the lease of its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from django.conf import settings

from engine.core.duties import Duty
from hbus_console import wiring
from hbus_console.keeper.housekeeping import IdempotencyExpiry

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

    store, facts, node = wiring.store(), wiring.facts(), wiring.node_name()
    return [
        OutboxRelay(wiring.producer, wiring.store),
        DelayMover(wiring.delays(), wiring.producer),
        FactCollector(FactReader(store, settings.HBUS_PREFIX), per_message=settings.HBUS_LEDGER),
        DeadLetterCollector(wiring.admin),
        LagSampler(wiring.admin, facts, node=node),
        StreamRetention(wiring.admin, facts, node=node),
        LedgerRetention(settings.LEDGER_MAX_MESSAGES),
        TopicReconciler(),
        BreakerGauge(wiring.breakers),
        ConsumerNameExpiry(wiring.admin, idle_ms=settings.FORGET_CONSUMERS_H * 3_600_000),
        AuditAnchor(),
        AuditVerification(),
        SignInExpiry(),
        InboxRetention(),
        IdempotencyExpiry(),
        *(make() for make in _more),
    ]
