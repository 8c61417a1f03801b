"""How long one point of a series is."""

from __future__ import annotations

from enum import StrEnum


class Resolution(StrEnum):
    """How long one row of a series is. Days are those of UTC."""

    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"

    @property
    def seconds(self) -> int:
        return {Resolution.MINUTE: 60, Resolution.HOUR: 3_600, Resolution.DAY: 86_400}[self]
