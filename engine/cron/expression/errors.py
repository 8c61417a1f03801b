"""Why an expression was refused, and where in it."""

from __future__ import annotations

from typing import Self

from engine.core.errors import BadInput


class BadExpression(BadInput):
    """An expression cannot be read, or would never fire.

    ``position`` counts characters of the expression as it was given, from 0; ``reason`` says what is wrong there.
    """

    def __init__(self, position: int, reason: str, remedy: str) -> None:
        super().__init__(f"At character {position + 1} of the expression: {reason}.", remedy=remedy, field="spec")
        self.position = position
        self.reason = reason

    def moved(self, by: int) -> Self:
        """The same, of a longer expression in which this one begins at ``by``."""
        return type(self)(self.position + by, self.reason, self.remedy)


class UnknownZone(BadInput):
    """A time zone that the IANA database does not have."""

    def __init__(self, name: str) -> None:
        self.reason = f"{name!r} is no time zone"
        remedy = "Write a name of the IANA database as it stands there, such as Europe/Lisbon, Asia/Kolkata or UTC."
        super().__init__(f"{self.reason}.", remedy=remedy, field="zone")
