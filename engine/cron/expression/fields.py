"""The fields of an expression, and one of them read into the set of values that it allows.

A set is an ``int`` whose bit ``n`` stands for the value ``n``: the next allowed value is a shift away.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256

from engine.cron.expression.errors import BadExpression

_MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
_DAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
_SPREAD = re.compile(r"H(?:\((?P<low>[^()-]*)-(?P<high>[^()-]*)\))?(?:/(?P<step>.*))?")
#: Digits of a step. It may lead beyond its field by as much as anybody writes, and costs nothing to read.
_LONGEST_STEP = 100


@dataclass(frozen=True, slots=True)
class Field:
    """What a field may hold."""

    name: str
    low: int
    high: int
    names: Mapping[str, int] = field(default_factory=dict)
    #: The highest number that may be written; only the seventh day of the week, Sunday again, is beyond ``high``.
    written_high: int = 0
    #: The highest value that spreading by hash gives: every month has it.
    spread_high: int = 0

    @property
    def most(self) -> int:
        return self.written_high or self.high

    @property
    def allowed(self) -> str:
        """In words, for a remedy."""
        named = f" or {next(iter(self.names))} to {list(self.names)[-1]}" if self.names else ""
        return f"{self.low} to {self.most}{named}"


SECOND = Field("second", 0, 59)
MINUTE = Field("minute", 0, 59)
HOUR = Field("hour", 0, 23)
DAY = Field("day of the month", 1, 31, spread_high=28)
MONTH = Field("month", 1, 12, {name: number for number, name in enumerate(_MONTHS, 1)})
WEEKDAY = Field("day of the week", 0, 6, {name: number for number, name in enumerate(_DAYS)}, written_high=7)


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of an expression and where it begins."""

    text: str
    at: int

    def refuse(self, reason: str, remedy: str, *, part: str = "") -> BadExpression:
        """At ``part`` of this piece, or at its beginning."""
        return BadExpression(self.at + max(self.text.find(part), 0), reason, remedy)

    def items(self) -> Iterator[Piece]:
        """The items of the list that it is."""
        at = self.at
        for text in self.text.split(","):
            yield Piece(text, at)
            at += len(text) + 1


def every_value(of: Field) -> int:
    return between(of, of.low, of.high, 1)


def between(of: Field, low: int, high: int, step: int) -> int:
    """The set of each ``step``-th value from ``low`` to ``high``; 7 is Sunday."""
    bits = 0
    for value in range(low, high + 1, step):
        bits |= 1 << (0 if value > of.high else value)
    return bits


def item(of: Field, piece: Piece, job: str) -> int:
    """The set that one item of a list allows: ``*``, a value, a range, ``H``, each with or without a step.

    ``job`` is whose name spreads ``H``. Raises :class:`BadExpression`.
    """
    if not piece.text:
        raise piece.refuse(f"an item of the {of.name} field is empty", "Take out the comma that is too many.")
    if piece.text.startswith("H"):
        return _spread(of, piece, job)
    span, slash, written_step = piece.text.partition("/")
    step = _step(of, piece, written_step) if slash else 1
    if span == "*":
        return between(of, of.low, of.high, step)
    first, dash, last = span.partition("-")
    low = value(of, piece, first)
    if not dash and slash:
        # From Sunday on, also where that is written as 7.
        return between(of, 0 if low > of.high else low, of.high, step)
    if not dash:
        return between(of, low, low, step)
    high = value(of, piece, last)
    if low > high:
        remedy = f"Write it as two: {_range(of, low, of.high)},{_range(of, of.low, high)}."
        if low > of.high:
            # From Sunday on, which is the first day as well.
            remedy = f"Write {_range(of, of.low, high)}."
        raise piece.refuse(f"the range {span} of the {of.name} field runs backwards", remedy, part=span)
    return between(of, low, high, step)


def value(of: Field, piece: Piece, text: str) -> int:
    """One value, by number or by name."""
    number = of.names.get(text.upper())
    if number is not None:
        return number
    if not (text.isascii() and text.isdigit()):
        said = f"{text!r} is no value of the {of.name} field" if text else f"a value of the {of.name} field is missing"
        raise piece.refuse(said, f"Write {of.allowed}.", part=text)
    # As it stands in the piece, and not as Python's int would be: three digits are no value of any field.
    number = int(text) if len(text) <= 2 else of.most + 1
    if not of.low <= number <= of.most:
        raise piece.refuse(f"{text} is out of the range of the {of.name} field", f"Write {of.allowed}.", part=text)
    return number


def _step(of: Field, piece: Piece, text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < len(text) <= _LONGEST_STEP and int(text)):
        said = f"{text!r} is no step of" if text else "a step is missing in"
        raise piece.refuse(f"{said} the {of.name} field", "After the slash stands a number from 1 up.", part="/")
    return int(text)


def _spread(of: Field, piece: Piece, job: str) -> int:
    found = _SPREAD.fullmatch(piece.text)
    if found is None:
        raise piece.refuse(f"{piece.text!r} is no spreading", "Write H, H/15, H(0-29) or H(0-29)/10.")
    low, high = of.low, of.spread_high or of.high
    if found["low"] is not None:
        low, high = value(of, piece, found["low"]), min(value(of, piece, found["high"]), of.high)
        if low > high:
            raise piece.refuse("the range to spread over runs backwards", "Write the lower bound first.", part="(")
    number = int.from_bytes(sha256(f"{of.name}\0{job}".encode()).digest()[:8])
    if found["step"] is None:
        return 1 << low + number % (high - low + 1)
    step = _step(of, piece, found["step"])
    return between(of, low + number % min(step, high - low + 1), high, step)


def _range(of: Field, low: int, high: int) -> str:
    names = {number: name for name, number in of.names.items()}
    first, last = names.get(low, str(low)), names.get(high, str(high))
    return first if low == high else f"{first}-{last}"
