"""What names a group of dead letters in an address."""

from __future__ import annotations

from typing import Protocol


class Grouped(Protocol):
    """A group, or a letter of one. One fingerprint may stand for groups of several topics: it is made of the
    subscription's name, the error class and the message alone."""

    @property
    def fingerprint(self) -> str: ...
    @property
    def topic(self) -> str: ...
    @property
    def subscription(self) -> str: ...


def mark(of: Grouped) -> str:
    """``7c1f9a…/booking.changed/partner-sync``. Marks are compared, never taken apart."""
    return f"{of.fingerprint}/{of.topic}/{of.subscription}"
