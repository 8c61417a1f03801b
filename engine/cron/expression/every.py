"""``@every 90s``: a period counted from the Unix epoch, so that every node counts from the same instant."""

from __future__ import annotations

import re
from dataclasses import dataclass

from engine.cron.expression.fields import Piece

_UNITS = {"D": 86_400, "H": 3600, "M": 60, "S": 1}
_DURATION = re.compile(r"(?:(\d{1,6})D)?(?:(\d{1,7})H)?(?:(\d{1,9})M)?(?:(\d{1,10})S)?")
#: Seconds; a period that is longer than a year is a mistake.
LONGEST_PERIOD_S = 366 * 86_400


@dataclass(frozen=True, slots=True)
class Every:
    """Every ``period`` seconds, ``phase`` seconds after a multiple of it since 1970-01-01 00:00 UTC."""

    period: int
    phase: int = 0

    def after(self, at: int) -> int:
        return ((at - self.phase) // self.period + 1) * self.period + self.phase


@dataclass(frozen=True, slots=True)
class Never:
    """No instant at all: for what runs after something else, or when somebody asks for it."""

    def after(self, at: int) -> None:
        return None


def read_every(piece: Piece) -> Every:
    """Of ``5H`` or ``5H/45M``, in capitals. Raises :class:`~engine.cron.expression.errors.BadExpression`."""
    period_text, slash, phase_text = piece.text.partition("/")
    period = _seconds(Piece(period_text, piece.at))
    if not 1 <= period <= LONGEST_PERIOD_S:
        raise piece.refuse("the period is not between one second and 366 days", "Write for example @every 90s.")
    phase = _seconds(Piece(phase_text, piece.at + len(period_text) + 1)) if slash else 0
    if phase >= period:
        raise piece.refuse("the phase is as long as the period or longer", "Write a shorter one.", part="/")
    return Every(period, phase)


def _seconds(piece: Piece) -> int:
    found = _DURATION.fullmatch(piece.text)
    if found is None or not piece.text:
        raise piece.refuse(
            f"{piece.text.lower()!r} is no duration" if piece.text else "the duration is missing",
            "Write whole days, hours, minutes and seconds in this order: 1d, 5h, 1h30m, 90s.",
        )
    return sum(int(number or 0) * unit for number, unit in zip(found.groups(), _UNITS.values(), strict=True))
