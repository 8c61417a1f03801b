"""How far a reader came in each log of a topic: what a stream's checkpoint, and an archive's manifest, say of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from engine.bus import Extent
from engine.core.errors import BadInput
from engine.core.prepared import prepared


class LogReached(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """Everything up to a place of one log was read."""

    #: Empty: nothing yet.
    at: str
    #: How many messages the log had been given up to there; ``None`` where the store does not count.
    added: int | None = None
    #: In which life of the topic; empty where nobody knows.
    life: str = ""
    #: When the message there was appended, epoch milliseconds.
    at_ms: int = 0


#: By the log's name. A log that is not in it was never read.
Reached = Mapping[str, LogReached]

NOTHING = LogReached("", 0)


def end_of(extent: Extent) -> LogReached:
    """What is said of a log once all of it was read."""
    return LogReached(extent.last, extent.added, extent.life, extent.last_ms)


def as_plain(reached: Reached) -> dict[str, Any]:
    """As JSON takes it."""
    return {log: msgspec.to_builtins(at) for log, at in reached.items()}


def from_plain(plain: Any, *, field: str) -> dict[str, LogReached]:
    """Raises :class:`BadInput` at ``field`` for what is no such thing."""
    try:
        return msgspec.convert(plain, prepared(dict[str, LogReached]))
    except msgspec.ValidationError as error:
        raise BadInput(
            f"{field} does not say how far each log was read: {error}.",
            remedy='It looks like {"-": {"at": "1790000000000-0", "added": 1, "life": "…"}}.',
            field=field,
        ) from error


def from_json(text: str, *, field: str) -> dict[str, LogReached]:
    """Raises as :func:`from_plain`."""
    try:
        return from_plain(msgspec.json.decode(text), field=field)
    except (msgspec.DecodeError, RecursionError) as error:
        if isinstance(error, msgspec.ValidationError):
            raise
        raise BadInput(f"{field} is no JSON: {error}.", remedy="Write one JSON object.", field=field) from error
