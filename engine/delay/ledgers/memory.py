"""The model of a ledger store: what the contract says, in memory. The simulator plays with it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.delay.errors import NoSuchLedger, no_more, not_there
from engine.delay.ledgers.contract import PAGE_BYTES, AppendOutcome, LedgerAbout, LedgerInfo
from engine.delay.ledgers.metadata import ShardChange, ShardMetadata, changed, insist_current, insist_newer


@dataclass(slots=True)
class ModelLedger:
    about: LedgerAbout
    entries: list[bytes] = field(default_factory=list)
    closed: bool = False
    fenced: bool = False


class ModelLedgers:
    """A :class:`~engine.delay.ledgers.contract.LedgerStore`."""

    def __init__(self, shard: str) -> None:
        self._shard = shard
        self._lock = threading.Lock()
        self._ledgers: dict[int, ModelLedger] = {}
        self._made = 0
        self._metadata = ShardMetadata()

    @property
    def shard(self) -> str:
        return self._shard

    def create(self, abouts: Sequence[LedgerAbout]) -> list[int]:
        with self._lock:
            first = self._made + 1
            self._made += len(abouts)
            numbers = list(range(first, first + len(abouts)))
            self._ledgers.update((number, ModelLedger(about)) for number, about in zip(numbers, abouts, strict=True))
            return numbers

    def append(self, batch: Sequence[tuple[int, bytes]]) -> list[AppendOutcome]:
        with self._lock:
            return [self._append(number, entry) for number, entry in batch]

    def _append(self, number: int, entry: bytes) -> AppendOutcome:
        try:
            ledger = self._ledger(number)
        except NoSuchLedger as error:
            return error
        if ledger.closed:
            return no_more(number, fenced=ledger.fenced)
        ledger.entries.append(entry)
        return len(ledger.entries) - 1

    def read(self, ledger: int, first: int = 0) -> list[bytes]:
        with self._lock:
            page: list[bytes] = []
            size = 0
            for entry in self._ledger(ledger).entries[first:]:
                size += len(entry)
                if page and size > PAGE_BYTES:
                    break
                page.append(entry)
            return page

    def recover(self, ledgers: Sequence[int]) -> list[LedgerInfo]:
        return self._ended(ledgers, fence=True)

    def close(self, ledgers: Sequence[int]) -> list[LedgerInfo]:
        return self._ended(ledgers, fence=False)

    def _ended(self, numbers: Sequence[int], *, fence: bool) -> list[LedgerInfo]:
        with self._lock:
            found = [(number, self._ledger(number)) for number in numbers]
            for _, ledger in found:
                ledger.fenced = ledger.fenced or (fence and not ledger.closed)
                ledger.closed = True
            return [_info(number, ledger) for number, ledger in found]

    def delete(self, ledgers: Sequence[int]) -> None:
        with self._lock:
            for number in ledgers:
                self._ledgers.pop(number, None)

    def ledgers(self) -> list[LedgerInfo]:
        with self._lock:
            return [_info(number, ledger) for number, ledger in self._ledgers.items()]

    def about(self, ledger: int) -> LedgerAbout:
        """For the simulator's judge."""
        return self._ledger(ledger).about

    def metadata(self) -> ShardMetadata:
        return self._metadata

    def claim(self, epoch: int) -> ShardMetadata:
        with self._lock:
            held = self._metadata
            insist_newer(held, epoch)
            self._metadata = ShardMetadata(epoch, held.version + 1, held.marks, held.buckets)
            return self._metadata

    def commit(self, epoch: int, version: int, change: ShardChange) -> ShardMetadata:
        with self._lock:
            insist_current(self._metadata, epoch, version)
            self._metadata = changed(self._metadata, change)
            return self._metadata

    def close_store(self) -> None:
        """There is nothing to give back."""

    def _ledger(self, number: int) -> ModelLedger:
        if number not in self._ledgers:
            raise not_there(number)
        return self._ledgers[number]


class ModelEngine:
    """A :class:`~engine.delay.ledgers.contract.LedgerEngine`: shards live as long as it does."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shards: dict[str, ModelLedgers] = {}

    def open(self, shard: str) -> ModelLedgers:
        with self._lock:
            return self._shards.setdefault(shard, ModelLedgers(shard))


def _info(number: int, ledger: ModelLedger) -> LedgerInfo:
    length = sum(map(len, ledger.entries))
    return LedgerInfo(number, ledger.about, ledger.closed, len(ledger.entries) - 1, length)
