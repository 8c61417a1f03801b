"""Which of the bus's files one has to open to follow a message: those in which something runs on its way."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import engine.bus

BUS = Path(engine.bus.__file__).parent
#: What lies behind a contract, or belongs to the kit: one reads the contract instead.
BEHIND = ("transports/", "conformance/")


class Trail:
    """The files of :mod:`engine.bus` in which a function was called while it was followed, in any thread."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self._following = threading.Event()

    def begin(self) -> None:
        self._following.set()

    def end(self) -> None:
        self._following.clear()

    def note(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call" or not self._following.is_set():
            return
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(BUS) and not (name := path.relative_to(BUS).as_posix()).startswith(BEHIND):
            self.files.add(name)


@contextmanager
def trail() -> Iterator[Trail]:
    """Follow this thread and those that begin inside, between the trail's ``begin`` and ``end``."""
    made = Trail()
    threading.setprofile(made.note)
    sys.setprofile(made.note)
    try:
        yield made
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
