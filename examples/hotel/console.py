"""The example as an empty console offers it."""

from __future__ import annotations

from hbus_console.access.permissions import Actor
from hbus_console.overview.examples import Example


def _start(actor: Actor) -> None:
    # Half of the bus, for a button that is pressed once.
    from examples.hotel import feeds, loading

    loading.start(actor, feeds.bookings_file())


EXAMPLE = Example(
    name="hotel",
    title="Two hotels and their bookings",
    text="Bookings are made, changed and cancelled, stays completed and invoices drafted: six topics of three "
    "teams. Availability is counted in a read model, and a partner's system fails now and then, once for good. "
    "The events of years pass in a few minutes.",
    start=_start,
)
