"""Which of several findings is told where there is room for one."""

from __future__ import annotations

from collections.abc import Sequence

from hbus_console.audit.verify import Finding, FindingKind

#: Of the rest one knows that an entry is not what it was.
_OF_WHAT_GUARDS = (FindingKind.ANCHOR, FindingKind.UNGUARDED)


def gravest(findings: Sequence[Finding]) -> Finding | None:
    """The first one about entries, else about the anchors, else about the guards; ``None`` for none."""
    return min(findings, key=lambda each: _gravity(each.kind), default=None)


def _gravity(kind: FindingKind) -> int:
    return _OF_WHAT_GUARDS.index(kind) + 1 if kind in _OF_WHAT_GUARDS else 0
