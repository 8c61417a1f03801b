"""The example's data in small, and its topics in a store whose keys belong to one test."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from examples.hotel.bookings import Booking
from examples.hotel.events import Stay
from examples.hotel.seed import seed
from hbus_console.access.permissions import SYSTEM
from hbus_console.topics import catalog
from hbus_console.wiring import store

HEADER = (
    "hotel,is_canceled,lead_time,arrival_date_year,arrival_date_month,arrival_date_week_number,"
    "arrival_date_day_of_month,stays_in_weekend_nights,stays_in_week_nights,adults,children,babies,meal,country,"
    "market_segment,distribution_channel,is_repeated_guest,previous_cancellations,previous_bookings_not_canceled,"
    "reserved_room_type,assigned_room_type,booking_changes,deposit_type,agent,company,days_in_waiting_list,"
    "customer_type,adr,required_car_parking_spaces,total_of_special_requests,reservation_status,"
    "reservation_status_date\n"
)
ROWS = (
    "Resort Hotel,0,10,2015,July,27,1,1,2,2,NA,1,BB,PRT,Direct,Direct,0,0,0,C,C,2,No Deposit,NULL,NULL,0,Transient,"
    "75.5,0,0,Check-Out,7/4/2015\n"
    "Resort Hotel,1,85,2015,July,27,2,0,3,2,0,0,BB,NULL,Undefined,TA/TO,0,0,0,L,A,1,No Deposit,240,NULL,0,Transient,"
    "82,0,1,Canceled,5/6/2015\n"
    "City Hotel,1,0,2015,July,27,3,0,3,2,0,0,BB,GBR,Online TA,TA/TO,0,0,0,A,A,0,No Deposit,9,NULL,0,Transient,"
    "100,0,1,No-Show,7/3/2015\n"
)


@pytest.fixture
def bookings_file(tmp_path: Path) -> Path:
    """Three bookings: a stay with two changes, a cancellation of room L with one change, and a no-show."""
    path = tmp_path / "bookings.csv"
    path.write_text(HEADER + ROWS)
    return path


@pytest.fixture
def hotel(settings: Settings, prefix: str, transactional_db: None) -> Iterator[None]:
    """The example's teams, topics and subscriptions."""
    store.close()
    settings.HBUS_PREFIX = prefix
    catalog.changed()
    seed(SYSTEM)
    yield
    store.close()


def booking(**changes: Any) -> Booking:
    values: dict[str, Any] = {
        "row": 1,
        "hotel": "City Hotel",
        "stay": Stay(date(2016, 3, 1), 3, "A"),
        "lead_days": 30,
        "changes": 0,
        "end": "stayed",
        "ended": date(2016, 3, 4),
        "adults": 2,
        "children": 0,
        "country": "PRT",
        "channel": "Direct",
        "segment": "Direct",
        "meal": "BB",
        "deposit": "No Deposit",
        "daily_rate_cents": 5_000,
    }
    return Booking(**(values | changes))
