"""JSON as everybody reads it: UTF-8, numbers that are finite and of bounded digits, no nesting without end."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from engine.core.error_text import words_of
from engine.core.nesting import DEEPEST, too_deep


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


def read_typed(text: str) -> Any:
    """Likewise for what a person typed: says in which line and column it is no JSON."""
    try:
        # Numbers are judged afterwards, as those of everybody else.
        json.loads(text, parse_int=str, parse_float=str, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise NotJson(f"{error.msg} in line {error.lineno}, column {error.colno}") from error
    except RecursionError as error:
        raise NotJson(f"it nests deeper than {DEEPEST} levels") from error
    # What a browser cannot have typed is found as what is no UTF-8.
    return read_json(text.encode(errors="surrogatepass"))


def _no_constant(name: str) -> None:
    raise NotJson(f"{name} is no JSON, but null or a number is")
