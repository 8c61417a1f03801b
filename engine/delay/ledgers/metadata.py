"""What is known of a shard beside its ledgers: which bucket has which of them, and how far its levels are closed."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from engine.delay.errors import MetadataMoved, StaleEpoch
from engine.delay.levels import TimeBucket, Watermarks


class LedgerKind(StrEnum):
    #: Records in the order in which they came.
    WRITE = "write"
    #: Records by due time, tombstones first: written whole by a cascade.
    RUN = "run"
    #: Which of a minute's messages were handed over.
    DISPATCH = "dispatch"


class LedgerRef(msgspec.Struct, frozen=True, array_like=True):
    """A ledger of a bucket. The counts are those of a sealed one; of an open one nobody but its writer knows them."""

    id: int
    kind: LedgerKind
    sealed: bool = False
    messages: int = 0
    tombstones: int = 0
    #: Bytes of its entries.
    length: int = 0


#: The ledgers of a bucket, in the order in which they came.
Refs = tuple[LedgerRef, ...]


class ShardMetadata(msgspec.Struct, frozen=True):
    """All of a shard at one moment. ``version`` grows with each change, ``epoch`` with each owner."""

    epoch: int = 0
    version: int = 0
    #: ``None`` before its first owner has set them.
    marks: Watermarks | None = None
    buckets: Mapping[TimeBucket, Refs] = {}


class ShardChange(msgspec.Struct, frozen=True):
    """What a transaction makes different, all of it or nothing."""

    marks: Watermarks | None = None
    #: A bucket's ledgers from now on; none: there is no such bucket any more.
    buckets: Mapping[TimeBucket, Refs] = {}


def insist_current(metadata: ShardMetadata, epoch: int, version: int) -> None:
    """Raise :class:`StaleEpoch` or :class:`MetadataMoved` for a change that was not made from ``metadata``."""
    if metadata.epoch != epoch:
        raise StaleEpoch(
            f"The shard is at epoch {metadata.epoch}; a change came under epoch {epoch}.",
            remedy="Let its present owner do it.",
        )
    if metadata.version != version:
        raise MetadataMoved(
            f"The shard's metadata is at version {metadata.version}; a change was made from version {version}.",
            remedy="Read it again.",
        )


def insist_newer(metadata: ShardMetadata, epoch: int) -> None:
    """Raise :class:`StaleEpoch` unless ``epoch`` is beyond that of every owner so far."""
    if epoch <= metadata.epoch:
        raise StaleEpoch(
            f"The shard is at epoch {metadata.epoch}, and was to be opened under {epoch}.",
            remedy="Acquire its lease anew: each opening has an epoch of its own.",
        )


def changed(metadata: ShardMetadata, change: ShardChange) -> ShardMetadata:
    """``metadata`` after ``change``."""
    buckets = {**metadata.buckets, **change.buckets}
    kept = {bucket: refs for bucket, refs in buckets.items() if refs}
    return ShardMetadata(metadata.epoch, metadata.version + 1, change.marks or metadata.marks, kept)
