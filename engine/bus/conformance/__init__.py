"""The public kit that any transport, ours or a stranger's, must pass. Needs pytest.

Write a test class that inherits :class:`TransportConformance` and gives it a ``transport`` fixture::

    class TestMine(TransportConformance):
        @pytest.fixture
        def transport(self, clock):
            transport = open_transport(BusConfig(url=...), clock)
            yield transport
            transport.close()

A transport whose store cannot be given a clock overrides ``pass_time`` (and ``lease_ms``, to make it short). One that
does not declare a capability inherits the classes of what it has instead of the whole.
"""

from pkgutil import iter_modules

import pytest

# So that a failed promise shows the values it was about.
pytest.register_assert_rewrite(*(f"{__name__}.{module.name}" for module in iter_modules(__path__)))

from engine.bus.conformance.admin import AdminConformance  # noqa: E402
from engine.bus.conformance.base import TransportTests  # noqa: E402
from engine.bus.conformance.browsing import BrowsingConformance  # noqa: E402
from engine.bus.conformance.concurrency import ConcurrencyConformance  # noqa: E402
from engine.bus.conformance.deadletters import DeadLetterConformance  # noqa: E402
from engine.bus.conformance.delivery import DeliveryConformance  # noqa: E402
from engine.bus.conformance.groups import GroupConformance  # noqa: E402
from engine.bus.conformance.idempotency import IdempotencyConformance  # noqa: E402
from engine.bus.conformance.leases import LeaseConformance  # noqa: E402
from engine.bus.conformance.partitions import PartitionConformance  # noqa: E402
from engine.bus.conformance.payloads import PayloadConformance  # noqa: E402
from engine.bus.conformance.priorities import PriorityConformance  # noqa: E402
from engine.bus.conformance.publishing import PublishConformance  # noqa: E402
from engine.bus.conformance.retention import RetentionConformance  # noqa: E402
from engine.bus.conformance.retries import RetryConformance  # noqa: E402
from engine.bus.conformance.seeking import SeekConformance  # noqa: E402
from engine.bus.conformance.waiting import WaitingConformance  # noqa: E402


class TransportConformance(
    DeliveryConformance,
    PayloadConformance,
    PublishConformance,
    IdempotencyConformance,
    PriorityConformance,
    LeaseConformance,
    RetryConformance,
    DeadLetterConformance,
    GroupConformance,
    SeekConformance,
    WaitingConformance,
    ConcurrencyConformance,
    AdminConformance,
    BrowsingConformance,
    RetentionConformance,
    PartitionConformance,
):
    """Every promise of :mod:`engine.bus.transport`."""


__all__ = [
    "AdminConformance",
    "BrowsingConformance",
    "ConcurrencyConformance",
    "DeadLetterConformance",
    "DeliveryConformance",
    "GroupConformance",
    "IdempotencyConformance",
    "LeaseConformance",
    "PartitionConformance",
    "PayloadConformance",
    "PriorityConformance",
    "PublishConformance",
    "RetentionConformance",
    "RetryConformance",
    "SeekConformance",
    "TransportConformance",
    "TransportTests",
    "WaitingConformance",
]
