"""The cause of a failure: its error class and message without what differs from case to case, and what that was."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

import msgspec

#: The longest normalised message kept in a cause, in characters.
CAUSE_LIMIT = 400
#: How much of a message is looked at, in characters.
LOOKED_AT = CAUSE_LIMIT * 4
#: How many words before a value name it.
_NAMING = 3

#: Stands for a quoted text in a cause; everything else that varies is a number or an id.
QUOTED = "…"
_VARIES = (
    # Order matters: quoted text may hold ids, and ids may hold numbers.
    (re.compile(r"(?<!\w)'(?:[^'\\\n]|\\.){0,500}'(?!\w)|\"(?:[^\"\\\n]|\\.){0,500}\"|`[^`\n]{0,500}`"), QUOTED),
    (re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"), "#"),
    (re.compile(r"\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b"), "#"),
    (re.compile(r"\b0x[0-9a-fA-F]+\b"), "#"),
    (re.compile(r"\b(?=[0-9a-fA-F]*\d)[0-9a-fA-F]{8,}\b"), "#"),
    (re.compile(r"\d+(?:[.,:]\d+)*"), "#"),
)
_SPACE = re.compile(r"\s+")
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
        """What :func:`normalise` makes of the same message."""
        return self.said([each.mark for each in self.variables])

    def said(self, values: Sequence[str]) -> str:
        """The message with ``values`` in place of its variables, on one line and no longer than a cause."""
        between = (part for pair in zip(self.words, (*values, ""), strict=True) for part in pair)
        return "".join(between).strip()[:CAUSE_LIMIT]


def normalise(message: str) -> str:
    """``message`` on one line without quoted text, ids and numbers, which differ between cases of one cause."""
    text = message[:LOOKED_AT]
    for pattern, mark in _VARIES:
        text = pattern.sub(mark, text)
    return _SPACE.sub(" ", text).strip()[:CAUSE_LIMIT]


def cause_of(error_class: str, message: str) -> str:
    """What the operator reads as the cause of a group of dead letters."""
    said = normalise(message)
    return f"{error_class}: {said}" if said else error_class


def cause_of_text(error: str) -> str:
    """The cause that an error text begins with, of its first line."""
    error_class, _, message = error.partition("\n")[0].partition(": ")
    return cause_of(error_class, message)


def fingerprint(group: str, error_class: str, message: str) -> str:
    """16 hex digits, the same for failures of one cause in one subscription."""
    text = "\x00".join((group, error_class, normalise(message)))
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()


def take_apart(message: str) -> Saying:
    """What :func:`normalise` leaves of ``message`` and what it takes out. Variables beyond a cause's length are none.

    Slower than :func:`normalise`: for whoever shows failures, not for whoever counts them.
    """
    parts: list[str | tuple[str, str]] = [message[:LOOKED_AT]]
    for pattern, mark in _VARIES:
        parts = [each for part in parts for each in (_split(part, pattern, mark) if isinstance(part, str) else [part])]
    words, variables, length = [""], list[Variable](), 0
    for part in parts:
        text, mark = (_SPACE.sub(" ", part), "") if isinstance(part, str) else part
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
