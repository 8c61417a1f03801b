"""The delay path's answers to who has messages kept there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import redis

from engine.bus.transport import Outcome, Status
from engine.core.error_text import words_of
from engine.core.errors import Unavailable

#: Why a message is not kept whose source and id another has that waits.
TAKEN = "another message of this topic, source and id waits for its due time"
#: Why one is not kept as yet: see ``adopt.lua``.
FORMER = "what a release before kept under its id cannot be given its place"


class Answerable(Protocol):
    """What was to be kept."""

    @property
    def message_id(self) -> str: ...


def outcomes_of(batch: Sequence[Answerable], answers: Sequence[bytes]) -> list[Outcome]:
    """What ``schedule.lua`` answered, in words of the transports."""
    return [_outcome(item.message_id, bytes(answer).decode()) for item, answer in zip(batch, answers, strict=True)]


def not_kept(batch: Sequence[Answerable], error: Unavailable | redis.RedisError) -> list[Outcome]:
    """That none of them was, for certain."""
    what, remedy = (error.what, error.remedy) if isinstance(error, Unavailable) else (words_of(error), "")
    return [Outcome(Status.FAILED, item.message_id, error=what, remedy=remedy) for item in batch]


def _outcome(message_id: str, answer: str) -> Outcome:
    said, _, about = answer.partition(" ")
    match said:
        case "ok":
            return Outcome(Status.OK, message_id)
        case "kept":
            return Outcome(Status.OK, message_id, due_ms=int(float(about)))
        case "conflict":
            return Outcome(Status.CONFLICT, message_id)
        case "taken":
            return Outcome(Status.CONFLICT, message_id, error=TAKEN)
        case "former":
            return Outcome(Status.FAILED, message_id, error=FORMER)
    return Outcome(Status.DUPLICATE, about)
