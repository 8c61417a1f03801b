"""Columns that can be read whatever somebody wrote into them, so that the log can be read around it.

What they say of such a cell is no evidence any more: the verification names its entry. See also
:mod:`hbus_console.cells`.
"""

from __future__ import annotations

import json
import math
import re
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.models.expressions import Col

from hbus_console.cells import NO_INSTANT

if TYPE_CHECKING:
    _Chars = models.CharField[str, str]
    _Text = models.TextField[str, str]
    _Instant = models.DateTimeField[datetime, datetime]
else:
    _Chars, _Text, _Instant = models.CharField, models.TextField, models.DateTimeField

#: Stands in the place of what nobody can read.
UNREADABLE = "(unreadable)"
#: Levels of JSON that whoever shows it can follow, further down the stack than where it is read. No entry that hbus
#: wrote has as many: its secrets were looked for with as deep a stack.
_DEEPEST = 600
#: Half a character, which nothing can be sent with.
_LONE = re.compile(r"\\u[dD][89a-fA-F]")


def _finite(text: str) -> float:
    if not math.isfinite(found := float(text)):
        raise ValueError(text)
    return found


_DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=_finite)


class _Legible:
    """To migrations it is the field of Django that it is made of."""

    def deconstruct(self) -> Any:
        name, _, args, kwargs = super().deconstruct()  # type: ignore[misc]  # of the field beside it
        kind = next(each for each in type(self).__mro__ if each.__module__.startswith("django.db.models"))
        return name, f"django.db.models.{kind.__name__}", args, kwargs


class LegibleJSON(_Legible, models.JSONField):
    """What is no object is read as one that says :data:`UNREADABLE` of it, and raises nothing."""

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        if value is None:
            return None
        try:
            found = _DECODER.decode(value)
            if _LONE.search(value):
                json.dumps(found, ensure_ascii=False).encode()
            if value.count("[") + value.count("{") > _DEEPEST and _is_deep(found):
                return {UNREADABLE: "too deep"}
        except (ValueError, TypeError, RecursionError):
            return {UNREADABLE: "no JSON"}
        return found if found is None or isinstance(found, dict) else {UNREADABLE: found}


class _LegibleText(_Legible):
    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        return value if isinstance(value, str) or not isinstance(expression, Col) else UNREADABLE


class LegibleChars(_LegibleText, _Chars):
    """What is no text is read as :data:`UNREADABLE`."""


class LegibleText(_LegibleText, _Text):
    """Likewise."""


class LegibleInstant(_Legible, _Instant):
    """What is no instant is read as :data:`~hbus_console.cells.NO_INSTANT`."""

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        return NO_INSTANT if value is None and isinstance(expression, Col) else value


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(_DEEPEST):
        level = [
            inner
            for each in level
            for inner in (each.values() if isinstance(each, dict) else each)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True
