"""Where the lines of the roles go: to the terminal with a coloured name before them, to a file as they are."""

from __future__ import annotations

import logging
import os
import sys
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
        self._colour = "NO_COLOR" not in os.environ and ("FORCE_COLOR" in os.environ or self._stream.isatty())

    def say(self, line: str) -> None:
        """One line of the supervisor's own."""
        self.show("hbus", _OWN_TONE, line)

    def show(self, name: str, tone: int, line: str) -> None:
        """One line of the process ``name``; a JSON log line is shown as a sentence."""
        print(f"{self.paint(tone, name.ljust(_WIDTH))} {self._readable(line)}", file=self._stream, flush=True)

    def paint(self, tone: int, text: str) -> str:
        return f"\x1b[{tone}m{text}\x1b[0m" if self._colour else text

    def _readable(self, line: str) -> str:
        if not line.startswith("{"):
            return line
        try:
            event = msgspec.json.decode(line)
        except msgspec.DecodeError:
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
    """``STATE/logs/NAME.log``, turned over by size. Lines are written as the role printed them."""

    def __init__(self, state: Path, name: str) -> None:
        folder = state / "logs"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._handler = RotatingFileHandler(
            folder / f"{name}.log", maxBytes=_MAX_BYTES, backupCount=_OLD_FILES, encoding="utf-8"
        )

    def write(self, line: str) -> None:
        self._handler.emit(logging.makeLogRecord({"msg": line}))

    def close(self) -> None:
        self._handler.close()
