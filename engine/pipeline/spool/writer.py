"""Appending to the spool of one topic: what :meth:`SpoolWriter.append` has returned from stays over a power cut.

One process at a time holds a spool, by a lock that ends with it. The lock must reach every host that writes: the folder
lies on one host, or on a file system that locks for all of them, as that of the lake does.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from engine.core.clock import Clock, SystemClock
from engine.core.file_lock import file_lock
from engine.pipeline.lake.files import sync_folder
from engine.pipeline.spool.errors import SpoolBusy, SpoolDamaged
from engine.pipeline.spool.files import REMEDY, SpoolFile, folder, make_file, paths_in
from engine.pipeline.spool.frames import (
    HEAD,
    TOKEN,
    FrameHead,
    Spooled,
    is_whole,
    new_beginning,
    read_head,
    written,
)
from engine.pipeline.spool.recent import WINDOW, RecentMessages

#: A file that has come to so many bytes, or is so old, is followed by another: only whole files go.
FILE_BYTES = 64 * 1024 * 1024
FILE_MS = 15 * 60 * 1000
LOCK = ".lock"


class SpoolWriter:
    """Not thread-safe, and of use only within :meth:`held`."""

    def __init__(self, root: Path, topic: str, clock: Clock | None = None, *, window: int = WINDOW) -> None:
        """Nothing is made before it is held."""
        self._topic = topic
        self._place = folder(root, topic)
        self._clock = clock or SystemClock()
        self._window = window
        self._recent = RecentMessages(window)
        self._file: SpoolFile | None = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Nobody else appends meanwhile. Cuts off what a kill or a power cut left half-written at the end.

        Raises :class:`SpoolBusy` where another process holds it, :class:`SpoolDamaged`, and ``OSError``.
        """
        _make_folder(self._place)
        descriptor = os.open(self._place / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            with _locked(descriptor, self._topic):
                if not self._is_named(LOCK, descriptor):
                    # The spool was removed between the two, and may have been made anew by another.
                    raise SpoolBusy(self._topic)
                self._open()
                yield
        finally:
            os.close(descriptor)

    def append(self, messages: Sequence[Spooled]) -> int:
        """Put those on disk that are not there yet; how many that were. All of them are on disk then.

        Raises ``OSError``, and :class:`SpoolDamaged` where the file was taken away: nothing of it counts then, and what
        is given again is taken.
        """
        new = self._recent.new_of(messages)
        if new:
            self._write(new)
            self._recent.note(new)
        else:
            self._insist_on_name()
        return len(new)

    def pass_over(self, number: int) -> None:
        """So many messages that should have come were lost before: whoever reads finds them missing.

        Raises as :meth:`append`.
        """
        self._write([], passed=number)

    def close(self) -> None:
        """Idempotent; held again, it is opened again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> None:
        paths = paths_in(self._place)
        if self._file is None or not paths or self._file.path != paths[-1] or self._file.size != self._file.end:
            self.close()
            self._load(paths)
        file = self._opened
        if file.first_ms and self._clock.now_ms() - file.first_ms >= FILE_MS:
            self._follow(file)

    def _load(self, paths: Sequence[Path]) -> None:
        if not paths:
            paths = [make_file(self._place, new_beginning("", 1, 0, 0))]
        file = SpoolFile(paths[-1], to_write=True)
        try:
            file.walk()
            _cut_torn_end(file)
            # What a process that was killed had written is on disk from here on, or is seen not to be.
            os.fsync(file.descriptor)
            recent = RecentMessages(self._window)
            _recall(recent, file)
            for path in reversed(paths[:-1]):
                if recent.is_full:
                    break
                _recall_of(recent, path)
        except BaseException:
            file.close()
            raise
        self._file, self._recent = file, recent

    @property
    def _opened(self) -> SpoolFile:
        assert self._file is not None, "it is not held"
        return self._file

    def _write(self, messages: Sequence[Spooled], passed: int = 0) -> None:
        file = self._opened
        if file.end >= FILE_BYTES:
            file = self._follow(file)
        # The clock may step back; what was appended later is never said to be older.
        at_ms = max(self._clock.now_ms(), file.last_ms)
        frame = written(file.beginning.token, file.next + passed, at_ms, messages)
        head = read_head(frame, file.beginning.token)
        assert head is not None
        try:
            _write_all(file.descriptor, frame, file.end)
            os.fsync(file.descriptor)
            self._insist_on_name()
        except BaseException:
            # Whether it is on disk nobody knows: it is taken off, and comes again.
            with contextlib.suppress(OSError):
                os.ftruncate(file.descriptor, file.end)
                os.fsync(file.descriptor)
            self.close()
            raise
        file.note(head)

    def _insist_on_name(self) -> None:
        """What is written to a file that nobody can find any more is as good as lost."""
        file = self._opened
        if not self._is_named(file.path.name, file.descriptor):
            self.close()
            raise SpoolDamaged(f"{file.path} was taken away while it was written.", remedy=REMEDY)

    def _is_named(self, name: str, descriptor: int) -> bool:
        """Whether what is open is what has that name in the folder."""
        try:
            return os.path.samestat(os.stat(self._place / name), os.fstat(descriptor))
        except FileNotFoundError:
            return False

    def _follow(self, file: SpoolFile) -> SpoolFile:
        """A new file behind it."""
        made = make_file(self._place, new_beginning(file.beginning.life, file.next, file.stored, file.last_ms))
        self.close()
        self._file = SpoolFile(made, to_write=True)
        return self._file


@contextmanager
def _locked(descriptor: int, topic: str) -> Iterator[None]:
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(file_lock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB))
        except BlockingIOError:
            raise SpoolBusy(topic) from None
        yield


def _make_folder(place: Path) -> None:
    """Closed to others, and there after a power cut."""
    missing = [each for each in (place, *place.parents) if not each.exists()]
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    for each in reversed(missing):
        each.chmod(0o700)
        sync_folder(each.parent)


def _write_all(descriptor: int, frame: bytes, at: int) -> None:
    left = memoryview(frame)
    while left:
        done = os.pwrite(descriptor, left, at)
        left, at = left[done:], at + done


def _cut_torn_end(file: SpoolFile) -> None:
    """Only the last frame can have been torn: with a whole one behind it, it was damaged, and that is told."""
    size = file.size
    if size == file.end:
        return
    rest = os.pread(file.descriptor, size - file.end, file.end)
    token = file.beginning.token
    at = rest.find(token, 1)
    while at >= 0:
        head: FrameHead | None = read_head(rest[at : at + HEAD], token)
        if head is not None and is_whole(head, token, rest[at + HEAD : at + HEAD + head.length]):
            raise file.damaged(file.end)
        at = rest.find(token, at + TOKEN)
    os.ftruncate(file.descriptor, file.end)


def _recall(recent: RecentMessages, file: SpoolFile) -> None:
    for messages in file.newest_first():
        if recent.is_full:
            return
        recent.note_older(messages)


def _recall_of(recent: RecentMessages, path: Path) -> None:
    try:
        file = SpoolFile(path)
    except FileNotFoundError:
        # It was archived long ago, and went meanwhile.
        return
    try:
        file.walk()
        _recall(recent, file)
    finally:
        file.close()
