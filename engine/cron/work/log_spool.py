"""The log of one attempt, in a file: what is written there outlives the worker that is killed.

Worker and child processes append to the same file. Who ships it holds a lock on it, which ends with the process: a
file that can be locked was left behind.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engine.core.file_lock import unlock
from engine.core.redaction import redact_text
from engine.core.secret_values import NO_SECRETS, SecretValues
from engine.core.utf8 import REORDERING
from engine.cron.work.folder_lock import folder_lock

#: A file that is larger is emptied once it was read, in bytes: work may write faster than anybody ships.
LARGEST = 8 * 1024 * 1024
#: A line that is longer is cut, in bytes.
LONGEST_LINE = 8 * 1024
#: What is read at once, in bytes.
PIECE = 16 * 1024
_NAME = re.compile(r"(\d+)-(\d+)\.log")
#: What a terminal would act on, and what has a page show letters where they do not stand. Tabs and line ends stay.
_CONTROL = re.compile(rf"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029{REORDERING}]")


class LogSpool:
    """One file. Any thread may write; one reads."""

    def __init__(self, folder: Path, run: int, attempt: int) -> None:
        """Makes the file, mode 0600, and locks it; raises ``BlockingIOError`` when another process has it."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.run, self.attempt = run, attempt
        self._path = folder / f"{run}-{attempt}.log"
        # Between its making and its lock it would look like one that was left behind.
        with folder_lock(folder):
            self._file = os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(self._file)
                raise
        #: What its run was given and its log is not to show; ``None``: nobody has said yet.
        self.secrets: SecretValues | None = None
        self._at = 0
        #: Whether what comes next is the rest of a line whose beginning was shown.
        self._in_long_line = False
        #: Bytes that were thrown away unread, and are still to be told of.
        self._left_out = 0

    @property
    def at(self) -> int:
        """Up to which byte of the file it was read."""
        return self._at

    def go_on_from(self, at: int) -> None:
        """Read on where another stopped; from the beginning of a file that has been emptied since."""
        self._at = at if at <= os.fstat(self._file).st_size else 0
        self._in_long_line = self._is_within_line(self._at)

    def fileno(self) -> int:
        """For a child process to append to."""
        return self._file

    def write(self, text: str) -> int:
        """Append; a line's end is the writer's affair. How many characters, as of a file."""
        os.write(self._file, text.encode("utf-8", "backslashreplace"))
        return len(text)

    def flush(self) -> None:
        """As of a file: nothing is held back."""

    def read(self, *, last: bool = False) -> str:
        """What is new, about :data:`PIECE` of it at most, as it may be shown; empty when there is nothing.

        Whole lines: one that has not ended waits for its end, unless it is the ``last`` of all. Of one that is longer
        than a piece the beginning is shown, and the rest is passed over.
        """
        while raw := self._whole_lines(last=last):
            left_out, self._left_out = self._left_out, 0
            told = (
                f"… {left_out:,} bytes were left out here: they came faster than they were read\n" if left_out else ""
            )
            text = told + self._shown(raw)
            self._empty_if_large()
            if text:
                return text
        return ""

    def _whole_lines(self, *, last: bool) -> bytes:
        raw = os.pread(self._file, PIECE, self._at)
        whole = raw.rfind(b"\n") + 1
        if len(raw) == PIECE:
            raw = raw[:whole] or raw
        elif not last:
            raw = raw[:whole]
        self._at += len(raw)
        return raw

    def _shown(self, raw: bytes) -> str:
        """Without the rest of a line whose beginning was shown."""
        if self._in_long_line:
            end = raw.find(b"\n") + 1
            if not end:
                return ""
            self._in_long_line, raw = False, raw[end:]
        if len(raw) == PIECE and b"\n" not in raw:
            self._in_long_line = True
            return f"{shown(raw, self.secrets)}\n"
        return shown(raw, self.secrets)

    def close(self) -> None:
        """Give it up as it is; another may ship what is left."""
        unlock(self._file)
        os.close(self._file)

    def remove(self) -> None:
        """Once all of it is shipped."""
        self._path.unlink(missing_ok=True)
        self.close()

    def _empty_if_large(self) -> None:
        size = os.fstat(self._file).st_size
        if size > LARGEST:
            self._left_out += size - self._at
            # The rest of a line without its beginning may be half a secret.
            self._in_long_line = self._is_within_line(size)
            os.ftruncate(self._file, 0)
            self._at = 0

    def _is_within_line(self, at: int) -> bool:
        return at > 0 and os.pread(self._file, 1, at - 1) != b"\n"


def left_behind(folder: Path) -> Iterator[LogSpool]:
    """The files whose workers are gone, each locked by the caller from now on."""
    for path in sorted(folder.glob("*.log")):
        named = _NAME.fullmatch(path.name)
        if named is None:
            continue
        try:
            yield LogSpool(folder, int(named[1]), int(named[2]))
        except BlockingIOError:
            continue


def shown(raw: bytes, secrets: SecretValues | None = None) -> str:
    """Bytes of a log as a person may see them: text without control characters, secrets redacted, long lines cut."""
    text = raw.decode("utf-8", "replace").replace("\r\n", "\n")
    # What is known is whole yet: a pattern may take a part of it.
    text = redact_text((secrets or NO_SECRETS).out_of(text))
    # After the redaction: half a secret looks like none.
    return "\n".join(_cut(_CONTROL.sub(_escaped, line)) for line in text.split("\n"))


def _cut(line: str) -> str:
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}… (cut)"


def _escaped(found: re.Match[Any]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
