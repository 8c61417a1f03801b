"""How numbers, times, sizes and names are written on every page."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from engine.core.clock import EARLIEST_MS, LATEST_MS, SystemClock, to_datetime

_clock = SystemClock()

#: Milliseconds of the units of :func:`relative`, largest first.
_UNITS = (
    (86_400_000, "day", "days"),
    (3_600_000, "hour", "hours"),
    (60_000, "minute", "minutes"),
    (1_000, "second", "seconds"),
)
NOTHING = "–"
_BEHIND = re.compile(r"(?<=[._])(?=.)")
_WRAP = mark_safe("<wbr>")


def instant(value: Any) -> datetime | None:
    """A moment given as epoch milliseconds or as a datetime, in the console's zone; ``None`` for none.

    Milliseconds that no calendar has are shown as the nearest moment that it has.
    """
    if value is None or value in {"", 0}:
        return None
    moment = value if isinstance(value, datetime) else to_datetime(min(max(int(value), EARLIEST_MS), LATEST_MS))
    return timezone.localtime(moment)


def epoch_ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def num(value: Any) -> str:
    """``1,234``; up to two decimals below ten, one below a hundred; an en dash for nothing."""
    if value is None or value == "":
        return NOTHING
    number = float(value)
    if number.is_integer() or abs(number) >= 100:
        return f"{round(number):,}"
    text = f"{number:,.2f}" if abs(number) < 10 else f"{number:,.1f}"
    return text.rstrip("0").rstrip(".")


def agreeing(number: int, one: str, many: str, *, none: str) -> str:
    """The words that fit a number which stands beside them."""
    if not number:
        return none
    return one if number == 1 else many


def counted(number: int, one: str, many: str = "") -> str:
    """``1 entry``, ``1,204 entries``; without ``many``, ``one`` with an s."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def breakable(name: Any) -> str | SafeString:
    """A name that may wrap behind its dots and underscores too, so that no word of it is broken where there is room."""
    parts = _BEHIND.split(str(name))
    return format_html_join(_WRAP, "{}", ((part,) for part in parts)) if len(parts) > 1 else parts[0]


def listed(words: Iterable[str], last: str = "and") -> str:
    """``topics, jobs and shards``; empty for none."""
    *most, end = list(words) or [""]
    return f"{', '.join(most)} {last} {end}" if most else end


def rate(value: Any) -> str:
    """Messages a second: whole from ten on, one decimal from one on, two below: a trickle is not none."""
    if value is None or value == "":
        return NOTHING
    number = float(value)
    return num(round(number) if number >= 10 else round(number, 1) if number >= 1 else round(number, 2))


def relative(distance_ms: int) -> str:
    """``28 minutes ago`` for a positive distance, ``in 3 hours`` for a negative one."""
    size = abs(distance_ms)
    if size < 1_000:
        return "just now"
    for unit_ms, one, many in _UNITS:
        if size >= unit_ms:
            count = size // unit_ms
            words = f"{count} {one if count == 1 else many}"
            return f"{words} ago" if distance_ms > 0 else f"in {words}"
    return "just now"


def ago(value: Any, now_ms: int | None = None) -> SafeString | str:
    """A ``<time>`` that reads relative and shows the exact instant on hover; app.js keeps it fresh."""
    moment = instant(value)
    if moment is None:
        return NOTHING
    now_ms = _clock.now_ms() if now_ms is None else now_ms
    return format_html(
        '<time datetime="{}" title="{}" data-ago>{}</time>',
        moment.isoformat(timespec="milliseconds"),
        moment.strftime("%Y-%m-%d %H:%M:%S %Z"),
        relative(now_ms - epoch_ms(moment)),
    )


def clock(value: Any) -> str:
    """``14:02:11.204`` in the console's zone."""
    moment = instant(value)
    return NOTHING if moment is None else f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03d}"


def exact(value: Any) -> SafeString | str:
    """``2026-11-20 14:02:11`` as a ``<time>``."""
    moment = instant(value)
    if moment is None:
        return NOTHING
    return format_html('<time datetime="{}">{}</time>', moment.isoformat(timespec="milliseconds"), exact_text(moment))


def exact_text(value: Any) -> str:
    """The same where there is no markup."""
    moment = instant(value)
    return NOTHING if moment is None else f"{moment:%Y-%m-%d %H:%M:%S}"


def duration(value_us: Any) -> str:
    """Microseconds as ``640 µs``, ``3.8 ms``, ``1.2 s``, ``4 m 51 s``, ``2 h 5 m``, ``3 d 4 h``."""
    if value_us is None or value_us == "":
        return NOTHING
    us = float(value_us)
    if us < 1_000:
        return f"{round(us)} µs"
    if us < 1_000_000:
        return f"{num(us / 1_000)} ms"
    if us < 60_000_000:
        return f"{num(round(us / 1_000_000, 1))} s"
    seconds = round(us / 1_000_000)
    for size, unit, below, below_unit in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "m"), (60, "m", 1, "s")):
        if seconds >= size:
            rest = seconds % size // below
            return f"{seconds // size} {unit}" + (f" {rest} {below_unit}" if rest else "")
    return f"{seconds} s"


#: Larger units of a setting's own, the largest first; those of bytes have no plural.
_LARGER = {
    "seconds": (("day", 86_400), ("hour", 3_600), ("minute", 60)),
    "hours": (("day", 24),),
    "bytes": (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)),
}


def in_larger_unit(value: Any, unit: str) -> str:
    """86,400 ``seconds`` as ``1 day``, 1,048,576 ``bytes`` as ``1 MiB``; empty where no larger unit holds it whole."""
    if not isinstance(value, int):
        return ""
    for name, size_ in _LARGER.get(unit, ()):
        if value >= size_ and value % size_ == 0:
            return counted(value // size_, name, name if name.endswith("iB") else "")
    return ""


def size(value: Any) -> str:
    """Bytes as ``214 B``, ``1.5 KB``, ``212 MB`` (steps of 1,024)."""
    if value is None or value == "":
        return NOTHING
    amount = float(value)
    for unit in ("B", "KB", "MB", "GB"):
        if abs(amount) < 1024:
            return f"{num(round(amount, 1))} {unit}"
        amount /= 1024
    return f"{num(round(amount, 1))} TB"


#: ULIDs, UUIDs and the like: chance, mostly.
_MACHINE_MADE = re.compile(r"[0-9A-Za-z]+|[0-9a-fA-F-]{36}")


def short_id(value: Any) -> str:
    """``01K9…7RZM``; anything up to ten characters stays whole.

    An id that a producer has put together from words and numbers keeps more: its beginning and end tell little apart.
    """
    text = str(value or "")
    if len(text) <= 10:
        return text
    if _MACHINE_MADE.fullmatch(text):
        return f"{text[:4]}…{text[-4:]}"
    return cut(text, 24)


def cut(value: Any, most: int) -> str:
    """At most so many characters: of a longer text its beginning and its end, which tell keys and ids apart."""
    text = str(value or "")
    if len(text) <= most:
        return text
    end = (most - 1) // 2
    return f"{text[: most - 1 - end]}…{text[len(text) - end :]}"
