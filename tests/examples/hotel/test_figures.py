"""What the figures of the hotels are held against is what pandas computes of the same bookings."""

from __future__ import annotations

import pandas as pd
import pytest

from examples.hotel import figures
from examples.hotel.simulator import simulate
from hbus_console.access.permissions import SYSTEM

FEED = simulate(2_000)
BOOKINGS = pd.DataFrame(
    {
        "hotel": booking.hotel,
        "lead": booking.lead_days,
        "end": booking.end,
        "arrival": pd.Timestamp(booking.stay.arrival),
        "nights": booking.stay.nights,
    }
    for booking in FEED.bookings
)


def test_cancellations_by_lead_time() -> None:
    spans = pd.cut(BOOKINGS["lead"], [*figures.SPANS, float("inf")], right=False, labels=figures.SPANS)
    by_span = BOOKINGS.assign(cancelled=BOOKINGS["end"] == "cancelled").groupby(spans, observed=True)["cancelled"]
    found = by_span.agg(["size", "sum"])
    assert figures.cancellations(FEED) == [(int(at), int(row["size"]), int(row["sum"])) for at, row in found.iterrows()]


def test_room_nights_by_month() -> None:
    stays = BOOKINGS[BOOKINGS["end"] == "stayed"]
    nights = stays.loc[stays.index.repeat(stays["nights"])]
    night = nights["arrival"] + pd.to_timedelta(nights.groupby(level=0).cumcount(), unit="D")
    found = pd.crosstab(night.dt.strftime("%Y-%m"), nights["hotel"])
    expected = [(month, int(row["City Hotel"]), int(row["Resort Hotel"])) for month, row in found.iterrows()]
    assert figures.room_nights(FEED) == expected


@pytest.mark.django_db
def test_a_figure_that_cannot_be_drawn_says_why_and_keeps_nobody_from_the_rest() -> None:
    """Found by a stranger: a refusal at the very end took all that the demo had found with it."""
    archived = [topic for reads in figures.READS.values() for topic in reads]
    drawn = figures.draw(SYSTEM, FEED, archived)
    assert [figure.name for figure in drawn] == list(figures.READS)
    assert all(figure.error.startswith("There is no team Reservations.") for figure in drawn)
    assert not any(figure.equal for figure in drawn)
