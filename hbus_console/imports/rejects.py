"""The file of rows that could not be imported: one JSON object a line with line number, reason and values."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

import msgspec

from engine.core.errors import BadInput
from hbus_console.imports.rows import ImportRow

#: How each line begins.
_BEGINNING = b'{"line":'


class Rejects:
    """Appends to ``path``, which is made with the first reject.

    ``own`` says that an earlier run of the same import wrote it, ``keep`` what length belongs to rows already accounted
    for: what a killed run wrote beyond it is cut off, for those rows will be read again. Used as a context manager;
    raises ``BadInput`` when the file cannot be written, and when it holds what the import did not write.
    """

    def __init__(self, path: Path, *, own: bool, keep: int) -> None:
        self._path = path
        self._own = own
        self._length = keep
        self._there = False
        self._file: BinaryIO | None = None

    def __enter__(self) -> Rejects:
        try:
            self._there = self._path.exists()
            self._length = self._cut() if self._there else 0
        except OSError as error:
            raise self._unwritable(error) from error
        return self

    def _cut(self) -> int:
        """Cut off what belongs to no row; returns what is left."""
        there = self._path.stat().st_size
        if not there:
            return 0
        with self._path.open("rb") as file:
            alike = file.read(len(_BEGINNING)) == _BEGINNING
        if not self._own or not alike:
            raise BadInput(
                f"{self._path} exists and holds what this import did not write.",
                remedy="Name another file with --rejects, or move that one away.",
                field="rejects",
            )
        length = min(self._length, there)
        os.truncate(self._path, length)
        return length

    def add(self, row: ImportRow, reason: str) -> None:
        """Note one row."""
        values = {name: _readable(value) for name, value in row.values.items()}
        line = msgspec.json.encode({"line": row.line, "row": row.number, "reason": reason, "values": values}) + b"\n"
        try:
            if self._file is None:
                # Not over what has come there meanwhile.
                self._file = self._path.open("ab" if self._there else "xb")
            self._file.write(line)
        except FileExistsError as error:
            raise BadInput(
                f"{self._path} was made by somebody else while this import ran.",
                remedy="Another import of the same file may be under way. Let it end, or name another file.",
                field="rejects",
            ) from error
        except OSError as error:
            raise self._unwritable(error) from error
        self._length += len(line)

    def flush(self) -> int:
        """Bring what was added to the disk; returns the file's length in bytes."""
        if self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())
        return self._length

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._file is not None:
            self._file.close()

    def _unwritable(self, error: OSError) -> BadInput:
        return BadInput(
            f"The rejects file {self._path} cannot be written: {error.strerror}.",
            remedy="Name another with --rejects.",
            field="rejects",
        )


def _readable(value: object) -> object:
    """Bytes that are not UTF-8 were read as lone surrogates, which no JSON may hold."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
