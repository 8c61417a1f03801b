"""Rate parity: does the channel partner sell each room at the price that the hotels have? It answers slowly."""

from __future__ import annotations

import hashlib

from engine.cron.work.call import RunContext
from examples.hotel.books import HOTELS
from examples.hotel.partner import FIRST_ROOMS

#: Of so many rates one is not what it should be.
DIFFERS = 60


def check(context: RunContext, pause_s: float) -> str:
    """Ask for the rate of each room of each hotel, ``pause_s`` apart, as the partner wants it."""
    asked, wrong = 0, []
    for hotel in HOTELS:
        for room in FIRST_ROOMS:
            context.wait(pause_s)
            asked += 1
            if _differs(hotel, room, context.call.slot):
                wrong.append(f"{hotel} {room}")
                print(f"{hotel}, room {room}: the partner sells it at another price")
    return f"{asked} rates asked for, {len(wrong)} differ"


def _differs(hotel: str, room: str, slot: int) -> bool:
    """Looks random, and is the same for the same slot."""
    digest = hashlib.blake2b(f"{hotel} {room} {slot}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") % DIFFERS == 0
