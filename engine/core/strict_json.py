"""JSON as everybody reads it: UTF-8, numbers that are finite and of bounded digits, no nesting without end."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from engine.core.error_text import words_of
from engine.core.json_values import holds_more_than
from engine.core.nesting import DEEPEST, too_deep

#: How many values one text may hold: a few aliases of YAML stand for more than any memory does.
MOST_VALUES = 200_000
#: More digits than every reader takes of a whole number.
_TOO_LARGE = 10**4_300
#: How many values a person may type, or send at once: each costs microseconds to read, while nobody else is served.
MOST_TYPED = 100_000
#: NUL, which PostgreSQL keeps in no text, and lone surrogates, which UTF-8 cannot say.
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


class NotJson(ValueError):
    """A text is not JSON that every reader could take; says why."""


def read_json(text: bytes) -> Any:
    """The value of ``text``; raises :class:`NotJson`.

    Refused are, besides what is no JSON: bytes that are not UTF-8, lone surrogates, numbers beyond a double's range,
    integers of more than 4,300 digits, and what nests deeper than :data:`~engine.core.nesting.DEEPEST`. Of members of
    the same name the last one counts.
    """
    # Most texts hold so few brackets that counting them is enough.
    if text.count(b"[") + text.count(b"{") > DEEPEST and too_deep(text):
        raise NotJson(f"it nests deeper than {DEEPEST} levels")
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise NotJson(words_of(error)) from error


def repeats_a_name(text: bytes) -> bool:
    """Whether an object of it, JSON that :func:`read_json` takes, has two members of one name: of these one alone is
    seen by whoever reads it, and which depends on the reader."""
    found = False

    def of_one(members: list[tuple[str, Any]]) -> None:
        nonlocal found
        found = found or len({name for name, _ in members}) < len(members)

    # Numbers are nobody's business here, however long they are.
    json.loads(text, object_pairs_hook=of_one, parse_int=str, parse_float=str)
    return found


def read_typed(text: str) -> Any:
    """Likewise for what a person typed: says in which line and column it is no JSON."""
    written = text.encode(errors="surrogatepass")
    if holds_more_than(MOST_TYPED, written):
        raise NotJson(f"it holds more than {MOST_TYPED:,} values")
    try:
        # Numbers are judged afterwards, as those of everybody else.
        json.loads(text, parse_int=str, parse_float=str, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise NotJson(f"{error.msg} in line {error.lineno}, column {error.colno}") from error
    except RecursionError as error:
        raise NotJson(f"it nests deeper than {DEEPEST} levels") from error
    # What a browser cannot have typed is found as what is no UTF-8.
    return read_json(written)


def why_no_json(text: bytes, error: Exception) -> str:
    """Why ``text`` could not be read, in a clause, where ``error`` was raised over it.

    The reader calls half a surrogate pair an end too soon, and so it does a text of which nothing is there; of NaN it
    tells a byte and no name.
    """
    if not text.strip():
        return "it is empty"
    try:
        # Python's own reader takes more than JSON is: what it takes is not yet half a pair.
        value = json.loads(text.decode(), parse_int=str, parse_float=str, parse_constant=_no_constant)
        json.dumps(value, ensure_ascii=False).encode()
    except NotJson as constant:
        return str(constant)
    except UnicodeEncodeError:
        return "a text in it holds half of a surrogate pair, which UTF-8 cannot say"
    except (ValueError, RecursionError):
        return words_of(error)
    return words_of(error)


def check_storable(value: Any) -> None:
    """Raises :class:`NotJson` with the place of what JSON does not have, or no database keeps: for what comes as Python
    values, out of YAML or a caller's hands."""
    _check(value, "", 0, iter(range(MOST_VALUES)))


def _check(value: Any, place: str, depth: int, left: Iterator[int]) -> None:
    if next(left, None) is None:
        raise NotJson(f"it holds more than {MOST_VALUES:,} values")
    if depth > DEEPEST:
        raise NotJson(f"it nests deeper than {DEEPEST} levels")
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if not isinstance(name, str):
                raise NotJson(f"{_at(place)} has the name {name!r}, and names are texts: write it in quotes")
            _check_text(name, f"a name in {_at(place)}")
            _check(inner, f"{place}.{name}" if place else name, depth + 1, left)
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            _check(inner, f"{place}[{number}]", depth + 1, left)
    elif isinstance(value, str):
        _check_text(value, _at(place))
    else:
        _check_single(value, _at(place))


def _check_single(value: Any, what: str) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise NotJson(f"{what} is {value}, which is no number of JSON")
    if isinstance(value, int) and abs(value) >= _TOO_LARGE:
        raise NotJson(f"{what} has more digits than every reader takes")
    if value is not None and not isinstance(value, int | float):
        raise NotJson(f"{what} is a {type(value).__name__}, which JSON does not have: write it as text, in quotes")


def _check_text(text: str, what: str) -> None:
    if found := _UNSTORABLE.search(text):
        raise NotJson(f"{what} holds the character U+{ord(found[0]):04X}, which no database keeps")


def _at(place: str) -> str:
    return place or "it"


def _no_constant(name: str) -> None:
    raise NotJson(f"{name} is no JSON, but null or a number is")
