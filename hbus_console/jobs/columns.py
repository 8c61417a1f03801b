"""What columns of jobs and their runs may hold, where no engine says it."""

from __future__ import annotations

from enum import StrEnum

#: The longest reason of a run, in characters; what is longer is cut, and its last character says so.
REASON_LIMIT = 500


def choices(words: type[StrEnum]) -> list[tuple[str, str]]:
    """As a column takes them."""
    return [(word.value, word.value) for word in words]


class OverlapOn(StrEnum):
    """Which runs of a job meet."""

    CLUSTER = "cluster"
    NODE = "node"


class Division(StrEnum):
    """In how many runs a slot is done."""

    WHOLE = "whole"
    SHARDS = "shards"
    NODES = "nodes"


class ManualRuns(StrEnum):
    """Whether a triggered run meets the others of its job."""

    BOUND = "bound"
    FREE = "free"
