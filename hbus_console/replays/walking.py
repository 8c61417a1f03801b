"""The messages a replay chooses from, one after the other, whatever they are read from."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Protocol

from engine.bus import message as envelope
from engine.bus.errors import MalformedEnvelope
from engine.bus.message import Message
from engine.bus.transport import Admin, Page, Stored
from hbus_console.replays.spec import Selection
from hbus_console.topics.models import Topic
from hbus_console.wiring import bus

#: Messages read from the store at once.
PAGE = 500


@dataclass(frozen=True)
class Found:
    """One message of the range: ``message`` is ``None`` when its envelope cannot be read."""

    #: Tells it apart inside the operation.
    key: str
    position: str
    at_ms: int
    message: Message | None
    #: Where the walk goes on once this one was looked at, as JSON takes it.
    after: Any


class Walk(Protocol):
    """Through the messages of a range, in the order of storing."""

    @property
    def most(self) -> int:
        """How many there are at most, where that is known; else 0."""
        ...

    def found(self, after: Any) -> Generator[Found]:
        """Those beyond what :attr:`Found.after` said; what says nothing is the beginning."""
        ...

    def done_before(self, keys: Collection[str]) -> set[str]:
        """Which of these the operation has results of, because the same message lay in another place, too."""
        ...


@dataclass(frozen=True)
class Part:
    """What one step looked at."""

    #: Those that are chosen, and those that cannot be read, each once in the whole operation.
    found: list[Found]
    scanned: int
    #: How many of what was chosen were done before.
    twice: int
    after: Any
    #: Whether nothing lies beyond it.
    finished: bool


def part_of(walk: Walk, after: Any, chosen: Callable[[Message], bool], *, limit: int, scan_most: int) -> Part:
    """The next part of ``walk``: at most so many that are found, and at most so many that are looked at."""
    found: dict[str, Found] = {}
    scanned, twice, finished = 0, 0, True
    with closing(walk.found(after)) as rows:
        for row in rows:
            if len(found) == limit or scanned == scan_most:
                finished = False
                break
            scanned, after = scanned + 1, row.after
            if row.message is None or chosen(row.message):
                twice += row.key in found
                found.setdefault(row.key, row)
    known = walk.done_before(found)
    new = [each for key, each in found.items() if key not in known]
    return Part(new, scanned, twice + len(known), after, finished)


class LogWalk:
    """What a topic's own transport keeps: each message lies in one place."""

    most = 0

    def __init__(self, topic: Topic, wanted: Selection) -> None:
        self._topic, self._wanted = topic, wanted

    @property
    def oldest_ms(self) -> int:
        """When the oldest message that is there was stored; of a topic that holds none, when the range ends."""
        first = bus.admin(self._topic.transport).browse(self._topic.name, limit=1).entries
        return first[0].at_ms if first else self._wanted.to_ms

    def found(self, after: Any) -> Generator[Found]:
        admin: Admin = bus.admin(self._topic.transport)
        wanted = self._wanted
        cursor = str(after or "") or wanted.after or (f"@{wanted.from_ms}" if wanted.from_ms else "")
        while True:
            page = admin.browse(self._topic.name, after=cursor, limit=PAGE)
            beyond = self._beyond(admin, page)
            for stored in page.entries:
                if stored.at_ms > wanted.to_ms or stored.position == beyond:
                    return
                if stored.at_ms >= wanted.from_ms:
                    yield _of_log(stored)
                if wanted.until and stored.position == wanted.until:
                    return
            if not page.next_position:
                return
            cursor = page.next_position

    def done_before(self, keys: Collection[str]) -> set[str]:
        return set()

    def _beyond(self, admin: Admin, page: Page) -> str:
        """Where a page is past the last message of the range: retention may have taken that one, and a replay of a
        release before knows no instant of it. Asked once the page is there: what it took before that is not in it."""
        until = self._wanted.until
        if not until or any(stored.position == until for stored in page.entries):
            return ""
        first = admin.browse(self._topic.name, after=until, limit=1).entries
        return first[0].position if first else ""


def _of_log(stored: Stored) -> Found:
    return Found(stored.position, stored.position, stored.at_ms, _decoded(stored), stored.position)


def _decoded(stored: Stored) -> Message | None:
    try:
        return envelope.decode(stored.body)
    except MalformedEnvelope:
        return None
