"""A lake of one topic to roll up."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.pipeline.audit.planting import Planter
from tests.engine.pipeline.audit.telling import Delivery, Hotel, Told, season
from tests.engine.pipeline.rollup.counting import LATE_MS


@pytest.fixture
def hotel(tmp_path: Path) -> Hotel:
    return Hotel(tmp_path / "lake")


@pytest.fixture
def told(hotel: Hotel) -> Told:
    """Two days and more of bookings with something of everything."""
    made = season(4_000, hotel.start_ms)
    planter = Planter(made)
    planter.stored_again(20)
    planter.no_envelope(3)
    planter.not_told(9)
    planter.not_archived(7)
    planter.not_delivered(10, "billing")
    planter.off_the_clock(8)
    planter.of_another_source(6, "/other")
    planter.told_of_nobody(5, "billing")
    for each in planter.pick(12):
        at_ms = each.stored_ms + 50
        made.deliveries += [
            Delivery(each.id, each.source, "audit", "retried", at_ms),
            Delivery(each.id, each.source, "audit", "dead", at_ms + 20, 2),
        ]
    # Settled the day after it was published, by one who does not say whose it is; and what is of no subscription.
    for each in planter.pick(4):
        made.deliveries.append(Delivery(each.id, None, "audit", "settled", each.stored_ms + LATE_MS))
        made.deliveries.append(Delivery(each.id, each.source, None, "dead", each.stored_ms + 7))
    made.deliveries.append(Delivery("", "", "audit", "dead", made.stored[100].stored_ms))
    return made
