"""Since when a message has waited in a spool to be read; cheap enough to be asked every few seconds."""

from __future__ import annotations

import os
from pathlib import Path

from engine.core.errors import Unavailable
from engine.pipeline.spool.files import SpoolFile, folder, paths_in

#: How often the files are looked for anew, where some go just then.
_TRIES = 5


class OldestWaiting:
    """Of the spool of one topic, which may be in the hands of others. Looks into the one file that the oldest lies in,
    whose heads of frames it remembers. Not thread-safe; whoever makes one closes it."""

    def __init__(self, root: Path, topic: str) -> None:
        self._topic = topic
        self._place = folder(root, topic)
        self._file: SpoolFile | None = None

    def close(self) -> None:
        """Idempotent."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def since_ms(self, life: str, upto: int) -> int:
        """When the first message was appended that lies behind number ``upto`` of that life, epoch milliseconds; of
        another life all do. 0: there is none.

        Raises ``OSError``, :class:`~engine.pipeline.spool.errors.SpoolDamaged`, and :class:`Unavailable` where files go
        faster than they can be read.
        """
        for _ in range(_TRIES):
            try:
                return self._since_ms(life, upto)
            except FileNotFoundError:
                # It was archived, and its time was over.
                continue
        raise Unavailable(
            f"The spool of {self._topic} changes faster than it can be read.", remedy="It is tried again."
        )

    def _since_ms(self, life: str, upto: int) -> int:
        paths = paths_in(self._place)
        if not paths:
            return 0
        first = SpoolFile(paths[0])
        first.close()
        upto = upto if first.beginning.life == life else 0
        # A file is named by its first number, so what lies before the next one's was numbered before that.
        begins = [int(path.stem) for path in paths[1:]]
        for path, following in zip(paths, [*begins, upto + 2], strict=True):
            if following - 1 <= upto:
                continue
            file = self._walked(path)
            if (found := next(file.messages(upto), None)) is not None:
                return found[1]
        return 0

    def _walked(self, path: Path) -> SpoolFile:
        file = self._file
        if file is None or file.path != path or not os.path.samestat(os.stat(path), os.fstat(file.descriptor)):
            self.close()
            file = self._file = SpoolFile(path)
        file.walk()
        return file
