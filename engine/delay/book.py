"""The owner's hold on its shard's metadata: every change goes through here, under the shard's epoch."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from engine.core.errors import OutcomeUnknown
from engine.delay.errors import MetadataMoved, ShardLost, StaleEpoch
from engine.delay.ledgers.contract import LedgerStore
from engine.delay.ledgers.metadata import LedgerRef, Refs, ShardChange, ShardMetadata
from engine.delay.levels import TimeBucket, Watermarks

#: Makes a change out of the metadata it is to follow.
MakesChange = Callable[[ShardMetadata], ShardChange]


class ShardBook:
    """What one owner knows of its shard, which nobody else changes while the epoch holds. Not thread-safe.

    An answer that is lost is asked for before the next change: the change was made if the version is one more.
    """

    def __init__(self, store: LedgerStore, metadata: ShardMetadata) -> None:
        self._store = store
        self._known = metadata
        self._unsure = False
        self.epoch = metadata.epoch

    @property
    def shard(self) -> str:
        return self._store.shard

    @property
    def metadata(self) -> ShardMetadata:
        """As of the last change or look."""
        return self._known

    @property
    def marks(self) -> Watermarks:
        assert self._known.marks is not None
        return self._known.marks

    def refs(self, bucket: TimeBucket) -> Refs:
        return self._known.buckets.get(bucket, ())

    def insist_ours(self) -> None:
        """Read the metadata anew. Raises :class:`ShardLost` where another owner has opened the shard since."""
        found = self._store.metadata()
        if found.epoch != self.epoch:
            raise self._lost(found.epoch)
        self._known, self._unsure = found, False

    def commit(self, make: MakesChange) -> None:
        """Make one change, whole. Raises :class:`ShardLost`, and ``Unavailable``: it may have been made then, and what
        :attr:`metadata` says afterwards counts.
        """
        if self._unsure:
            self.insist_ours()
        change = make(self._known)
        version = self._known.version
        try:
            self._known = self._store.commit(self.epoch, version, change)
        except StaleEpoch as error:
            raise self._lost() from error
        except MetadataMoved as error:
            # Under one epoch there is one owner: two of them believe that it is theirs.
            raise self._lost() from error
        except OutcomeUnknown:
            self._unsure = True
            self.insist_ours()
            if self._known.version != version + 1:
                raise

    def attach(self, added: Mapping[TimeBucket, Refs], marks: Watermarks | None = None) -> None:
        """Add ledgers to buckets."""
        self.commit(
            lambda held: ShardChange(
                marks, {bucket: (*held.buckets.get(bucket, ()), *refs) for bucket, refs in added.items()}
            )
        )

    def seal(self, sealed: Mapping[TimeBucket, Mapping[int, LedgerRef]]) -> None:
        """Put what is known of closed ledgers in the place of what was known before."""
        self.commit(
            lambda held: ShardChange(
                buckets={
                    bucket: tuple(refs.get(each.id, each) for each in held.buckets[bucket])
                    for bucket, refs in sealed.items()
                    if bucket in held.buckets
                }
            )
        )

    def replace(self, source: TimeBucket, taken: frozenset[int], added: Mapping[TimeBucket, Refs]) -> None:
        """Take ledgers from a bucket and add what they were copied to, in one: the moment at which a cascade counts.

        What came to the source meanwhile stays in it.
        """

        def change(held: ShardMetadata) -> ShardChange:
            left = tuple(each for each in held.buckets.get(source, ()) if each.id not in taken)
            buckets = {bucket: (*held.buckets.get(bucket, ()), *refs) for bucket, refs in added.items()}
            # A minute is sorted within itself.
            buckets[source] = (*left, *added.get(source, ()))
            return ShardChange(buckets=buckets)

        self.commit(change)

    def _lost(self, epoch: int = 0) -> ShardLost:
        by = f"at epoch {epoch} by now" if epoch else "another's by now"
        return ShardLost(
            f"Shard {self._store.shard} is {by}, and was held here under epoch {self.epoch}.",
            remedy="Nothing is lost: its owner goes on. Look at what kept this node from renewing its lease.",
        )
