"""What the process of a query is told, and what it answers; both go as JSON over its pipes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from engine.pipeline.lake.state import Kind

#: Rows of an answer: unless said, and at most.
USUAL_ROWS, MOST_ROWS = 1_000, 10_000
#: Seconds likewise.
USUAL_SECONDS, MOST_SECONDS = 10, 60
#: Of the texts of all its cells together, bytes, and of the text of one, characters.
MOST_BYTES, MOST_CELL = 4_000_000, 4_000
#: How the name of the folder begins that a query has for itself.
FOLDER = "hbus-query-"
#: Characters of a statement, and columns of an answer.
MOST_SQL, MOST_COLUMNS = 20_000, 200


class HidingRules(msgspec.Struct, frozen=True):
    """What is hidden of the payloads of a file; who hides it knows what the fields mean."""

    fields: Sequence[str] = ()
    classification: str = ""
    #: What has no fields to tell apart is hidden as well.
    opaque: bool = False


class QueryFile(msgspec.Struct, frozen=True):
    """One file of the lake."""

    path: str
    kind: Kind
    #: ``None``: it is read as it lies there.
    hides: HidingRules | None = None
    #: All payloads of what was stored before are hidden, epoch milliseconds.
    since_ms: int = 0


class QuerySpec(msgspec.Struct, frozen=True):
    """One statement over these files."""

    sql: str
    files: Sequence[QueryFile] = ()
    rows: int = USUAL_ROWS
    seconds: int = USUAL_SECONDS
    #: Only whether it would be run at all.
    parse_only: bool = False


class QueryColumn(msgspec.Struct, frozen=True):
    name: str
    #: As DuckDB calls it.
    type: str


class QueryAnswer(msgspec.Struct, frozen=True):
    """What came of it; with ``error`` nothing else."""

    columns: Sequence[QueryColumn] = ()
    #: Numbers, truth values, null, and texts of all else.
    rows: Sequence[Sequence[Any]] = ()
    #: There were more rows than these.
    cut: bool = False
    #: A sentence.
    error: str = ""
    #: It was looked at: where it was not, the same may do better the next time.
    begun: bool = True
