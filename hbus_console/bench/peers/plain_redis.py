"""What somebody writes by hand with redis-py in one process: a stream read, put into Parquet, or appended to."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import redis

from hbus_console.bench.processes import report, wait_for_go

COUNT = 1_000
#: Rows of one file.
_ROWS = 200_000
_COPY = "bench-plain"


class PlainStream:
    """The longest one of the store."""

    def __init__(self, url: str, folder: Path) -> None:
        self.client = redis.Redis.from_url(url)
        self.folder = folder
        streams = list(self.client.scan_iter(_type="stream", count=COUNT))
        self.key = max(streams, key=self.client.xlen)

    def entries(self) -> Iterator[list[tuple[bytes, dict[bytes, bytes]]]]:
        after = b"-"
        while True:
            found: Any = self.client.xrange(self.key, min=after, count=COUNT)
            if not found:
                return
            yield found
            after = b"(" + found[-1][0]

    def read(self) -> int:
        return sum(map(len, self.entries()))

    def archive(self) -> int:
        rows: list[dict[str, Any]] = []
        done = 0
        for found in self.entries():
            for position, fields in found:
                envelope = json.loads(max(fields.values(), key=len))
                envelope["data"] = json.dumps(envelope.get("data"))
                rows.append({"position": position.decode(), **envelope})
            if len(rows) >= _ROWS:
                self._write(rows, done)
                done += len(rows)
                rows = []
        self._write(rows, done)
        return done + len(rows)

    def append(self) -> int:
        """What was read before, in pipelines."""
        done = 0
        for found in self._kept:
            pipeline = self.client.pipeline(transaction=False)
            for _, fields in found:
                pipeline.xadd(_COPY, fields)  # type: ignore[arg-type]
            done += len(pipeline.execute())
        return done

    def make_ready(self, do: str) -> None:
        """What is not measured."""
        self._kept = list(self.entries()) if do == "append" else []

    def clear(self) -> None:
        self.client.delete(_COPY)

    def _write(self, rows: list[dict[str, Any]], number: int) -> None:
        if rows:
            pq.write_table(pa.Table.from_pylist(rows), self.folder / f"{number}.parquet", compression="zstd")


def main(task: dict[str, Any]) -> None:
    """``task``: do, url, a folder."""
    stream = PlainStream(task["url"], Path(task["folder"]))
    stream.make_ready(task["do"])
    do: Callable[[], int] = getattr(stream, task["do"])
    wait_for_go()
    began = time.perf_counter()
    rows = do()
    took_s = time.perf_counter() - began
    stream.clear()
    report(took_s=took_s, rows=rows)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
