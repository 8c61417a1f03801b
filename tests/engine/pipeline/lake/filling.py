"""A lake with files of messages in it, by a clock of the test's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pyarrow.parquet as pq

from engine.bus import Message
from engine.bus.message import NO_DATA, encode
from engine.core.clock import ManualClock
from engine.pipeline.lake.lake import Lake
from engine.pipeline.lake.schema import READ
from engine.pipeline.lake.state import Act, Commit, LakeFile, LakeState, TopicCommit
from engine.pipeline.lake.writing import PortionFiles
from engine.pipeline.source.columns import Columns, Rows
from engine.pipeline.source.reached import LogReached


@dataclass
class Filled:
    """Numbers its messages from 0 on."""

    root: Path
    clock: ManualClock = field(default_factory=ManualClock)
    count: int = 0

    def __post_init__(self) -> None:
        self.lake = Lake(self.root, self.clock)

    def add(
        self, keys: Sequence[str], topic: str = "t", log: str = "-", data: Mapping[str, object] | None = None
    ) -> list[LakeFile]:
        """One file of a message for each key, stored now, and committed; ``data`` is the payload of each."""
        now_ms = self.clock.now_ms()
        numbers = range(self.count, self.count + len(keys))
        self.count += len(keys)
        bodies = [
            encode(
                Message(
                    id=f"m{number}",
                    source="/s",
                    type="t",
                    partitionkey=key,
                    data=NO_DATA if data is None else msgspec.Raw(msgspec.json.encode(data)),
                )
            )
            for number, key in zip(numbers, keys, strict=True)
        ]
        at_ms = [now_ms] * len(keys)
        with self.lake.run() as run:
            files = PortionFiles(self.root, topic, log, f"{run}-0")
            files.add(
                Columns(READ).table(Rows(topic, log, [f"{number}-0" for number in numbers], at_ms, bodies)), at_ms
            )
            made = files.close()

            def make(state: LakeState) -> Commit:
                reached = {log: LogReached(f"{self.count}-0", self.count)}
                return self.lake.following(
                    state,
                    Act.ARCHIVE,
                    run,
                    topics={topic: TopicCommit(reached)},
                    added=made,
                )

            self.lake.publish(make)
        return made

    def ids(self, topic: str = "t") -> list[str]:
        """In the order of its files."""
        return [str(row["id"]) for row in self.rows(topic)]

    def rows(self, topic: str = "t") -> list[dict[str, object]]:
        found: list[dict[str, object]] = []
        for path in self.lake.paths(self.lake.state().files_of(topic)):
            found += pq.read_table(path).to_pylist()
        return found

    def of_key(self, key: str, topic: str = "t") -> list[str]:
        """The ids of one key's messages, in the order of files and rows."""
        return [str(row["id"]) for row in self.rows(topic) if row["partitionkey"] == key]
