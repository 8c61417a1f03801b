"""Where the pages are that a message about alerts leads to, without Django's ``reverse``.

That finds an address by loading every page and endpoint of the installation: seconds, which the keeper would spend
while it holds the database's one write lock, and megabytes that it never needs again.
"""

from __future__ import annotations

ALERTS = "/alerts/"


def alert(number: int) -> str:
    """The page of one alert."""
    return f"{ALERTS}{number}/"


def channel(number: int) -> str:
    """The page of one channel."""
    return f"{ALERTS}channels/{number}/"
