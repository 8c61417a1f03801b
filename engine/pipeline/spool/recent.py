"""What was spooled of late: a message that its transport sends again is known by it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from hashlib import blake2b

import msgspec

from engine.core.prepared import prepared
from engine.pipeline.spool.frames import Spooled

#: How many of the latest messages are remembered. What was on disk and not finished when a process was killed is among
#: them unless so many others came through first, while an nsqd was away.
WINDOW = 50_000


class RecentMessages:
    """An envelope is known by its bytes: a transport may hand it out again under another place, as NSQ does from a copy
    of it. What names no id and source is known by its place as well: two of them may say the same and be two."""

    def __init__(self, window: int = WINDOW) -> None:
        self._window = window
        self._known: set[bytes] = set()
        self._order: deque[bytes] = deque()

    @property
    def is_full(self) -> bool:
        return len(self._order) >= self._window

    def new_of(self, messages: Iterable[Spooled]) -> list[Spooled]:
        """Those that are not known; each once."""
        found = {mark: each for each in messages if (mark := _mark(each)) not in self._known}
        return list(found.values())

    def note(self, messages: Iterable[Spooled]) -> None:
        """They are on disk now."""
        for each in messages:
            self._known.add(mark := _mark(each))
            self._order.append(mark)
        while len(self._order) > self._window:
            self._known.discard(self._order.popleft())

    def note_older(self, messages: Iterable[Spooled]) -> None:
        """They lie before all that is known, in their order."""
        marks = [_mark(each) for each in messages]
        self._known.update(marks)
        self._order.extendleft(reversed(marks))


class _Named(msgspec.Struct, gc=False):
    """What tells an envelope from every other."""

    id: str
    source: str


_named = msgspec.json.Decoder(prepared(_Named))


def _mark(message: Spooled) -> bytes:
    body = blake2b(message.body, digest_size=16)
    try:
        _named.decode(message.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        body.update(b"\0" + message.position.encode())
    return body.digest()
