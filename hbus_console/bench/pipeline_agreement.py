"""Whether two audits of one lake found the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: What our percentiles may be off by, as the engine promises; and what rounding to whole milliseconds adds.
_OFF_BY, _ROUNDED_MS = 0.01, 1.0
_COUNTED = ("published", "archived", "settled")


def difference(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    """The first thing that they tell otherwise; empty: they agree."""
    for kind, count in theirs["findings"].items():
        if (mine := ours["findings"].get(kind, 0)) != count:
            return f"{kind}: {count:,}, ours {mine:,}"
    for name in _COUNTED:
        if ours[name] != theirs[name]:
            return f"{name}: {theirs[name]:,}, ours {ours[name]:,}"
    for start in sorted({*ours["windows"], *theirs["windows"]}, key=int):
        mine, other = (each["windows"].get(start, [0, 0]) for each in (ours, theirs))
        if mine != other:
            return f"the window of {start}: {other[0]:,} and {other[1]:,}, ours {mine[0]:,} and {mine[1]:,}"
    for mine, other in zip(ours["settled_after"], theirs["settled_after"], strict=True):
        if abs(mine - other) > other * _OFF_BY + _ROUNDED_MS:
            return f"a percentile: {other:,} ms, ours {mine:,}"
    return ""


def unlike_planted(ours: Mapping[str, Any]) -> str:
    """The first fault that ours did not find as often as it was planted; empty: it found all."""
    for kind, count in ours["planted"].items():
        if (mine := ours["findings"].get(kind, 0)) != count:
            return f"{count:,} planted of {kind}, and ours found {mine:,}"
    return ""
