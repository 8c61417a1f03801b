"""A few rows of the lake's files, read again for what the sides do not have: ids, to be told and to be sure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from engine.core.error_text import words_of
from engine.pipeline.audit.gathering import Gathered
from engine.pipeline.audit.places import Places
from engine.pipeline.lake.errors import LakeDamaged

#: Where each kind of file has the id and the key of a message.
OF_MESSAGES, OF_PUBLISHED, OF_DELIVERIES = (
    ("id", "source", "partitionkey"),
    ("message_id", "source", "key"),
    ("message_id", "source"),
)
#: What is no envelope has neither: why it is none, and where it lies.
OF_MALFORMED = ("malformed", "log", "position")


def rows_at(root: Path, files: Gathered, places: Places, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """What these rows have in these columns. Raises :class:`~engine.pipeline.lake.errors.LakeDamaged`."""
    found: list[tuple[Any, ...]] = [()] * len(places)
    for number in np.unique(places.file).tolist():
        which = np.flatnonzero(places.file == number)
        table = _read(root / files.sides[number].file.path, places.row[which].astype(np.int64), columns)
        for index, row in zip(which.tolist(), zip(*table.to_pydict().values(), strict=True), strict=True):
            found[index] = row
    return found


def _read(path: Path, rows: NDArray[np.int64], columns: Sequence[str]) -> pa.Table:
    """Of the groups that hold them alone, in the order of ``rows``."""
    try:
        with pq.ParquetFile(path) as file:
            sizes = [file.metadata.row_group(number).num_rows for number in range(file.metadata.num_row_groups)]
            starts = np.concatenate([[0], np.cumsum(sizes)])
            groups = np.unique(np.searchsorted(starts, rows, side="right") - 1)
            table = file.read_row_groups(groups.tolist(), columns=list(columns)).select(list(columns))
            before = np.concatenate([[0], np.cumsum(np.array(sizes)[groups])])
    except (OSError, pa.ArrowException) as error:
        raise LakeDamaged(
            f"{path.name} cannot be read again: {words_of(error)}.",
            remedy="`manage.py archive verify` tells which files are damaged.",
        ) from error
    place = np.searchsorted(starts, rows, side="right") - 1
    return table.take(pa.array(before[np.searchsorted(groups, place)] + rows - starts[place]))
