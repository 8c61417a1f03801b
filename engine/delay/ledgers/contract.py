"""The contract of a ledger store, which every engine keeps; :mod:`.conformance` checks it.

A *ledger* is a list of entries that one writer appends to (the store that made it, in its process), and that is closed
once. What an engine promises:

- An entry is acknowledged when it survives whatever the store is said to survive (for SQLite: a power cut).
- Entries of one ledger are numbered from 0 without gaps, in the order in which they were given, and none is
  acknowledged unless all before it are.
- ``recover`` *fences*: from then on nothing more can be appended by anybody, and every entry acknowledged before is in
  the ledger. One that was not acknowledged may be. It closes the ledger, so its last entry is the same for everybody
  ever after.
- A reader sees at least what was acknowledged before, through this or any other process, of a closed ledger; of one
  that is open, what its own process was told of. It never sees an entry that is not there after a recovery.
- A shard's metadata is changed by transactions: all of one or nothing, under a check of its version and epoch. Under an
  epoch that is over nothing is changed, whoever asks. A change names some 300 buckets at most, so that one ZooKeeper
  ``multi`` can check the nodes of epoch and version, and set those of the buckets.

A store that cannot be reached raises ``Unavailable``; its subclass ``OutcomeUnknown`` where it may have been done. All
methods are thread-safe. Times are given by the caller: no engine reads a clock for anything that is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from engine.core.errors import HbusError
from engine.delay.ledgers.metadata import LedgerKind, ShardChange, ShardMetadata

#: About as many bytes as a read answers, unless one entry alone is longer.
PAGE_BYTES = 1 << 20


class LedgerAbout(msgspec.Struct, frozen=True, array_like=True):
    """What a ledger says of itself, so that one that no bucket refers to can be told and collected."""

    #: Of the owner that made it.
    epoch: int
    level: int
    #: The bucket's.
    number: int
    kind: LedgerKind
    #: By its maker's clock: UTC, milliseconds since the epoch.
    made_ms: int
    #: The bucket that a run was copied from, and at which attempt: for who looks at what was left behind.
    source: str = ""


class LedgerInfo(msgspec.Struct, frozen=True):
    """A ledger as the store has it. ``last`` and ``length`` of an open one are a lower bound."""

    id: int
    about: LedgerAbout
    closed: bool
    #: The number of its last entry; -1: it has none.
    last: int
    #: Bytes of its entries.
    length: int


#: The number of an entry that is acknowledged; or why it is not: ``LedgerFenced`` or ``OutcomeUnknown`` (it may be in
#: the ledger), ``LedgerClosed``, ``NoSuchLedger`` or ``Unavailable`` (it is not). Of one ledger none is acknowledged
#: behind one that is not.
AppendOutcome = int | HbusError


class LedgerStore(Protocol):
    """The ledgers and the metadata of one shard."""

    @property
    def shard(self) -> str: ...

    def create(self, abouts: Sequence[LedgerAbout]) -> list[int]:
        """New ledgers, open and empty; their numbers are never used again."""
        ...

    def append(self, batch: Sequence[tuple[int, bytes]]) -> list[AppendOutcome]:
        """Append each entry to the ledger named with it: one outcome each. An engine does them side by side.

        Raises ``Unavailable`` or ``OutcomeUnknown`` where that is the outcome of all of them.
        """
        ...

    def read(self, ledger: int, first: int = 0) -> list[bytes]:
        """Entries from number ``first`` on, as many as make :data:`PAGE_BYTES`, at least one; none: there are no more
        as yet. Raises :class:`~engine.delay.errors.NoSuchLedger`.
        """
        ...

    def recover(self, ledgers: Sequence[int]) -> list[LedgerInfo]:
        """Fence and close each, whoever writes it, and tell what it holds. Again is as once.

        Raises :class:`~engine.delay.errors.NoSuchLedger`; others of them may be recovered then.
        """
        ...

    def close(self, ledgers: Sequence[int]) -> list[LedgerInfo]:
        """The same by their own writer, who has nothing under way: the last acknowledged entry is the last."""
        ...

    def delete(self, ledgers: Sequence[int]) -> None:
        """Those that are not there are deleted already."""
        ...

    def ledgers(self) -> list[LedgerInfo]:
        """All of the shard, also those that no bucket refers to."""
        ...

    def metadata(self) -> ShardMetadata:
        """As of the last transaction; empty for a shard that nobody has opened."""
        ...

    def claim(self, epoch: int) -> ShardMetadata:
        """Have the shard be at ``epoch``: the metadata then. Raises :class:`~engine.delay.errors.StaleEpoch` unless it
        is beyond the one there.
        """
        ...

    def commit(self, epoch: int, version: int, change: ShardChange) -> ShardMetadata:
        """Make a change, all of it: the metadata then.

        Raises :class:`~engine.delay.errors.StaleEpoch` unless ``epoch`` is that of the shard, and
        :class:`~engine.delay.errors.MetadataMoved` unless ``version`` is; ``OutcomeUnknown`` where the answer was lost:
        it was done if the version is one more, for nobody else commits under this epoch.
        """
        ...

    def close_store(self) -> None:
        """Give back what it holds open. What is open of ledgers stays so, until somebody recovers it."""
        ...


class LedgerEngine(Protocol):
    """Opens the stores of shards."""

    def open(self, shard: str) -> LedgerStore: ...
