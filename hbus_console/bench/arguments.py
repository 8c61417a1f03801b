"""What the commands of this app take."""

from __future__ import annotations

from argparse import ArgumentTypeError


def number(text: str) -> int:
    """A whole number from 1 on; underscores may set off its thousands."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise ArgumentTypeError(f"{text!r} is no whole number from 1 on")
    return value


def minutes(text: str) -> float:
    """More than 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    # `not (x > 0)` also refuses NaN.
    if not 0 < value < float("inf"):
        raise ArgumentTypeError(f"{text!r} is no number of minutes above 0")
    return value
