"""Who listens to the hotel: three teams, eight subscriptions, plain functions."""

from __future__ import annotations

from engine.bus.handlers import Context, subscription
from engine.bus.options import PublishOptions
from examples.hotel import availability, closing, partner
from examples.hotel.events import (
    BookingCancelled,
    BookingChanged,
    BookingCreated,
    InvoiceDrafted,
    NightClosed,
    StayCompleted,
)
from hbus_console.outbox.services import publish_on_commit


@subscription(topic="booking.created", group="availability", transactional=True, concurrency=2, lease_s=10)
def count_created(event: BookingCreated, context: Context) -> None:
    availability.add(context.message.source, event.hotel, availability.nights_of(event))


@subscription(topic="booking.changed", group="availability", transactional=True, concurrency=2, lease_s=10)
def count_changed(event: BookingChanged, context: Context) -> None:
    availability.add(context.message.source, event.hotel, availability.nights_of(event))


@subscription(topic="booking.cancelled", group="availability", transactional=True, concurrency=2, lease_s=10)
def count_cancelled(event: BookingCancelled, context: Context) -> None:
    availability.add(context.message.source, event.hotel, availability.nights_of(event))


@subscription(topic="stay.completed", group="billing", transactional=True, concurrency=2, lease_s=10)
def draft_invoice(event: StayCompleted, context: Context) -> None:
    """One draft per stay: inbox and outbox commit together. Correlation and cause are taken from ``context``."""
    draft = InvoiceDrafted(
        invoice_id=f"{event.booking_id}-invoice",
        booking_id=event.booking_id,
        hotel=event.hotel,
        guest=event.guest,
        amount_cents=event.amount_cents,
        currency="EUR",
    )
    options = PublishOptions(key=event.booking_id, source=context.message.source, message_id=draft.invoice_id)
    publish_on_commit("invoice.drafted", draft, options)


@subscription(
    topic="booking.cancelled", group="partner-sync", concurrency=8, max_attempts=4, backoff_s=(1, 2, 4), lease_s=15
)
def tell_partner(event: BookingCancelled, context: Context) -> None:
    """Not transactional: the effect lies with the partner, who knows a repeat by the booking."""
    partner.give_back(event.booking_id, event.released, context.attempt)


@subscription(topic="night.closed", group="front-desk", transactional=True, concurrency=1)
def note_at_the_front_desk(event: NightClosed) -> None:
    closing.hear("front-desk", event)


@subscription(topic="night.closed", group="channel-report", transactional=True, concurrency=1)
def report_to_channels(event: NightClosed) -> None:
    closing.hear("channel-report", event)


@subscription(topic="night.closed", group="revenue", transactional=True, concurrency=1)
def book_revenue(event: NightClosed) -> None:
    closing.hear("revenue", event)
