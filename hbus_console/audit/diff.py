"""Before and after, field by field."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from engine.core.clock import to_rfc3339

_ABSENT = object()
#: Deeper nesting is compared as one value.
_DEPTH = 6
#: Milliseconds that are an instant, from September 2001 to the last year there is; fewer are a duration.
_INSTANTS_MS = range(10**12, 253_402_300_800_000)


@dataclass(frozen=True)
class Change:
    """One field. ``kind`` is ``added``, ``removed``, ``changed`` or ``same``; a side that has no such field is None."""

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


def told(value: Any, field: str = "") -> str:
    """A value in words: yes and no, an instant of a ``field`` in milliseconds, JSON for what is made of parts, and
    text as it is."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value or "empty"
    if field.endswith("_ms") and isinstance(value, int) and value in _INSTANTS_MS:
        return to_rfc3339(value)
    return json.dumps(value, ensure_ascii=False)


def diff(before: dict[str, Any] | None, after: dict[str, Any] | None) -> list[Change]:
    """Every field of both sides by its dotted path, in the order of the paths.

    Objects are taken apart, lists are compared as a whole: what moved inside a list is seldom what was meant.
    """
    old, new = _flat(before or {}), _flat(after or {})
    changes = []
    for path in sorted(old.keys() | new.keys()):
        was, now = old.get(path, _ABSENT), new.get(path, _ABSENT)
        if was is _ABSENT:
            changes.append(Change(path, "added", None, now))
        elif now is _ABSENT:
            changes.append(Change(path, "removed", was, None))
        else:
            # 1 == True in Python, but not in evidence.
            same = was == now and isinstance(was, bool) is isinstance(now, bool)
            changes.append(Change(path, "same" if same else "changed", was, now))
    return changes


def _flat(value: dict[str, Any], path: str = "", depth: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, inner in value.items():
        here = f"{path}.{name}" if path else name
        if isinstance(inner, dict) and inner and depth < _DEPTH:
            found.update(_flat(inner, here, depth + 1))
        else:
            found[here] = inner
    return found
