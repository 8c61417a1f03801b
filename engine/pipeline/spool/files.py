"""The files of one topic's spool: named by the number of their first message, and walked frame by frame.

Only the last one grows, and a frame is written to it only once the one before is on disk. So the last frame alone may
be torn; what does not fit before another one that does was damaged.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from pathlib import Path

from engine.core.numbers import whole
from engine.pipeline.lake.files import folder_of, make_whole
from engine.pipeline.spool.errors import SpoolDamaged
from engine.pipeline.spool.frames import (
    BEGINNING,
    HEAD,
    FileBeginning,
    FrameHead,
    Spooled,
    is_whole,
    messages_in,
    read_beginning,
    read_head,
    written_beginning,
)

SUFFIX = ".spool"
#: Whoever restores, or gives up, what is damaged needs to know as much.
REMEDY = (
    "Restore it from a copy of the disk, or move it away together with the others of its folder: what was not archived"
    " yet is lost then, and told as a loss."
)


def spools_beside(lake: Path) -> Path:
    """Where the spools lie whose messages go into the lake of that folder."""
    return lake / "spool"


def folder(root: Path, topic: str) -> Path:
    """Where the spool of the topic lies."""
    return root / folder_of(topic)


def paths_in(place: Path) -> list[Path]:
    """Of a spool's folder, the first first; none where there is none."""
    try:
        names = os.listdir(place)
    except FileNotFoundError:
        return []
    return [place / name for name in sorted(names) if name.endswith(SUFFIX) and whole(name.removesuffix(SUFFIX))]


def make_file(place: Path, beginning: FileBeginning) -> Path:
    """A new one that holds nothing so far; its name is on disk. Raises ``OSError``."""
    path = place / f"{beginning.first:018d}{SUFFIX}"
    make_whole(path, lambda draft: draft.write_bytes(written_beginning(beginning)))
    return path


class SpoolFile:
    """One of them, open, and known as far as it was walked. Not thread-safe; whoever makes one closes it."""

    def __init__(self, path: Path, *, to_write: bool = False) -> None:
        """Raises ``FileNotFoundError``, ``OSError`` and :class:`SpoolDamaged`."""
        self.path = path
        self.descriptor = os.open(path, (os.O_RDWR if to_write else os.O_RDONLY) | os.O_CLOEXEC)
        try:
            found = read_beginning(os.pread(self.descriptor, BEGINNING, 0))
            if found is None:
                raise self.damaged(0)
        except BaseException:
            self.close()
            raise
        self.beginning = found
        #: Up to where it was walked, and what number comes next there.
        self.end = BEGINNING
        self.next = found.first
        self.stored = found.stored
        self.last_ms = found.before_ms
        # Of each frame with messages, in columns: there may be a frame for each message.
        self._offsets = array("Q")
        self._firsts = array("Q")
        self._stored = array("Q")
        self._times = array("Q")

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    @property
    def size(self) -> int:
        return os.fstat(self.descriptor).st_size

    @property
    def first_ms(self) -> int:
        """When the first message in it was appended; 0: it has none."""
        return self._times[0] if self._times else 0

    @property
    def first(self) -> int:
        """The number of that message; 0: it has none."""
        return self._firsts[0] if self._firsts else 0

    @property
    def last(self) -> int:
        """The number of its last message; 0: it has none."""
        return self._firsts[-1] + self.stored - self._stored[-1] - 1 if self._firsts else 0

    def damaged(self, at: int) -> SpoolDamaged:
        return SpoolDamaged(f"{self.path} is not what was written to it, from byte {at:,} on.", remedy=REMEDY)

    def walk(self) -> None:
        """Up to the last frame that is whole; what lies behind it is being written, or was torn."""
        size = self.size
        head = self._head_at(self.end, size, self.next, self.last_ms)
        while head is not None:
            behind = self.end + HEAD + head.length
            following = self._head_at(behind, size, head.last + 1, head.at_ms)
            # Whatever has another behind it was on disk before that was written.
            if following is None and not is_whole(head, self.beginning.token, self._content(self.end, head)):
                return
            self.note(head)
            head = following

    def note(self, head: FrameHead) -> None:
        """A frame lies where the walk has ended."""
        if head.count:
            self._offsets.append(self.end)
            self._firsts.append(head.first)
            self._stored.append(self.stored)
            self._times.append(head.at_ms)
        self.end += HEAD + head.length
        self.next = head.last + 1
        self.stored += head.count
        self.last_ms = head.at_ms

    def messages(self, after: int) -> Iterator[tuple[int, int, Spooled]]:
        """Those with a higher number: number, instant and message. Raises :class:`SpoolDamaged`."""
        # The frame that number lies in, or the one before.
        begin = max(0, bisect_right(self._firsts, after) - 1)
        for index in range(begin, len(self._offsets)):
            for number, message in enumerate(self._frame(index), self._firsts[index]):
                if number > after:
                    yield number, self._times[index], message

    def newest_first(self) -> Iterator[list[Spooled]]:
        """Frame by frame, each in its order. Raises :class:`SpoolDamaged`."""
        for index in reversed(range(len(self._offsets))):
            yield self._frame(index)

    def stored_upto(self, number: int) -> int:
        """How many messages were ever appended up to that number; those before this file included."""
        index = bisect_right(self._firsts, number) - 1
        if index < 0:
            return self.beginning.stored
        return min(self._stored[index] + number - self._firsts[index] + 1, self._stored_behind(index))

    def number_of(self, stored: int) -> int:
        """The number of the message that was appended as the ``stored``-th ever, which lies in this file."""
        index = bisect_left(self._stored, stored) - 1
        return self._firsts[index] + stored - self._stored[index] - 1

    def before(self, at_ms: int) -> int:
        """The highest number that was given before that instant, which is later than all that lies before this file."""
        index = bisect_left(self._times, at_ms)
        return self._firsts[index] - 1 if index < len(self._times) else self.next - 1

    def _stored_behind(self, index: int) -> int:
        return self._stored[index + 1] if index + 1 < len(self._stored) else self.stored

    def _head_at(self, at: int, size: int, least: int, since_ms: int) -> FrameHead | None:
        head = read_head(os.pread(self.descriptor, HEAD, at), self.beginning.token)
        if head is None or head.first < least or head.at_ms < since_ms or at + HEAD + head.length > size:
            return None
        return head

    def _content(self, at: int, head: FrameHead) -> bytes:
        return os.pread(self.descriptor, head.length, at + HEAD)

    def _frame(self, index: int) -> list[Spooled]:
        at = self._offsets[index]
        head = read_head(os.pread(self.descriptor, HEAD, at), self.beginning.token)
        if head is None:
            raise self.damaged(at)
        content = self._content(at, head)
        if not is_whole(head, self.beginning.token, content):
            raise self.damaged(at)
        return list(messages_in(content))
