"""What work costs, in units that a busy machine does not change: counted, never timed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from django.db import connections

#: SQLite calls back after so many instructions of its virtual machine; what is counted is exact to that.
GRAIN = 50


class Cost:
    """How much was counted; filled once the block has ended."""

    def __init__(self) -> None:
        self.units = 0

    def at_most(self, limit: int, what: object = "") -> None:
        """Fail when more was counted."""
        assert self.units <= limit, f"{self.units:,} of {limit:,} {what}"


@contextmanager
def database_work(alias: str) -> Iterator[Cost]:
    """How many instructions of its virtual machine SQLite takes: an index finds a page in some hundreds, a scan costs
    as many as there are rows, several times.

    PostgreSQL is not judged, and costs nothing here: it plans by statistics that it gathers when it likes.
    """
    connection = connections[alias]
    cost = Cost()
    if connection.vendor != "sqlite":
        yield cost
        return
    connection.ensure_connection()

    def count() -> int:
        cost.units += GRAIN
        return 0

    connection.connection.set_progress_handler(count, GRAIN)
    try:
        yield cost
    finally:
        connection.connection.set_progress_handler(None, 0)


@contextmanager
def calls() -> Iterator[Cost]:
    """How many functions, in Python or in C, this thread calls."""
    cost = Cost()

    def count(frame: FrameType, event: str, argument: Any) -> None:
        if event in ("call", "c_call"):
            cost.units += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield cost
    finally:
        sys.setprofile(before)
