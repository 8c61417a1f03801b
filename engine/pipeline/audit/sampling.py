"""Samples of what its id alone does not name: each is told by where it lies in its topic, too."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.core.error_text import shortened
from engine.pipeline.audit.findings import Lying, Sample
from engine.pipeline.audit.gathering import Gathered
from engine.pipeline.audit.places import Places, addresses, at_addresses
from engine.pipeline.audit.rereading import OF_MALFORMED, OF_MESSAGES, rows_at
from engine.pipeline.lake.state import Kind, KnownLoss
from engine.pipeline.source.planning import Loss, Why

#: How much is told of why a message is malformed, characters: the name of a member in it may be of any length.
_MOST = 300
_OF_PLACE = ("log", "position", "stored_at")
_HOW = {
    Why.TRIMMED: "let go of before they were archived",
    Why.EMPTIED: "as the store was emptied, or all was made anew",
}


def malformed_samples(root: Path, files: Gathered, places: Places) -> Sequence[Sample]:
    """By why each is no envelope. Raises :class:`~engine.pipeline.lake.errors.LakeDamaged`."""
    rows = rows_at(root, files, places, OF_MALFORMED)
    return [
        # It bears no time: it happened when it was stored.
        Sample("", "", "", at, shortened(str(why or ""), _MOST), [Lying(str(log), str(position), at)])
        for (why, log, position), at in zip(rows, places.at.tolist(), strict=True)
    ]


def copy_samples(root: Path, files: Gathered, copies: Places, owners: NDArray[np.int64], most: int) -> Sequence[Sample]:
    """Of the earliest messages that were stored again: where the first one lies, as ``owners`` have its address, and
    where this one does.

    Raises :class:`~engine.pipeline.lake.errors.LakeDamaged`.
    """
    some = copies.first(most)
    order = np.argsort(place := addresses(copies.file, copies.row))
    firsts = owners[order[np.searchsorted(place[order], addresses(some.file, some.row))]]
    rows = rows_at(root, files, some, (*OF_MESSAGES, *_OF_PLACE))
    first = rows_at(root, files, at_addresses(some, firsts), _OF_PLACE)
    return [
        Sample(str(id_), str(source or ""), str(key or ""), at, places=[_lying(*before), _lying(*lies)])
        for (id_, source, key, *lies), before, at in zip(rows, first, some.at.tolist(), strict=True)
    ]


def _lying(log: str, position: str, stored: datetime) -> Lying:
    return Lying(log, position, round(stored.timestamp() * 1000))


def loss_samples(losses: Sequence[KnownLoss]) -> Sequence[Sample]:
    """By what the commit knows that found each: of what is lost nothing can be read any more."""
    return [
        Sample("", "", "", each.at_ms, _lost(each.loss), [Lying(each.loss.log, each.loss.after, 0)]) for each in losses
    ]


def _lost(loss: Loss) -> str:
    one, several = ("row", "rows") if loss.log in (Kind.PUBLISHED, Kind.DELIVERIES) else ("message", "messages")
    if loss.messages is None:
        many = f"nobody knows how many {several}"
    else:
        many = f"{loss.messages:,} {one if loss.messages == 1 else several}"
    said = f"{many}, {_HOW[loss.why]}"
    return f"{said}; {loss.before} is there again" if loss.before else said
