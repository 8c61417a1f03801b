"""Samples of what bears no id: each is told by where it lies in its topic, and by what is known of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engine.core.error_text import shortened
from engine.pipeline.audit.findings import Lying, Sample
from engine.pipeline.audit.gathering import Gathered
from engine.pipeline.audit.places import Places
from engine.pipeline.audit.rereading import OF_MALFORMED, rows_at

#: How much is told of why a message is malformed, characters: the name of a member in it may be of any length.
_MOST = 300


def malformed_samples(root: Path, files: Gathered, places: Places) -> Sequence[Sample]:
    """By why each is no envelope. Raises :class:`~engine.pipeline.lake.errors.LakeDamaged`."""
    rows = rows_at(root, files, places, OF_MALFORMED)
    return [
        # It bears no time: it happened when it was stored.
        Sample("", "", "", at, shortened(str(why or ""), _MOST), [Lying(str(log), str(position), at)])
        for (why, log, position), at in zip(rows, places.at.tolist(), strict=True)
    ]
