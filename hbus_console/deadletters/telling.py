"""How letters of one cause are told: by the cause, and by the counts of what differs from letter to letter."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from engine.bus.causes import Saying, Variable, take_apart
from engine.core.error_text import shortened
from hbus_console.ui.formats import num

#: So many values of one variable are spelled out, and so many variables told of.
MOST_VALUES, MOST_VARIABLES = 4, 3
#: A longer value is cut, in characters.
_LONGEST = 60
#: So many lines of a message are looked at.
MOST_LINES = 5


@dataclass(frozen=True)
class Varying:
    """One thing that differs among the letters of a cause."""

    #: The words of the message that lead to it.
    name: str
    #: The most frequent values with their counts; none when every letter has its own, or they are hidden.
    values: tuple[tuple[str, int], ...]
    #: How many different values there are; ``None`` where they are hidden, for it tells whether two are the same.
    different: int | None

    @property
    def hidden(self) -> bool:
        """The topic masks something, which may stand here."""
        return self.different is None

    @property
    def text(self) -> str:
        """``room code: “Z” × 64, “Q” × 63``."""
        return f"{self.name}: {self._values}"

    @property
    def _values(self) -> str:
        if self.different is None:
            return "masked"
        if not self.values:
            return f"{num(self.different)} different values"
        said = ", ".join(f"“{value}” × {num(count)}" for value, count in self.values)
        others = self.different - len(self.values)
        return f"{said} and {num(others)} other{'s' if others > 1 else ''}" if others else said


@dataclass(frozen=True)
class Telling:
    """What is true of all letters of a cause, and what varies among them."""

    #: The error class and its message without what differs from case to case.
    cause: str = ""
    #: The same with what all letters have in common in place of its stand-in.
    title: str = "no cause recorded"
    varying: tuple[Varying, ...] = ()
    #: How many of the newest were looked at; 0: all.
    latest: int = 0
    #: How many things vary besides.
    more: int = 0

    @property
    def things(self) -> int:
        """How many vary."""
        return len(self.varying) + self.more

    @property
    def note(self) -> str:
        """``room code: “Z” × 64, “Q” × 63``, with how many letters were counted when that is not all; may be empty."""
        said = " · ".join(each.text for each in self.varying) + (f" · and {num(self.more)} more" if self.more else "")
        return f"{said} (of the latest {num(self.latest)})" if said and self.latest else said


@dataclass
class _Slot:
    """One variable of a cause."""

    name: str
    counts: Counter[Variable] = field(default_factory=Counter)


class CauseTally:
    """Counts what varies among the cases of ``cause``, as :func:`~engine.bus.dead.cause_of` gave it."""

    def __init__(self, cause: str) -> None:
        self._cause = cause
        self._class, _, self._said = cause.partition(": ")
        self._saying: Saying | None = None
        self._slots: list[_Slot] = []
        self._read = self._counted = 0

    def add(self, error: str, times: int) -> None:
        """``times`` cases whose error text begins with ``error``."""
        self._read += times
        saying = self._taken_apart(error)
        if self._saying is None and self._said.startswith(saying.normalised):
            # One of more lines than are looked at is counted by its first, with which the cause begins.
            self._saying = saying
            self._slots = [_Slot(variable.name or "value") for variable in saying.variables]
        if self._saying is None or self._saying.normalised != saying.normalised:
            return
        self._counted += times
        for slot, variable in zip(self._slots, saying.variables, strict=True):
            slot.counts[variable] += times

    def _taken_apart(self, error: str) -> Saying:
        """By as many lines as the cause has of its message; what follows that in the text is the stack."""
        lines = error.split("\n", MOST_LINES)[:MOST_LINES]
        for number in range(1, len(lines) + 1):
            saying = take_apart("\n".join(lines[:number]).partition(": ")[2])
            if saying.normalised == self._said:
                return saying
        return take_apart(lines[0].partition(": ")[2])

    def telling(self, total: int, *, hidden: bool) -> Telling:
        """What to say of ``total`` cases, of which perhaps not all were added; no value where they are ``hidden``."""
        if self._saying is None:
            return Telling(self._cause, self._cause) if self._cause else Telling()
        all_counted, values, varying = self._counted == total, [], []
        for slot, variable in zip(self._slots, self._saying.variables, strict=True):
            same = all_counted and len(slot.counts) == 1 and not hidden and len(variable.text) <= _LONGEST
            values.append(variable.text if same else variable.mark)
            if not same:
                varying.append(_varying(slot, hidden))
        said = self._saying.said(values) + self._said[len(self._saying.normalised) :]
        title = f"{self._class}: {said}" if said else self._class
        told, latest = tuple(varying[:MOST_VARIABLES]), 0 if all_counted else self._counted
        return Telling(self._cause, title, told, latest, len(varying) - len(told))


def _varying(slot: _Slot, hidden: bool) -> Varying:
    if hidden:
        return Varying(slot.name, (), None)
    common, different = slot.counts.most_common(MOST_VALUES), len(slot.counts)
    each_its_own = different > MOST_VALUES and common[0][1] == 1
    shown = () if each_its_own else tuple((shortened(each.value, _LONGEST), count) for each, count in common)
    return Varying(slot.name, shown, different)
