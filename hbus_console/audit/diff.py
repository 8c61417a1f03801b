"""Before and after, field by field."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from engine.core.clock import to_rfc3339
from engine.core.redaction import REDACTED
from hbus_console.ui.formats import in_larger_unit

_ABSENT = object()
#: How the name of a field ends, and the unit of its numbers.
_UNITS = {"_s": "seconds", "_hours": "hours", "_bytes": "bytes"}
#: Deeper nesting is compared as one value.
_DEPTH = 6
#: Milliseconds that are an instant, from September 2001 to the last year there is; fewer are a duration.
_INSTANTS_MS = range(10**12, 253_402_300_800_000)


@dataclass(frozen=True)
class Change:
    """One field; a side that has no such field is None.

    ``kind`` is ``changed`` or ``same``; ``added`` or ``removed`` within what both sides tell of; ``noted before`` or
    ``noted after`` for what one side alone tells, which is no change: an act notes what mattered to it. ``untold``:
    both sides have it redacted, and whether it changed is not written down.
    """

    field: str
    kind: str
    before: Any
    after: Any

    @property
    def was(self) -> str:
        """``before`` as a person reads it."""
        return told(self.before, self.field)

    @property
    def now(self) -> str:
        """``after`` as a person reads it."""
        return told(self.after, self.field)

    @property
    def came(self) -> str:
        """What a list has now and had not before."""
        return _listed(self.after, self.before)

    @property
    def went(self) -> str:
        """What it had, and has no more."""
        return _listed(self.before, self.after)


def told(value: Any, field: str = "") -> str:
    """A value in words: yes and no, an instant of a ``field`` in milliseconds, a number of a field that names its unit
    in a larger one too, JSON for what is made of parts, and text as it is."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value or "empty"
    if field.endswith("_ms") and isinstance(value, int) and value in _INSTANTS_MS:
        return to_rfc3339(value)
    unit = next((unit for ending, unit in _UNITS.items() if field.endswith(ending)), "")
    larger = "" if isinstance(value, bool) else in_larger_unit(value, unit)
    return json.dumps(value, ensure_ascii=False) + (f" ({larger})" if larger else "")


def diff(before: dict[str, Any] | None, after: dict[str, Any] | None) -> list[Change]:
    """Every field of both sides by its dotted path, in the order of the paths. Without one side the whole other one was
    added or removed.

    Objects are taken apart, lists are compared as a whole: what moved inside a list is seldom what was meant.
    """
    both = before is not None and after is not None
    old, new = _flat(before or {}), _flat(after or {})
    changes = []
    for path in sorted(old.keys() | new.keys()):
        was, now = old.get(path, _ABSENT), new.get(path, _ABSENT)
        if was is _ABSENT:
            alone = both and path.partition(".")[0] not in (before or {})
            changes.append(Change(path, "noted after" if alone else "added", None, now))
        elif now is _ABSENT:
            alone = both and path.partition(".")[0] not in (after or {})
            changes.append(Change(path, "noted before" if alone else "removed", was, None))
        else:
            # 1 == True in Python, but not in evidence.
            same = was == now and isinstance(was, bool) is isinstance(now, bool)
            changes.append(Change(path, ("untold" if _hides(was) else "same") if same else "changed", was, now))
    return changes


def _hides(value: Any) -> bool:
    """Whether a part of it is redacted."""
    parts = [value]
    while parts:
        each = parts.pop()
        if isinstance(each, dict | list):
            parts.extend(each.values() if isinstance(each, dict) else each)
        elif isinstance(each, str) and REDACTED in each:
            return True
    return False


def _listed(one: Any, other: Any) -> str:
    if not isinstance(one, list) or not isinstance(other, list):
        return ""
    # As JSON: in Python 1 is among [True].
    others = {json.dumps(each, sort_keys=True) for each in other}
    return ", ".join(told(each) for each in one if json.dumps(each, sort_keys=True) not in others)


def _flat(value: dict[str, Any], path: str = "", depth: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, inner in value.items():
        here = f"{path}.{name}" if path else name
        if isinstance(inner, dict) and inner and depth < _DEPTH:
            found.update(_flat(inner, here, depth + 1))
        else:
            found[here] = inner
    return found
