"""A measured process: a topic filled, archived as ``hbus.archive`` does it, and a span of the lake replayed."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from engine.bus import BusConfig, Lane, PublishesInBulk, open_transport
from engine.core.clock import SystemClock
from engine.pipeline.archive.archiving import Archiver
from engine.pipeline.archive.tasks import in_this_process
from engine.pipeline.lake.lake import Lake
from engine.pipeline.lake.schema import READ
from engine.pipeline.replay.reading import SpanReader
from engine.pipeline.replay.span import ReplaySpan
from engine.pipeline.sink.writing import TaskWriting
from engine.pipeline.source.columns import OF_THE_LOG
from hbus_console.bench.pipeline_lake import files_of
from hbus_console.bench.pipeline_story import START_MS, TOPIC
from hbus_console.bench.processes import report, wait_for_go

_HOUR_MS = 3_600_000
_TAKEN = [name for name in READ if name not in OF_THE_LOG]


def fill(task: dict[str, Any]) -> int:
    """The lake's first messages into the topic, each once."""
    transport = open_transport(config_of(task))
    assert isinstance(transport, PublishesInBulk)
    transport.admin.create_topic(TOPIC)
    lane = Lane("fill", "bench", "0", _HOUR_MS)
    writing = TaskWriting(transport, TOPIC, lane, SystemClock(), in_order=False, skip_malformed=False)
    writing.write(_first_messages(Path(task["root"]), task["count"]))
    transport.close()
    return writing.counts.stored


def archive(task: dict[str, Any]) -> int:
    """In this process, one task after the other."""
    lake = Lake(Path(task["folder"]))
    return Archiver(lake, config_of(task), in_this_process, cores=1).run([TOPIC]).messages[TOPIC]


def replay(task: dict[str, Any]) -> int:
    """Messages of a span, made ready to be published, in the order of storing."""
    with closing(SpanReader(Lake(Path(task["root"])), _span(task))) as reader:
        return sum(1 for _ in reader.rows({}))


def read_back(task: dict[str, Any]) -> int:
    """The peer of Spark's reading: pyarrow, file by file, every column."""
    return sum(pq.read_table(path).num_rows for path in files_of(Path(task["root"]))["messages"])


def config_of(task: dict[str, Any]) -> BusConfig:
    return BusConfig("redis_stream", task["url"], task["prefix"])


def _span(task: dict[str, Any]) -> ReplaySpan:
    """So long that it has about as many messages as are wanted: they are spread evenly."""
    files = Lake(Path(task["root"])).state().files_of(TOPIC)
    last_ms, rows = max(file.last_ms for file in files), sum(file.rows for file in files)
    return ReplaySpan(TOPIC, START_MS, START_MS + 1 + (last_ms - START_MS) * task["count"] // rows)


def _first_messages(root: Path, count: int) -> Iterator[pa.RecordBatch]:
    left = count
    for path in files_of(root)["messages"]:
        for batch in pq.read_table(path, columns=_TAKEN).slice(0, left).to_batches():
            left -= len(batch)
            yield batch
        if not left:
            return


_DOS: dict[str, Callable[[dict[str, Any]], int]] = {
    "fill": fill,
    "archive": archive,
    "replay": replay,
    "read_back": read_back,
}


def main(task: dict[str, Any]) -> None:
    """``task``: do, url, prefix, root of the lake, a folder of one's own; ``count`` of messages where it matters."""
    wait_for_go()
    began = time.perf_counter()
    rows = _DOS[task["do"]](task)
    report(took_s=time.perf_counter() - began, rows=rows)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
