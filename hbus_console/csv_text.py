"""Lines of CSV that no spreadsheet runs."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

#: What a spreadsheet takes for the beginning of a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def neutral(cell: str) -> str:
    """A cell that no spreadsheet runs: what looks like a formula gets an apostrophe in front."""
    return f"'{cell}" if cell.startswith(_FORMULA) else cell


def csv_line(values: Iterable[object]) -> str:
    """With its end. Texts are :func:`neutral`."""
    made = io.StringIO()
    csv.writer(made).writerow([neutral(value) if isinstance(value, str) else value for value in values])
    return made.getvalue()
