"""What a lake has of a topic, as a table of Spark: for programs of whoever has the folder.

Imported by drivers alone; executors read Parquet, and need nothing of hbus.
"""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from engine.core.errors import BadInput
from engine.pipeline.lake.lake import Lake
from engine.pipeline.lake.schema import SCHEMAS
from engine.pipeline.lake.state import Kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def archived(
    spark: SparkSession,
    topic: str,
    lake: str | Path = "",
    *,
    kind: str = Kind.MESSAGES,
    first_day: date | None = None,
    last_day: date | None = None,
) -> DataFrame:
    """All that the lake has of ``topic`` at this moment, of the days of storing (UTC) from one to another, both in it.

    ``lake`` is its folder, ``HBUS_LAKE`` of the environment unless said; every executor reaches it under that name.
    ``kind``: ``messages``, or what the ledger tells of them, ``published`` and ``deliveries``; the columns are those of
    :data:`~engine.pipeline.lake.schema.SCHEMAS`. Payloads are unmasked.

    The table stays as it is while the lake goes on. What was merged, erased or let go of is removed
    :data:`~engine.pipeline.lake.lake.GRACE_S` later at the earliest: an action on the table after that fails, and reads
    no less.

    Raises :class:`BadInput` for a folder that is no lake, a topic it has nothing of and a kind that is none, and
    :class:`~engine.pipeline.lake.errors.LakeDamaged`.
    """
    # pyspark is needed by whoever has a session.
    from pyspark.sql.pandas.types import from_arrow_schema

    wanted = _kind(kind)
    found = _lake(lake)
    state = found.state()
    if topic not in state.topics:
        raise BadInput(
            f"The lake has nothing of the topic {topic}.",
            remedy="`manage.py archive status` tells which topics it has.",
            field="topic",
        )
    days = (first_day.isoformat() if first_day else "", last_day.isoformat() if last_day else "~")
    paths = found.paths(state.files_of(topic, *days, wanted))
    schema = from_arrow_schema(SCHEMAS[wanted])
    if not paths:
        return spark.createDataFrame([], schema)
    # Files are named one by one: no name of theirs is a pattern, and no folder's stands for a column.
    return (
        spark.read.schema(schema)
        .option("recursiveFileLookup", "true")
        .option("ignoreMissingFiles", "false")
        .option("ignoreCorruptFiles", "false")
        .parquet(*map(_literal, paths))
    )


def _kind(kind: str) -> Kind:
    try:
        return Kind(kind)
    except ValueError:
        raise BadInput(f"{kind!r} is no kind of rows.", remedy=f"Choose of {', '.join(Kind)}.", field="kind") from None


def _lake(folder: str | Path) -> Lake:
    named = str(folder or os.environ.get("HBUS_LAKE", ""))
    if named and (found := Lake(Path(named))).is_begun():
        return found
    raise BadInput(
        f"{named} is no lake: nothing was archived into it." if named else "No lake was named.",
        remedy="Name the folder of the archive: HBUS_LAKE where it is set, else the folder lake of the state folder.",
        field="lake",
    )


def _literal(path: str) -> str:
    """Hadoop takes a path for a pattern."""
    return "".join(f"\\{letter}" if letter in "*?[]{}\\" else letter for letter in path)
