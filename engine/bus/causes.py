"""What differs among the failures of one cause: their messages taken apart, for whoever shows them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from engine.bus.dead import CAUSE_LIMIT, LOOKED_AT, QUOTED, SPACE, VARIES, cause_of

#: How many words before a value name it.
_NAMING = 3

#: Ends what is said about the thing before.
_CLAUSE = re.compile(r"[,;:()=.!?…#]")
_WORD = re.compile(r"[^\W\d_][\w'-]*")


class Variable(msgspec.Struct, frozen=True):
    """One thing that a message says and that differs from case to case."""

    #: The words that lead to it, ``room code``; empty where there are none.
    name: str
    #: As the message has it, with the quotes around it.
    text: str
    #: What stands for it in the cause.
    mark: str

    @property
    def value(self) -> str:
        """Without the quotes."""
        return self.text[1:-1] if self.mark == QUOTED and len(self.text) > 1 else self.text


class Saying(msgspec.Struct, frozen=True):
    """A message taken apart: ``words`` are what stands between the ``variables``, one more than there are of these."""

    words: tuple[str, ...]
    variables: tuple[Variable, ...]

    @property
    def normalised(self) -> str:
        """What :func:`~engine.bus.dead.normalise` makes of the same message."""
        return self.said([each.mark for each in self.variables])

    def said(self, values: Sequence[str]) -> str:
        """The message with ``values`` in place of its variables, on one line and no longer than a cause."""
        between = (part for pair in zip(self.words, (*values, ""), strict=True) for part in pair)
        return "".join(between).strip()[:CAUSE_LIMIT]


def cause_of_text(error: str) -> str:
    """The cause that an error text begins with, of its first line."""
    error_class, _, message = error.partition("\n")[0].partition(": ")
    return cause_of(error_class, message)


def take_apart(message: str) -> Saying:
    """What :func:`~engine.bus.dead.normalise` leaves of ``message``, and what it takes out within a cause's length.

    Slower than that: for whoever shows failures, not for whoever counts them.
    """
    parts: list[str | tuple[str, str]] = [message[:LOOKED_AT]]
    for pattern, mark in VARIES:
        parts = [each for part in parts for each in (_split(part, pattern, mark) if isinstance(part, str) else [part])]
    words, variables, length = [""], list[Variable](), 0
    for part in parts:
        text, mark = (SPACE.sub(" ", part), "") if isinstance(part, str) else part
        if mark and length < CAUSE_LIMIT:
            variables.append(Variable(_name(words[-1]), text, mark))
            words.append("")
        else:
            words[-1] += mark or text
        length += len(mark or text)
    return Saying(tuple(words), tuple(variables))


def _split(text: str, pattern: re.Pattern[str], mark: str) -> list[str | tuple[str, str]]:
    parts: list[str | tuple[str, str]] = []
    begin = 0
    for found in pattern.finditer(text):
        parts += [text[begin : found.start()], (found.group(), mark)]
        begin = found.end()
    return [*parts, text[begin:]]


def _name(before: str) -> str:
    clause = _CLAUSE.split(before.rstrip(" :=("))[-1]
    # A single letter is the unit of the number before.
    return " ".join([word for word in _WORD.findall(clause) if len(word) > 1][-_NAMING:])
