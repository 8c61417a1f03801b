"""A measured process's lake: written by the engine's own ways into files as the archive has them, commit by commit."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from engine.pipeline.lake.lake import Lake
from engine.pipeline.lake.schema import in_key_order
from engine.pipeline.lake.state import Act, Commit, Kind, LakeFile, LakeState, TopicCommit, date_of
from engine.pipeline.lake.writing import PortionFiles, path_of, write_file
from engine.pipeline.source.reached import LogReached
from hbus_console.bench import pipeline_rows
from hbus_console.bench.pipeline_story import DAY_MS, DAYS, LOGS, TOPIC, Ints, PipelineStory
from hbus_console.bench.processes import report, wait_for_go

#: How many messages are written together: each log's part of them makes one file, about as large as one may be.
AT_ONCE = 360_000
#: So many rows the archive takes from a store at once.
_CHUNK = 10_000
#: How long after the last message of a commit it is made, milliseconds.
_LAG_MS = 30_000


def fill(root: Path, story: PipelineStory) -> None:
    """All of the story, a commit for each day."""
    lake, per_day = Lake(root), -(-story.events // DAYS)
    for low in range(0, story.events, per_day):
        _archive(lake, story, low, min(low + per_day, story.events))


def add(root: Path, story: PipelineStory, low: int, number: int) -> None:
    """One commit more: so many messages from a number on."""
    _archive(Lake(root), story, low, low + number)


def files_of(root: Path) -> dict[str, list[str]]:
    """The files that count, by the kind of their rows: what whatever reads Parquet is given."""
    lake = Lake(root)
    state = lake.state()
    return {str(kind): lake.paths(state.files_of(TOPIC, kind=kind)) for kind in Kind}


def _archive(lake: Lake, story: PipelineStory, low: int, high: int) -> None:
    pieces = [(start, min(start + AT_ONCE, high)) for start in range(low, high, AT_ONCE)]
    with lake.run() as run, ThreadPoolExecutor(2) as pool:
        files = [file for made in pool.map(partial(_written, lake.root, story, run), pieces) for file in made]
    last_ms = int(story.stored_ms(np.array(high - 1)))
    reached = {log: LogReached(f"{last_ms}-0", None, "", last_ms) for log in LOGS}
    booked = {Kind.PUBLISHED: high, Kind.DELIVERIES: 2 * high}

    def make(state: LakeState) -> Commit:
        commit = lake.following(
            state, Act.ARCHIVE, run, topics={TOPIC: TopicCommit(reached, booked=booked)}, added=files
        )
        return msgspec.structs.replace(commit, at_ms=last_ms + _LAG_MS)

    lake.publish(make)


def _written(root: Path, story: PipelineStory, run: str, piece: tuple[int, int]) -> list[LakeFile]:
    low, high = piece
    places, numbers = story.with_copies(low, high)
    made: list[LakeFile] = []
    for number, log in enumerate(LOGS):
        mine = story.key_of(numbers) % len(LOGS) == number
        files = PortionFiles(root, TOPIC, log, f"{run}-{log}-{low}")
        for start in range(0, int(mine.sum()), _CHUNK):
            of_it = places[mine][start : start + _CHUNK], numbers[mine][start : start + _CHUNK]
            files.add(pipeline_rows.messages(story, log, *of_it), story.stored_ms(of_it[0]).tolist())
        made += files.close()
    half = (low + high) // 2
    for start, end in ((low, half), (half, high)):
        told = pipeline_rows.published(story, start, end)
        made += _ledger(root, Kind.PUBLISHED, f"{run}-published-{start}", told, _ms(told["published_at"]))
        made += _ledger(
            root, Kind.DELIVERIES, f"{run}-deliveries-{start}", *pipeline_rows.deliveries(story, start, end)
        )
    return made


def _ledger(root: Path, kind: Kind, name: str, rows: pa.RecordBatch, at: Ints) -> list[LakeFile]:
    """A file for each day."""
    made: list[LakeFile] = []
    for day in np.unique(at // DAY_MS).tolist():
        of_it = at // DAY_MS == day
        table = pa.Table.from_batches([rows.filter(pa.array(of_it))])
        if not len(table):
            continue
        numbers, first_ms = table["row_id"].to_numpy(), int(at[of_it].min())
        made.append(
            write_file(
                root,
                in_key_order(table, kind),
                LakeFile(
                    path=path_of(kind, TOPIC, date_of(first_ms), f"{name}-{len(made)}"),
                    kind=kind,
                    topic=TOPIC,
                    log=kind,
                    date=date_of(first_ms),
                    rows=len(table),
                    bytes=0,
                    weight=0,
                    sha256="",
                    first_ms=first_ms,
                    last_ms=int(at[of_it].max()),
                    first=str(numbers.min()),
                    last=str(numbers.max()),
                ),
            )
        )
    return made


def _ms(instants: pa.Array) -> Ints:
    found: Ints = instants.cast(pa.int64()).to_numpy() // 1000
    return found


def main(task: dict[str, Any]) -> None:
    """``task``: root, events; with ``from`` and ``number`` one commit more instead of all."""
    root, story = Path(task["root"]), PipelineStory(task["events"])
    wait_for_go()
    if "number" in task:
        add(root, story, task["from"], task["number"])
    else:
        fill(root, story)
    files = Lake(root).state().files.values()
    report(files=len(files), bytes=sum(file.bytes for file in files))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
