"""The secrets that a piece of work was given, taken out of what it says wherever they come back as they are."""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

from engine.core.redaction import REDACTED

#: What is shorter, in characters, is found in every text.
LEAST = 4
#: Of a longer one so many characters are looked for, and what follows them goes with them as far as it is the same.
HEAD = 256
#: What a text is cut within is left out from here on, in characters.
_HALF = 2
_LINE_END = re.compile(r"[\r\n]+")


class SecretValues:
    """Immutable. A text is looked through in a time that its own length says, however many values there are.

    Values of several lines are looked for line by line, as a log is read. Beside a value itself what JSON, an address
    and Python's ``repr`` make of it is found, for these are our own ways to pass it on; no other encoding is.
    """

    def __init__(self, values: Iterable[Any] = ()) -> None:
        #: By the characters that are looked for; those of one such beginning in their order.
        self._by_head: dict[str, list[str]] = {}
        lines = (line.strip() for text in _spelt(values) for line in _LINE_END.split(text))
        for line in sorted({line for line in lines if len(line) >= LEAST}):
            self._by_head.setdefault(line[:HEAD], []).append(line)
        self._heads = sorted(self._by_head)
        #: By their first characters, in order.
        self._by_start: dict[str, list[str]] = {}
        #: Of each the lengths of those that it begins with, its own the last.
        self._within: dict[str, tuple[int, ...]] = {}
        around: list[str] = []
        for head in self._heads:
            while around and not head.startswith(around[-1]):
                around.pop()
            around.append(head)
            self._within[head] = tuple(map(len, around))
            self._by_start.setdefault(head[:LEAST], []).append(head)

    def out_of(self, text: str, *, cut: bool = False) -> str:
        """``text`` with each of them replaced. ``cut``: it goes on, and may end within one."""
        if not self._heads:
            return text
        parts, at, shown_from = [], 0, 0
        while at <= len(text) - LEAST:
            end = self._end_of(text, at)
            if end:
                parts += [text[shown_from:at], REDACTED]
                at = shown_from = end
            else:
                at += 1
        rest = text[shown_from:]
        half = self._half_at_end(rest) if cut else 0
        return "".join([*parts, rest[:-half] + REDACTED if half else rest])

    def _end_of(self, text: str, at: int) -> int:
        """Where the longest that begins ``at`` ends; 0: none does."""
        heads = self._by_start.get(text[at : at + LEAST])
        if heads is None:
            return 0
        # Whatever the text begins with here, the last that is not behind it in their order begins with too.
        place = bisect_right(heads, text[at : at + HEAD])
        if not place:
            return 0
        last = heads[place - 1]
        lengths = self._within[last]
        fits = bisect_right(lengths, False, key=lambda length: not text.startswith(last[:length], at))
        if not fits:
            return 0
        length = lengths[fits - 1]
        return at + (length if length < HEAD else _alike(self._by_head[last[:length]], text, at))

    def _half_at_end(self, text: str) -> int:
        """With how many characters of the beginning of one it ends."""
        for length in range(min(len(text), HEAD), _HALF - 1, -1):
            end = text[-length:]
            place = bisect_left(self._heads, end)
            if place < len(self._heads) and self._heads[place].startswith(end):
                return length
        return 0


class UnknownSecrets(SecretValues):
    """Those of work of which nobody knows any more what it was given: no line is shown."""

    def out_of(self, text: str, *, cut: bool = False) -> str:
        return "\n".join(REDACTED if line.strip() else line for line in text.split("\n"))


def _alike(ordered: list[str], text: str, at: int) -> int:
    """How many characters, from ``at`` on, the ``text`` shares with that of the ``ordered`` that is most alike."""
    length = HEAD
    while True:
        # So much is looked at as is found, and once more: what goes on for long is copied for what it takes out alone.
        length *= 2
        part = text[at : at + length]
        place = bisect_left(ordered, part)
        # In their order what is most alike stands beside the place of the text.
        found = max(_common(each, part) for each in ordered[max(0, place - 1) : place + 1])
        if found < length:
            return found


def _common(one: str, other: str) -> int:
    if one.startswith(other):
        return len(other)
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _spelt(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        if isinstance(value, Mapping):
            yield from _spelt(value.values())
        elif isinstance(value, list):
            yield from _spelt(value)
        elif isinstance(value, str):
            yield from (value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1])
            yield from (quote(value, safe="", errors="replace"), quote_plus(value, errors="replace"))
        elif value is not None and not isinstance(value, bool):
            yield json.dumps(value)


NO_SECRETS = SecretValues()
UNKNOWN_SECRETS = UnknownSecrets()
