"""Where the lines of the roles go: to the terminal with a coloured name before them, to a file as they are."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Callable
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TextIO

import msgspec

_MAX_BYTES = 10 * 1024 * 1024
_OLD_FILES = 3
_WIDTH = 11
_OWN_TONE = 34
_LEVEL_TONES = {"warning": 33, "error": 31, "critical": 31}
_NOT_FOR_PEOPLE = {"timestamp", "level", "logger", "event", "exception"}


class Console:
    """The supervisor's voice. Not thread-safe: one event loop owns it."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        self._lost = 0
        self._colour = "NO_COLOR" not in os.environ and ("FORCE_COLOR" in os.environ or self._stream.isatty())

    def say(self, line: str) -> None:
        """One line of the supervisor's own."""
        self.show("hbus", _OWN_TONE, line)

    def show(self, name: str, tone: int, line: str) -> None:
        """One line of the process ``name``; a JSON log line is shown as a sentence.

        A terminal that has gone, or a file on a full disk, takes no line: those are counted until one is taken.
        """
        lost = f"Up to {self._lost} lines are missing here.\n" if self._lost else ""
        try:
            print(f"{lost}{self.paint(tone, name.ljust(_WIDTH))} {self._readable(line)}", file=self._stream, flush=True)
        except OSError:
            self._lost += 1
        else:
            self._lost = 0

    def paint(self, tone: int, text: str) -> str:
        return f"\x1b[{tone}m{text}\x1b[0m" if self._colour else text

    def _readable(self, line: str) -> str:
        if not line.startswith("{"):
            return line
        try:
            event = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError):
            return line
        if not isinstance(event, dict) or "event" not in event:
            return line
        level = str(event.get("level", "info"))
        words = [f"{key}={value}" for key, value in event.items() if key not in _NOT_FOR_PEOPLE]
        shown = level.upper().ljust(7) if level != "info" else ""
        head = f"{self.paint(_LEVEL_TONES[level], shown)} " if level in _LEVEL_TONES else shown
        text = " ".join([f"{head}{event['event']}", *words])
        return f"{text}\n{event['exception']}" if event.get("exception") else text


class LogFile:
    """``STATE/logs/NAME.log``, turned over by size. Lines are written as the role printed them.

    A disk that takes no more is told through ``say``, once until it takes a line again; what was printed meanwhile is
    not in the file.
    """

    def __init__(self, state: Path, name: str, say: Callable[[str], object]) -> None:
        folder = state / "logs"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path = folder / f"{name}.log"
        self._say = say
        self._lost = 0
        self._handler = _Raising(self._path, maxBytes=_MAX_BYTES, backupCount=_OLD_FILES, encoding="utf-8", delay=True)

    def write(self, line: str) -> None:
        """Never raises ``OSError``."""
        try:
            self._handler.emit(logging.makeLogRecord({"msg": line}))
        except OSError as error:
            if not self._lost:
                self._say(f"{self._path} cannot be written ({error.strerror or error}). Make room on its disk.")
            self._lost += 1
            # What it still holds of the line would come between later ones.
            self.close()
        else:
            if self._lost:
                self._say(f"{self._path} is written again; {self._lost} lines are not in it.")
            self._lost = 0

    def close(self) -> None:
        """Never raises ``OSError``: the line that was not taken has been told."""
        with contextlib.suppress(OSError):
            self._handler.close()


class _Raising(RotatingFileHandler):
    """Tells its caller what went wrong, where logging would print a traceback for each line."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        raise  # noqa: PLE0704 - logging calls it where the error is handled
