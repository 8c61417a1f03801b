"""Slots of an expression as they stand on the wall, for tables in tests."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice

from engine.cron.expression import FoldPolicy, GapPolicy, compile_schedule


def instant(text: str) -> int:
    """Seconds since the epoch of ``2026-03-28 00:00``, which is UTC unless it says its offset."""
    moment = datetime.fromisoformat(text)
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())


def walls(
    spec: str,
    zone: str,
    after: str,
    number: int,
    *,
    gap: GapPolicy = GapPolicy.END,
    fold: FoldPolicy = FoldPolicy.FIRST,
) -> list[str]:
    """``03-29 03:00+02:00 gap``: day and time on the wall, offset, mark."""
    schedule = compile_schedule(spec, zone_name=zone, gap=gap, fold=fold)
    found = islice(schedule.slots(instant(after)), number)
    return [f"{slot.local[5:].replace('T', ' ').replace(':00+', '+')} {slot.mark}".strip() for slot in found]
