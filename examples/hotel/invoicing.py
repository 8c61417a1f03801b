"""The month-end invoice: each hotel is sent one for the month that is over, and never a second."""

from __future__ import annotations

from datetime import date, timedelta

from engine.cron.work.call import Hopeless, RunContext
from examples.hotel import books
from examples.hotel.books import HOTELS, Entry


def invoiced_month(slot: int) -> date:
    """The first day of the month before the one that ``slot`` is in."""
    return (books.local_day(slot).replace(day=1) - timedelta(days=1)).replace(day=1)


def invoice(context: RunContext, print_s: float) -> str:
    """Enter an invoice for each hotel, and have it printed, which takes ``print_s``.

    A run that is tried again goes on where it was; another run of the same month is refused, and fails for good.
    """
    call, month = context.call, invoiced_month(context.call.slot)
    entered = 0
    for hotel in HOTELS:
        context.raise_if_stopped()
        nights = books.stays_of_month(hotel, month)
        entry = books.enter(call, hotel, month, nights)
        if entry is Entry.ANOTHERS:
            raise Hopeless(f"the invoice of {month:%B %Y} for {hotel} was written by another run")
        entered += entry is Entry.NEW
        print(f"{hotel}: {nights:,} room-nights in {month:%B %Y}; its invoice is {entry.value}")
        context.wait(print_s)
    return f"{month:%B %Y}: {entered} of {len(HOTELS)} invoices written"
