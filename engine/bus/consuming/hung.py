"""Handlers that do not return, as they are shown."""

from __future__ import annotations

import sys
import traceback
from dataclasses import dataclass

from engine.bus.consuming.dispatch import InFlight

#: A handler that runs for longer than this, and than its lease, is shown as hung, in seconds.
HUNG_S = 30.0
#: How much of a hung handler's stack is shown, counted from where it is.
FRAMES = 12


@dataclass(frozen=True)
class Hung:
    """A handler that does not return. Its lease is renewed all the same: nobody else is given its message."""

    message_id: str
    position: str
    attempt: int
    running_s: float
    #: Where it is: file, line and function of each call, without any values.
    stack: tuple[str, ...]
    #: Its message was given up and is tried again elsewhere; only the thread is left.
    given_up: bool = False

    @classmethod
    def shown(cls, held: InFlight, running_s: float, thread: int, *, given_up: bool) -> Hung:
        """One as it stands in the ``thread`` of that number."""
        message_id = held.message.id if held.message else ""
        stack = _stack(sys._current_frames().get(thread))
        return cls(message_id, held.delivery.position, held.attempt, running_s, stack, given_up)


def _stack(frame: object) -> tuple[str, ...]:
    if frame is None:
        return ()
    # Names and places only: values may be somebody's personal data.
    frames = traceback.extract_stack(frame, limit=None)[-FRAMES:]  # type: ignore[arg-type]
    return tuple(f"{each.filename.rpartition('/')[2]}:{each.lineno} {each.name}" for each in frames)
