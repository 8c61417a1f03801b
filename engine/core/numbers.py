"""Whole numbers that people and programs write into addresses, forms and headers."""

from __future__ import annotations

#: Every number of so many digits fits into 64 bits, and so into a column of a database.
MOST_DIGITS = 18


def whole(text: str) -> int | None:
    """The number that ``text`` writes in ASCII digits; ``None`` for anything else, and for more than 18 digits."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS else None
