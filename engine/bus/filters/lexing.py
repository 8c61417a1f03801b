"""From text to words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from engine.bus.filters.naming import QUOTED, unquoted
from engine.core.errors import BadInput

#: The longest filter, in characters.
LONGEST = 2_000

_WORD = re.compile(
    rf"""\s*(?:
        (?P<string>{QUOTED})
      | (?P<number>-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)
      | (?P<name>[A-Za-z_][A-Za-z0-9_$-]*)
      | (?P<sign>==|!=|<=|>=|<|>|\(|\)|\[|\]|,|\.)
      | (?P<end>\Z)
    )""",
    re.VERBOSE,
)


class FilterError(BadInput):
    """A filter that cannot be read. ``at`` is the place of the trouble, counted in characters from 0."""

    def __init__(self, what: str, at: int, *, remedy: str = "See how to write a filter.") -> None:
        super().__init__(f"{what} (at character {at + 1})", remedy=remedy, field="filter")
        self.at = at


@dataclass(frozen=True)
class Word:
    """One word. ``kind`` is ``string``, ``number``, ``name``, ``sign`` or ``end``; ``value`` what it stands for."""

    kind: str
    text: str
    at: int
    value: str | float | int | None = None


def words(text: str) -> Iterator[Word]:
    """Every word of ``text`` and the end; raises :class:`FilterError`."""
    if len(text) > LONGEST:
        raise FilterError(f"The filter has {len(text):,} characters", LONGEST, remedy=f"Use at most {LONGEST:,}.")
    at = 0
    while True:
        found = _WORD.match(text, at)
        if found is None or found.lastgroup is None:
            begun = at + len(text[at:]) - len(text[at:].lstrip())
            raise FilterError(f"{text[begun : begun + 10]!r} is no word of the language", begun)
        kind, begun = found.lastgroup, found.start(found.lastgroup)
        said = found.group(kind)
        yield Word(kind, said, begun, _value(kind, said, begun))
        if kind == "end":
            return
        at = found.end()


def _value(kind: str, said: str, at: int) -> str | float | int | None:
    if kind == "number":
        value = float(said)
        return int(said) if re.fullmatch(r"-?[0-9]+", said) else value
    if kind != "string":
        return None
    try:
        return unquoted(said)
    except ValueError as error:
        raise FilterError("The text has an escape that JSON does not know", at) from error
