"""The channel partner: a booking site that wants back every room that falls free. It fails as such partners do.

How a call goes depends on the booking alone, so every run tells the same story: some calls time out and succeed when
repeated, some are slow, and a room category that is not in the partner's catalogue is refused until somebody adds it.
"""

from __future__ import annotations

import hashlib
import time

from django.db import transaction

from engine.core.errors import BadInput
from examples.hotel.events import Stay
from examples.hotel.models import PartnerRoom
from hbus_console.access.permissions import Actor, require
from hbus_console.audit.services import record
from hbus_console.subjects import readable
from hbus_console.subscriptions.feature import SUBSCRIPTION_OPERATE

#: What the partner's catalogue holds from the start. The real bookings know one category more.
FIRST_ROOMS = ("A", "B", "C", "D", "E", "F", "G", "H", "P")
#: Of so many calls, one times out at first, one times out twice, one is slow.
TIMES_OUT, TIMES_OUT_TWICE, IS_SLOW = 40, 250, 50
SLOW_S = (0.05, 0.4)


class PartnerTimeout(TimeoutError):
    """The partner did not answer in time. Trying again helps."""


class UnknownRoomCode(Exception):
    """The partner's catalogue lacks a room category. Trying again does not help until it is added there."""


def give_back(booking_id: str, released: Stay, attempt: int) -> None:
    """Tell the partner that a room is free. Raises :class:`PartnerTimeout` or :class:`UnknownRoomCode`."""
    if not PartnerRoom.objects.filter(code=released.room).exists():
        raise UnknownRoomCode(f'room code "{released.room}" is not in the partner\'s catalogue')
    chance = int.from_bytes(hashlib.blake2b(booking_id.encode(), digest_size=4).digest(), "big")
    timeouts = 2 if chance % TIMES_OUT_TWICE == 0 else 1 if chance % TIMES_OUT == 0 else 0
    if attempt <= timeouts:
        raise PartnerTimeout("the partner did not answer within 2 s")
    if chance % IS_SLOW == 1:
        shortest, longest = SLOW_S
        time.sleep(shortest + (longest - shortest) * (chance // IS_SLOW % 100) / 100)


def add_room(actor: Actor, code: str) -> bool:
    """Add a category to the partner's catalogue: what mends the poison message. ``False`` when it was there."""
    require(actor, SUBSCRIPTION_OPERATE, "booking.cancelled")
    code = code.strip().upper()
    if not (code.isalnum() and code.isascii() and len(code) <= 8):
        raise BadInput(f"{code!r} is no room code.", remedy="Use 1 to 8 letters and digits.", field="code")
    with transaction.atomic():
        _, made = PartnerRoom.objects.get_or_create(code=code, defaults={"added_by": actor.name})
        if made:
            record(actor, "hotel.partner_room_add", readable("partner-room", "booking.cancelled", code))
    return made


def unknown_rooms(codes: set[str]) -> set[str]:
    """Which of ``codes`` the partner would refuse now."""
    return codes - set(PartnerRoom.objects.filter(code__in=codes).values_list("code", flat=True))
