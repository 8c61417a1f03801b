"""Reading spools over again: the contract of :mod:`engine.bus.rereading`, on files. A place is a message's number."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from engine.bus import Extent, Stretch
from engine.core.errors import BadInput, Unavailable
from engine.core.numbers import whole
from engine.pipeline.spool.files import SpoolFile, folder, paths_in

#: What the one log of a spool is called: no other transport calls one so, and a topic may have been on several.
LOG = "spool"
#: About how many bytes a stretch is made of.
ROOM_BYTES = 32 * 1024 * 1024
#: How often the files are looked for anew, where some go just then.
_TRIES = 5


class SpoolReader:
    """Of the spools below one folder, in whatever process; needs no hold on them. See
    :class:`engine.bus.rereading.Rereads`. Raises :class:`SpoolDamaged` as well."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = threading.Lock()
        self._open: dict[Path, SpoolFile] = {}

    def close(self) -> None:
        """Idempotent."""
        with self._lock:
            for file in self._open.values():
                file.close()
            self._open.clear()

    def extents(self, topic: str) -> list[Extent]:
        with self._lock:
            files = self._files(topic)
            if not files:
                return []
            oldest, newest = files[0], files[-1]
            held = newest.stored - oldest.beginning.stored
            first = next((file for file in files if file.first), None)
            return [
                Extent(
                    log=LOG,
                    life=newest.beginning.life,
                    last=str(newest.next - 1) if newest.next > 1 else "",
                    added=newest.next - 1,
                    held=held,
                    first=str(first.first) if first else "",
                    first_ms=first.first_ms if first else 0,
                    last_ms=newest.last_ms,
                )
            ]

    def stretch(self, topic: str, log: str, after: str, *, upto: str, limit: int) -> Stretch:
        begin, end = _number(log, after), _number(log, upto)
        positions: list[str] = []
        at_ms: list[int] = []
        bodies: list[bytes] = []
        size, ended = 0, True
        with self._lock:
            for number, moment, body in self._messages(topic, begin, end):
                if len(bodies) == limit or size >= ROOM_BYTES:
                    ended = False
                    break
                positions.append(str(number))
                at_ms.append(moment)
                bodies.append(body)
                size += len(body)
        return Stretch(positions, at_ms, bodies, ended)

    def nth_after(self, topic: str, log: str, after: str, *, upto: str, number: int) -> tuple[str, int]:
        begin, end = _number(log, after), _number(log, upto)
        with self._lock:
            files = self._files(topic) if begin < end else []
            if not files:
                return after, 0
            stored = _file_of(files, begin).stored_upto(begin)
            count = min(number, _file_of(files, end).stored_upto(end) - stored)
            if count <= 0:
                return after, 0
            inside = [file for file in files if file.beginning.stored < stored + count]
            return str(inside[-1].number_of(stored + count)), count

    def place_before(self, topic: str, log: str, at_ms: int) -> str:
        _number(log, "")
        with self._lock:
            earlier = [file for file in self._files(topic) if file.beginning.before_ms < at_ms]
            number = earlier[-1].before(at_ms) if earlier else 0
        return str(number) if number else ""

    def _messages(self, topic: str, after: int, upto: int) -> Iterator[tuple[int, int, bytes]]:
        files = self._files(topic) if after < upto else []
        for file in files:
            if file.next - 1 <= after:
                continue
            for number, moment, message in file.messages(after):
                if number > upto:
                    return
                yield number, moment, message.body

    def _files(self, topic: str) -> Sequence[SpoolFile]:
        """Of the topic as they are now, each walked. What they are told to hold is on disk."""
        place = folder(self._root, topic)
        for _ in range(_TRIES):
            try:
                files = [self._file(path) for path in paths_in(place)]
            except FileNotFoundError:
                # It was archived, and its time was over.
                continue
            self._leave_others(place, files)
            for index, file in enumerate(files):
                _walk(file, files[index + 1] if index + 1 < len(files) else None)
            return files
        raise Unavailable(f"The spool of {topic} changes faster than it can be read.", remedy="It is tried again.")

    def _file(self, path: Path) -> SpoolFile:
        known = self._open.get(path)
        if known is not None and not os.path.samestat(os.stat(path), os.fstat(known.descriptor)):
            # The spool was made anew.
            self._open.pop(path).close()
            known = None
        if known is None:
            known = self._open[path] = SpoolFile(path)
        return known

    def _leave_others(self, place: Path, files: Sequence[SpoolFile]) -> None:
        there = {file.path for file in files}
        for path in [path for path in self._open if path.parent == place and path not in there]:
            self._open.pop(path).close()


def _walk(file: SpoolFile, following: SpoolFile | None) -> None:
    """Up to its end, and that must be where the next one begins."""
    if following is None:
        file.walk()
        # Its writer may be about to: nobody is told of what a power cut can take.
        os.fsync(file.descriptor)
        return
    if file.next == following.beginning.first and file.stored == following.beginning.stored:
        return
    file.walk()
    if file.beginning.life != following.beginning.life or file.next != following.beginning.first:
        raise file.damaged(file.end)


def _file_of(files: Sequence[SpoolFile], number: int) -> SpoolFile:
    """In which that number was given; the first, where it is older than all."""
    return [file for file in files if file is files[0] or file.beginning.first <= number][-1]


def _number(log: str, place: str) -> int:
    """0 for the place before everything."""
    if log != LOG:
        raise BadInput(f"{log!r} is no log of a spool.", remedy=f"It has one, called {LOG}.", field="log")
    if not place:
        return 0
    number = whole(place)
    if not number:
        raise BadInput(f"{place!r} is no place in a spool.", remedy="Take one of its own.", field="position")
    return number
