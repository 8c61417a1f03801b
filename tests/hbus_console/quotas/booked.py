"""Uses, booked as those of a node are."""

from __future__ import annotations

from collections.abc import Mapping

from django.db import transaction

from engine.quota.uses import Key, Used, facts_of
from hbus_console.evidence.booking import Booking
from hbus_console.evidence.router import LEDGER


def book(minute: int, uses: Mapping[Key, Used]) -> None:
    """What a node admitted and refused in the minute that begins at that second."""
    rows = Booking(each=False)
    rows.add(facts_of(uses, {}, minute * 1000, "web-1"))
    with transaction.atomic(using=LEDGER):
        rows.write()


def book_one(minute: int, key: Key, admitted: int, refused: int = 0) -> None:
    """Likewise of one limiter."""
    book(minute, {key: Used(admitted=admitted, refused=refused)})
