"""The public kit that any transport, ours or a stranger's, must pass. Needs pytest.

On the command line, with the function that the entry point names::

    pytest --hbus-transport my.module:factory --hbus-url my://store

Or as a class of your own, where the kit shall also restart your store, cut its wire, or wait as it takes no clock::

    class TestMine(TransportConformance):
        @pytest.fixture
        def config(self):
            return BusConfig(type="mine", url=..., prefix=...)

Every test says which promise of :mod:`~engine.bus.conformance.promises` it checks, and which capability it asks for;
what a transport does not declare is skipped as such. A run ends with the matrix of both.
"""

from pkgutil import iter_modules

import pytest

# So that a failed promise shows the values it was about.
pytest.register_assert_rewrite(*(f"{__name__}.{module.name}" for module in iter_modules(__path__)))

from engine.bus.conformance.admin import AdminConformance  # noqa: E402
from engine.bus.conformance.base import TransportTests  # noqa: E402
from engine.bus.conformance.browsing import BrowsingConformance  # noqa: E402
from engine.bus.conformance.bulk import BulkConformance  # noqa: E402
from engine.bus.conformance.closing import ClosingConformance  # noqa: E402
from engine.bus.conformance.concurrency import ConcurrencyConformance  # noqa: E402
from engine.bus.conformance.consuming import ConsumingConformance  # noqa: E402
from engine.bus.conformance.deadletters import DeadLetterConformance  # noqa: E402
from engine.bus.conformance.delays import DelayConformance  # noqa: E402
from engine.bus.conformance.delivery import DeliveryConformance  # noqa: E402
from engine.bus.conformance.groups import GroupConformance  # noqa: E402
from engine.bus.conformance.idempotency import IdempotencyConformance  # noqa: E402
from engine.bus.conformance.leases import LeaseConformance  # noqa: E402
from engine.bus.conformance.lost_answers import LostAnswerConformance  # noqa: E402
from engine.bus.conformance.optional import (  # noqa: E402
    ClaimingConformance,
    ConsumerNameConformance,
    ManyGroupsConformance,
    StandingConformance,
)
from engine.bus.conformance.ordering import OrderingConformance  # noqa: E402
from engine.bus.conformance.outages import OutageConformance  # noqa: E402
from engine.bus.conformance.parking import ParkingConformance  # noqa: E402
from engine.bus.conformance.partitions import PartitionConformance  # noqa: E402
from engine.bus.conformance.payloads import PayloadConformance  # noqa: E402
from engine.bus.conformance.priorities import PriorityConformance  # noqa: E402
from engine.bus.conformance.publishing import PublishConformance  # noqa: E402
from engine.bus.conformance.rereading import RereadingConformance  # noqa: E402
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
    RereadingConformance,
    BulkConformance,
    ClosingConformance,
    PartitionConformance,
    ParkingConformance,
    ConsumingConformance,
    OrderingConformance,
    DelayConformance,
    OutageConformance,
    LostAnswerConformance,
    ClaimingConformance,
    ConsumerNameConformance,
    ManyGroupsConformance,
    StandingConformance,
):
    """Every promise of :mod:`engine.bus.transport`."""


__all__ = [
    "AdminConformance",
    "BrowsingConformance",
    "ClaimingConformance",
    "ClosingConformance",
    "ConcurrencyConformance",
    "ConsumerNameConformance",
    "ConsumingConformance",
    "DeadLetterConformance",
    "DelayConformance",
    "DeliveryConformance",
    "GroupConformance",
    "IdempotencyConformance",
    "LeaseConformance",
    "LostAnswerConformance",
    "ManyGroupsConformance",
    "OrderingConformance",
    "OutageConformance",
    "ParkingConformance",
    "PartitionConformance",
    "PayloadConformance",
    "PriorityConformance",
    "PublishConformance",
    "RereadingConformance",
    "RetentionConformance",
    "RetryConformance",
    "SeekConformance",
    "StandingConformance",
    "TransportConformance",
    "TransportTests",
    "WaitingConformance",
]
