"""The newest messages of a span, few of them, for whoever tries something on them.

Who reads files needs pyarrow, a hundred megabytes, and a whole file in memory: a process of its own reads them, and
ends.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from engine.core.errors import Unavailable
from engine.core.prepared import prepared
from engine.pipeline.lake.errors import LakeDamaged
from engine.pipeline.lake.state import LakeFile
from engine.pipeline.replay.span import ReplaySpan

#: How long it is waited for, seconds, and how many files are read.
PATIENCE_S, MOST_FILES = 20.0, 8
_READER = "engine.pipeline.replay.newest"


class SampledRow(msgspec.Struct, frozen=True, gc=False):
    """One message; ``envelope`` is ``None`` where it was none."""

    position: str
    at_ms: int
    envelope: bytes | None


class SpanSample(msgspec.Struct, frozen=True, gc=False):
    #: The newest first.
    rows: Sequence[SampledRow]
    #: Whether these are the newest of all: more files than are read may reach into the same time.
    exact: bool = True
    #: What is wrong with a file, and what to do about it; empty: nothing.
    damage: tuple[str, str] = ("", "")


class SampleAsked(msgspec.Struct, frozen=True, gc=False):
    root: str
    span: ReplaySpan
    #: Those that may hold something of it.
    files: Sequence[LakeFile]
    most: int
    most_files: int


def sample(root: Path, span: ReplaySpan, files: Sequence[LakeFile], most: int) -> SpanSample:
    """At most so many. Raises :class:`~engine.pipeline.lake.errors.LakeDamaged`, and ``Unavailable`` where they do not
    come in :data:`PATIENCE_S`."""
    asked = msgspec.msgpack.encode(SampleAsked(str(root), span, files, most, MOST_FILES))
    try:
        done = subprocess.run(
            [sys.executable, "-m", _READER],
            input=asked,
            capture_output=True,
            check=True,
            timeout=PATIENCE_S,
            cwd=Path(__file__).parents[3],
            env={},
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise Unavailable(
            "The files of the archive could not be read in time.", remedy="Choose a shorter span, or try again."
        ) from error
    found = msgspec.msgpack.decode(done.stdout, type=prepared(SpanSample))
    if found.damage[0]:
        raise LakeDamaged(found.damage[0], remedy=found.damage[1])
    return found
