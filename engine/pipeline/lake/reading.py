"""A file of the lake, read by who writes another in its place: what is not as it was committed is not made so."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from engine.pipeline.lake.errors import LakeDamaged
from engine.pipeline.lake.schema import SCHEMAS
from engine.pipeline.lake.state import LakeFile

_CODED = pa.dictionary(pa.int32(), pa.string())


def read_checked(
    root: Path, file: LakeFile, columns: Sequence[str] | None = None, *, coded: Sequence[str] = ()
) -> pa.Table:
    """All its rows, of all columns unless some are named; of those ``coded`` each text once, as the file has them.
    Raises :class:`LakeDamaged` where it is gone or has another hash than was committed."""
    try:
        content = (root / file.path).read_bytes()
    except OSError as error:
        raise _damaged(file, f"cannot be read: {error.strerror or error}") from error
    if hashlib.sha256(content).hexdigest() != file.sha256:
        raise _damaged(file, "has other content than was committed")
    schema = SCHEMAS[file.kind]
    for name in coded:
        schema = schema.set(schema.get_field_index(name), pa.field(name, _CODED))
    return pq.read_table(
        pa.BufferReader(content),
        schema=schema,
        columns=columns and list(columns),
        read_dictionary=list(coded),
    )


def _damaged(file: LakeFile, how: str) -> LakeDamaged:
    return LakeDamaged(
        f"{file.path} {how}.", remedy="Restore it from a copy; `manage.py archive verify` tells which others need it."
    )
