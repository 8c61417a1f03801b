"""What can go wrong with ledgers and shards, each with what to do about it."""

from __future__ import annotations

from engine.core.errors import Conflict, HbusError, NotThere, StateLost


class LedgerFenced(Conflict):
    """Somebody has fenced the ledger to recover it. Whether the entry is in it, only its recovery tells.

    It says nothing about who owns the shard: a store that repairs itself fences ledgers, too.
    """

    title = "Ledger fenced"


class LedgerClosed(Conflict):
    """The ledger has its last entry already: the new one was certainly not written."""

    title = "Ledger closed"


class NoSuchLedger(NotThere):
    """There is no ledger of that number: it was deleted, or never made."""

    title = "No such ledger"


class StaleEpoch(Conflict):
    """A shard's metadata was to be changed under an epoch that is over; nothing was changed."""

    title = "An earlier owner"


class MetadataMoved(Conflict):
    """A shard's metadata is another version than the change was made from; nothing was changed."""

    title = "Metadata moved on"


class ShardLost(HbusError):
    """Another node owns the shard by now: this one must do nothing more with it."""

    title = "Shard lost"


class EntryDamaged(StateLost):
    """Bytes in a ledger that are no entry of ours, or not the ones that were written."""

    title = "Damaged entry"


def not_there(number: int) -> NoSuchLedger:
    return NoSuchLedger(f"There is no ledger {number}.", remedy="Read the shard's metadata again.")


def no_more(number: int, *, fenced: bool) -> HbusError:
    """Why nothing can be appended to a ledger that is closed."""
    if fenced:
        return LedgerFenced(
            f"Ledger {number} was fenced while it was written.", remedy="Recover it, and go on in a new one."
        )
    return LedgerClosed(f"Ledger {number} is closed.", remedy="Go on in a new one.")
