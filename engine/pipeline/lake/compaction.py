"""Compaction: the many small files of one log and day become few, and no row is written often for it.

Files are of tiers, each eight times as large as the one below. Eight of one tier that lie side by side, with the
smaller ones among them, become one of a higher tier: so a row is rewritten at most once for each tier, however often a
quiet topic is archived. Of a day that is over all that fit into one file become one. (The size-tiered compaction of
log-structured stores, over neighbours alone: what a log stored first stays first.)
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import floor, log

import msgspec
import pyarrow as pa

from engine.pipeline.lake.errors import Superseded
from engine.pipeline.lake.lake import Lake
from engine.pipeline.lake.reading import read_checked
from engine.pipeline.lake.schema import sorted_by_key
from engine.pipeline.lake.state import Act, Commit, Kind, LakeFile, LakeState, date_of
from engine.pipeline.lake.writing import BYTES, ROWS, path_of, write_file

#: How many of one tier become one, and how much larger a tier is than the one below.
FAN = 8
_TIERS = 7
#: A day is over so long after its end: by then what was stored on it is archived, milliseconds.
OVER_MS = 3_600_000


@dataclass(slots=True)
class Compacted:
    """What came of it."""

    #: Files that were merged, and those they became.
    merged: int = 0
    made: int = 0


def compact(lake: Lake, go_on: Callable[[], None] = lambda: None) -> Compacted:
    """Merge what is due, each merge a commit of its own; ``go_on`` is called before each, and may raise to end it.

    Safe beside archiving, retention, erasure, readers and other compactions. Raises ``OSError``, and
    :class:`~engine.pipeline.lake.errors.LakeDamaged` for a file that is not as it was committed.
    """
    outcome = Compacted()
    with lake.run() as run:
        # A merge may make the next one due.
        while merges := due(lake.state().files.values(), date_of(lake.clock.now_ms() - OVER_MS)):
            for files in merges:
                go_on()
                try:
                    _merge(lake, run, files)
                except Superseded:
                    # Somebody else merged, erased or let go of them: what is due is looked for again.
                    break
                outcome.merged += len(files)
                outcome.made += 1
    return outcome


def due(files: Iterable[LakeFile], today: str) -> list[list[LakeFile]]:
    """Which files, side by side in their log, are to become one each. Days before ``today`` are over. Pure."""
    by_log: dict[tuple[str, str, str], list[LakeFile]] = {}
    for file in files:
        by_log.setdefault((file.kind, file.topic, file.log), []).append(file)
    return [
        merge
        for of_log in by_log.values()
        for date, of_day in groupby(of_log, lambda file: file.date)
        for merge in _due_of_day(list(of_day), over=date < today)
    ]


def _due_of_day(files: Sequence[LakeFile], *, over: bool) -> list[list[LakeFile]]:
    for tier in [_TIERS] if over else range(_TIERS + 1):
        found = [merge for run in _runs(files, tier) if _is_due(run, tier, over=over) for merge in _fitting(run)]
        if found:
            return found
    return []


def _runs(files: Sequence[LakeFile], tier: int) -> Iterator[list[LakeFile]]:
    """Those of up to that tier that lie side by side, and are less than half full."""
    for small, run in groupby(files, lambda file: size(file) <= 0.5 and tier_of(file) <= tier):
        if small:
            yield list(run)


def _is_due(run: Sequence[LakeFile], tier: int, *, over: bool) -> bool:
    return len(run) > 1 if over else sum(tier_of(file) == tier for file in run) >= FAN


def _fitting(run: Sequence[LakeFile]) -> list[list[LakeFile]]:
    """Cut so that each part fits into one file; a part of one stays as it is."""
    parts: list[list[LakeFile]] = [[]]
    filled = 0.0
    for file in run:
        if filled + size(file) > 1.0:
            parts.append([])
            filled = 0.0
        parts[-1].append(file)
        filled += size(file)
    return [part for part in parts if len(part) > 1]


def size(file: LakeFile) -> float:
    """What part of a full file it is."""
    return max(file.rows / ROWS, file.weight / BYTES)


def tier_of(file: LakeFile) -> int:
    """0 for the smallest."""
    return max(0, floor(_TIERS + log(size(file), FAN))) if size(file) > 0 else 0


def _merge(lake: Lake, run: str, files: Sequence[LakeFile]) -> None:
    first, (begin, end) = files[0], _ends(files)
    table = pa.concat_tables([read_checked(lake.root, file) for file in files])
    made = write_file(
        lake.root,
        sorted_by_key(table),
        msgspec.structs.replace(
            first,
            path=path_of(first.kind, first.topic, first.date, f"{run}-{secrets.token_hex(4)}"),
            rows=table.num_rows,
            first_ms=min(file.first_ms for file in files),
            last_ms=max(file.last_ms for file in files),
            first=begin,
            last=end,
        ),
    )

    def make(state: LakeState) -> Commit:
        if any(file.path not in state.files for file in files):
            raise Superseded("These files were replaced meanwhile.", remedy="Nothing is to be done.")
        return lake.following(
            state,
            Act.COMPACTION,
            run,
            added=[made],
            removed=[file.path for file in files],
        )

    lake.publish(make)


def _ends(files: Sequence[LakeFile]) -> tuple[str, str]:
    """Positions of messages follow each other as their files do; rows of the ledger go by their numbers."""
    if files[0].kind is Kind.MESSAGES:
        return files[0].first, files[-1].last
    return str(min(int(file.first) for file in files)), str(max(int(file.last) for file in files))
