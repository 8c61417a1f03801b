"""A process that appends is killed at any moment, and its last write torn: what it said is on disk is there, once."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

from engine.pipeline.spool.files import paths_in
from engine.pipeline.spool.frames import Spooled, read_beginning, written
from engine.pipeline.spool.reading import LOG, SpoolReader
from hbus_console.state import ROOT
from tests.engine.pipeline.spool.appending import numbered

TOPIC = "booking.created"
KILLS = 8


def run_and_kill(root: Path, first: int, lines: int) -> int:
    """Returns the highest number that it told of."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.engine.pipeline.spool.appending", str(root), TOPIC, str(first)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for _ in range(lines):
        assert process.stdout.readline(), "it ended by itself"
    process.kill()
    told = process.stdout.read().split()
    process.wait()
    process.stdout.close()
    # It went on until it was dead.
    return int(told[-1]) if told else first


def tear(path: Path, rng: random.Random) -> None:
    """As a power cut leaves what was being written: some of it, or its length and nothing in it."""
    beginning = read_beginning(path.read_bytes())
    assert beginning is not None
    frame = written(beginning.token, 10**9, 1 << 50, [Spooled("torn", b"x" * 500)])
    kept = rng.randrange(len(frame))
    with path.open("ab") as file:
        file.write(frame[:kept] + rng.choice([b"", b"\0" * (len(frame) - kept)]))


def test_what_was_said_to_be_on_disk_is_there_once(tmp_path: Path) -> None:
    rng, told = random.Random(7), 0
    for _ in range(KILLS):
        told = run_and_kill(tmp_path, told + 1, rng.randrange(1, 40))
        tear(paths_in(tmp_path / TOPIC)[-1], rng)
        # The next one begins behind what was told: all that was in doubt comes again.
        found = read_all(tmp_path)
        assert len(found) >= told
        assert found == [numbered(number).body for number in range(1, len(found) + 1)]
    assert len(paths_in(tmp_path / TOPIC)) > 3
    assert os.listdir(tmp_path) == [TOPIC]


def read_all(root: Path) -> list[bytes]:
    reader = SpoolReader(root)
    (extent,) = reader.extents(TOPIC)
    found = list(reader.stretch(TOPIC, LOG, "", upto=extent.last, limit=10**9).bodies)
    reader.close()
    assert (extent.added, extent.held) == (len(found), len(found))
    return found
