"""The file of anchors: JSON lines, each under a keyed hash that covers the line before it.

Nobody without the audit key can write, change, take out or reorder a line unnoticed. That lines are missing at the end
only somebody can tell who has seen a later :class:`Tail`. Lines that releases before these hashes wrote stand in front
of the first hashed one, which says what they were.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import os
import secrets
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from engine.core.clock import from_rfc3339, to_rfc3339
from engine.core.file_lock import unlock
from hbus_console.audit.chain import link

#: An anchor line is far shorter; whatever is longer hbus did not write, and no crash tore.
_LINE_BYTES = 4096
_STEP_BYTES = 1 << 14
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Anchor:
    """The chain had the hash ``hash`` at entry ``seq`` (0: before the first) when it was ``at_ms``."""

    seq: int
    hash: str
    at_ms: int


@dataclass(frozen=True)
class Tail:
    """How far an anchor file went at some time: its name, its last hash, and the offset behind that line."""

    file: str
    mac: str
    end: int


@dataclass(frozen=True)
class _AnchorLine:
    anchor: Anchor
    #: What its hash covers; the hash; both empty in a line from before hashes.
    body: dict[str, Any]
    mac: str

    @property
    def file(self) -> str:
        return str(self.body.get("file", ""))


@dataclass(frozen=True)
class LineFlaw:
    """A line at fault, in one sentence, at the entry that it names (0: none)."""

    seq: int
    what: str


class AnchorFile:
    """One host's anchors at ``path``, hashed by ``key``. Appending is safe between processes."""

    def __init__(self, path: Path, key: str) -> None:
        self._path = path
        self._key = key

    def append(self, head: tuple[int, str] | None, at_ms: int, *, begin: bool, verified: bool = False) -> Anchor | None:
        """Append ``head`` unless it is there already; returns what was appended.

        A file without a hashed line gets its first only where it may ``begin``. ``verified`` appends in any case, and
        says that a verification was remembered beside this file. A line torn by a crash is removed first. Raises
        ``OSError`` when the disk refuses, or when there is no regular file.
        """
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _opened(self._path, os.O_RDWR | os.O_CREAT, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            appended = self._append(file, head, at_ms, begin, verified)
            # Not where it failed: what is still to be written then is written as it is closed.
            unlock(file)
            return appended

    def _append(
        self, file: IO[bytes], head: tuple[int, str] | None, at_ms: int, begin: bool, verified: bool
    ) -> Anchor | None:
        size, line = _last_line(file)
        file.truncate(size)
        newest = line.anchor.seq if line else -1
        last = line if line is None or line.mac else _last_line(file, hashed=True)[1]
        if head is None or (last is None and not begin):
            return None
        if newest > head[0] or (newest == head[0] and last is not None and not verified):
            return None
        anchor = Anchor(head[0], head[1], at_ms)
        body: dict[str, Any] = {"seq": anchor.seq, "hash": anchor.hash, "at": to_rfc3339(at_ms)}
        if last is None:
            body |= {"file": secrets.token_hex(8), "before": _digest(file, size)}
        else:
            body["file"] = last.file
        if verified:
            body["verified"] = True
        body["mac"] = link(self._key, last.mac if last else "", body)
        file.seek(0, os.SEEK_END)
        file.write(json.dumps(body).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
        return anchor

    def last(self) -> Anchor | None:
        """The newest readable anchor, without reading the file from its beginning."""
        line = self._last()[1]
        return line.anchor if line else None

    def tail(self) -> Tail | None:
        """How far the file goes; ``None`` where it has no hashed line at its end."""
        end, line = self._last()
        return Tail(line.file, line.mac, end) if line and line.mac else None

    def holds(self, tail: Tail) -> bool:
        """Whether the file still has what it had when it ended with ``tail``."""
        try:
            with _opened(self._path) as file:
                _, line = _last_line(file, tail.end)
        except OSError:
            return False
        return line is not None and hmac.compare_digest(line.mac, tail.mac)

    def _last(self) -> tuple[int, _AnchorLine | None]:
        try:
            with _opened(self._path) as file:
                return _last_line(file)
        except OSError:
            return 0, None

    def walk(self, since: Tail | None = None) -> AnchorLines:
        """Read it from the beginning, or from where it ended before; what is appended from now on is not read."""
        return AnchorLines(self._path, self._key, since if since is not None and self.holds(since) else None)


class AnchorLines:
    """One walk over an anchor file. Iterate once; the attributes are true afterwards."""

    def __init__(self, path: Path, key: str, since: Tail | None) -> None:
        self._key = key
        #: Where the walk begins; ``None``: at the beginning.
        self.since = since
        #: How far the hashed lines went.
        self.tail = since
        #: Whether a line says that a verification was remembered.
        self.verified = False
        #: The hashes that were met.
        self.met: set[str] = set()
        self.flaw: LineFlaw | None = None
        self._file: IO[bytes] | None = None
        try:
            self._file = _opened(path)
            # Before the log is read, so that no anchor is met of an entry that came after.
            self._size = os.fstat(self._file.fileno()).st_size
        except FileNotFoundError:
            self._file = None
        except OSError:
            self.flaw = LineFlaw(0, f"{path.name} is no file that hbus made, but a link or a device.")

    def __iter__(self) -> Iterator[Anchor | LineFlaw]:
        """Anchors and flaws in the order of the file."""
        if self.flaw is not None:
            yield self.flaw
        if self._file is None:
            return
        with self._file as file:
            yield from self._lines(file)

    def _lines(self, file: IO[bytes]) -> Iterator[Anchor | LineFlaw]:
        offset = self.since.end if self.since else 0
        file.seek(offset)
        before = hashlib.sha256()
        told = strange = False
        parts = iter(lambda: file.readline(_LINE_BYTES), b"")
        for raw in parts:
            offset += len(raw)
            if offset > self._size or (len(raw) < _LINE_BYTES and not raw.endswith(b"\n")):
                return
            rest = raw
            line = _parse(raw) if raw.endswith(b"\n") else None
            if line is None:
                if not strange:
                    # Thousands of them shall not crowd out what else is found.
                    strange = True
                    shown = raw.decode(errors="replace").strip()[:80]
                    yield LineFlaw(0, f"A line of the anchor file is no anchor: {shown!r}.")
                while not rest.endswith(b"\n"):
                    before.update(rest)
                    rest = next(parts, b"\n")
                    offset += len(rest)
            else:
                flaw = self._judged(line, before.hexdigest())
                if line.mac:
                    self.tail = Tail(line.file, line.mac, offset)
                if flaw is None:
                    self.met.add(line.mac)
                    self.verified = self.verified or bool(line.body.get("verified"))
                    yield line.anchor
                elif not told:
                    # One line that was taken out or written by others puts all behind it in question.
                    told = True
                    yield flaw
            before.update(rest)

    def _judged(self, line: _AnchorLine, before: str) -> LineFlaw | None:
        seq = line.anchor.seq
        if not line.mac:
            return LineFlaw(seq, f"The anchor of entry {seq:,} is not one that hbus wrote.") if self.tail else None
        if not hmac.compare_digest(line.mac, link(self._key, self.tail.mac if self.tail else "", line.body)):
            return LineFlaw(seq, f"The anchor file is not what hbus wrote, from the anchor of entry {seq:,} on.")
        if self.tail is None and line.body.get("before") != before:
            return LineFlaw(seq, f"What stood in the anchor file before the anchor of entry {seq:,} was changed.")
        return None


def _opened(path: Path, flags: int = os.O_RDONLY, mode: str = "rb") -> IO[bytes]:
    """Open a regular file and follow no link: what lies elsewhere is not what was written here."""
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is no regular file")
    return os.fdopen(descriptor, mode)


def read_own(path: Path) -> bytes:
    """The content of a small regular file; raises ``OSError`` for a link or a device too."""
    with _opened(path) as file:
        return file.read()


def _last_line(file: IO[bytes], end: int | None = None, *, hashed: bool = False) -> tuple[int, _AnchorLine | None]:
    """Where the whole lines end (by ``end``, else in all), and the last one that can be read, and is ``hashed``.

    However much lies behind it that is none: others shall not stop the anchors by writing something there.
    """
    size = file.seek(0, os.SEEK_END) if end is None else min(end, file.seek(0, os.SEEK_END))
    whole = _behind_last(b"\n", file, size)
    stop = whole
    # What is no anchor is skipped at the speed of the disk, and not line by line.
    while (found := _behind_last(b'"hash"', file, stop)) > 0:
        start = _behind_last(b"\n", file, found)
        file.seek(start)
        line = _parse(raw) if (raw := file.readline(_LINE_BYTES)).endswith(b"\n") else None
        if line is not None and (line.mac or not hashed):
            return whole, line
        stop = start
    return whole, None


def _behind_last(mark: bytes, file: IO[bytes], end: int) -> int:
    """Behind the last ``mark`` before ``end``; 0 where there is none."""
    stop = end
    while stop > 0:
        start = max(0, stop - _STEP_BYTES)
        file.seek(start)
        found = file.read(min(end, stop + len(mark) - 1) - start).rfind(mark)
        if found >= 0:
            return start + found + len(mark)
        stop = start
    return 0


def _digest(file: IO[bytes], size: int) -> str:
    digest = hashlib.sha256()
    file.seek(0)
    while left := size - file.tell():
        digest.update(file.read(min(_CHUNK, left)))
    return digest.hexdigest()


def _parse(raw: bytes) -> _AnchorLine | None:
    # What hbus writes needs no escapes: behind one may stand what no hash can be made of.
    if b"\\" in raw or not raw.isascii():
        return None
    try:
        body = json.loads(raw)
        anchor = Anchor(int(body["seq"]), str(body["hash"]), from_rfc3339(body["at"]))
        mac = str(body.pop("mac", ""))
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
        return None
    return _AnchorLine(anchor, body if mac else {}, mac)
