"""What becomes of a time of day that a change of the clocks leaves out, or repeats.

They bind expressions that name a time of day. One whose minutes or hours begin with ``*`` means a spacing, and keeps it
through both (the rule of Debian's cron).
"""

from __future__ import annotations

from enum import StrEnum


class GapPolicy(StrEnum):
    """What becomes of times that are left out: one run when the gap ends, or none."""

    END = "end"
    SKIP = "skip"


class FoldPolicy(StrEnum):
    """At which of two occurrences a repeated time runs."""

    FIRST = "first"
    BOTH = "both"
    LAST = "last"
