"""What the keeper does for the ledger of messages."""

from __future__ import annotations

from django.conf import settings

from engine.core.store.answered import answered
from hbus_console.evidence.fact_stream import FactReader
from hbus_console.messages.checking import EvidenceCheck
from hbus_console.messages.delayed_checking import DelayedEvidenceCheck
from hbus_console.messages.delivery_checking import DeliveryEvidenceCheck
from hbus_console.messages.retention import LedgerRetention
from hbus_console.metrics import count
from hbus_console.wiring import bus, store


def evidence_check() -> EvidenceCheck:
    return EvidenceCheck(bus.transport, _newest_fact, count, node=store.node_name())


def delivery_evidence_check() -> DeliveryEvidenceCheck:
    return DeliveryEvidenceCheck(bus.transport, _newest_fact, count, node=store.node_name())


def delayed_evidence_check() -> DelayedEvidenceCheck:
    return DelayedEvidenceCheck(bus.delays, _newest_fact, count, node=store.node_name())


def _newest_fact() -> str:
    with answered():
        return FactReader(store.client(), settings.HBUS_PREFIX).end()[0]


def ledger_retention() -> LedgerRetention:
    return LedgerRetention(settings.LEDGER_MAX_MESSAGES)
