"""Fills the spool of one topic on NSQ until it is ended; to archive, it puts into a lake what is in it as well.

Told on its standard input, for an address may hold a password: a JSON object with url, prefix, options, topic, lake,
name and archives. Prints a line after each round.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from engine.bus import BusConfig, GroupLost, open_transport
from engine.core.errors import Unavailable
from engine.pipeline.archive import rounds
from engine.pipeline.archive.archiving import Archiver
from engine.pipeline.archive.tasks import in_this_process
from engine.pipeline.lake.compaction import compact
from engine.pipeline.lake.errors import Superseded
from engine.pipeline.lake.lake import Lake
from engine.pipeline.source.opening import SPOOL
from engine.pipeline.spool import spooling
from engine.pipeline.spool import writer as writing
from engine.pipeline.spool.files import spools_beside
from engine.pipeline.spool.frames import Spooled
from engine.pipeline.spool.leaving import let_go
from engine.pipeline.spool.reading import LOG
from engine.pipeline.spool.spooling import Spooler
from engine.pipeline.spool.writer import SpoolWriter

#: So small that a run has several rounds, and a kill falls into each part of one, and into making another file.
TASK = 300
FILE_BYTES = 30_000
LEASE_MS = 1_000
#: How long archived files stay: for longer than anything comes again here.
KEPT_MS = 15_000
#: What a slow disk takes before a write and after it, seconds: a kill falls between disk and nsqd either way.
SLOW_S = 0.03


class SlowWriter(SpoolWriter):
    """As on a slow disk."""

    def append(self, messages: Sequence[Spooled]) -> int:
        time.sleep(SLOW_S)
        new = super().append(messages)
        time.sleep(SLOW_S)
        return new


def main() -> None:
    told = json.loads(sys.stdin.readline())
    logging.disable()
    rounds.TASK, writing.FILE_BYTES = TASK, FILE_BYTES
    vars(spooling).update(SpoolWriter=SlowWriter)
    topic, lake = told["topic"], Lake(Path(told["lake"]))
    root = spools_beside(lake.root)
    transport = open_transport(BusConfig("nsq", told["url"], told["prefix"], told["options"]))
    spooler = Spooler(transport, topic, root, consumer=told["name"], lease_ms=LEASE_MS)
    archiver = Archiver(lake, BusConfig(SPOOL, str(root)), in_this_process, cores=1, depth=2)
    while True:
        try:
            spooler.turn(0.5)
        except (Unavailable, GroupLost) as error:
            print(f"not spooled {type(error).__name__}", flush=True)
        if told["archives"]:
            archive(archiver, topic, root)
        print("round", flush=True)
        time.sleep(0.05)


def archive(archiver: Archiver, topic: str, root: Path) -> None:
    if not root.is_dir():
        return
    try:
        archiver.run([topic])
        compact(archiver.lake)
        archiver.lake.sweep()
    except (Unavailable, Superseded) as error:
        print(f"not archived {type(error).__name__}", flush=True)
    reached = archiver.lake.state().reached(topic).get(LOG)
    if reached is not None and reached.at:
        # Whoever reads it is this process. What was not finished is known again for as long as its file is there.
        before_ms = archiver.lake.clock.now_ms() - KEPT_MS
        let_go(root, topic, life=reached.life, upto=int(reached.at), before_ms=before_ms)


if __name__ == "__main__":
    main()
