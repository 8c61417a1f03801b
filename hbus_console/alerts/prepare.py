"""What a new installation begins with."""

from __future__ import annotations

from collections.abc import Callable

from hbus_console.alerts.services.defaults import ensure_defaults


def prepare(say: Callable[[str], object]) -> None:
    """Make the rules of the house where there have never been any; ``say`` hears of it."""
    if made := ensure_defaults():
        say(f"Made the {made} alert rules that every installation begins with …")
