"""The store as one node sees it: with something that may happen before and after each of its calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from engine.delay.ledgers.contract import AppendOutcome, LedgerAbout, LedgerInfo, LedgerStore
from engine.delay.ledgers.memory import ModelEngine, ModelLedgers
from engine.delay.ledgers.metadata import LedgerKind, ShardChange, ShardMetadata
from engine.delay.levels import bucket_at

T = TypeVar("T")

#: Is told of a moment between two steps of a node; ``True``: of one after a call, whose answer may be lost.
Moment = Callable[[bool], None]


class NodeKilled(BaseException):
    """The process is no more. Nobody may catch it but the world."""


class FaultyLedgers:
    """A :class:`~engine.delay.ledgers.contract.LedgerStore` of one node."""

    def __init__(self, model: ModelLedgers, moment: Moment, judge: Callable[[str], None]) -> None:
        self._model = model
        self._moment = moment
        self._judge = judge

    @property
    def shard(self) -> str:
        return self._model.shard

    def _call(self, act: Callable[..., T], *arguments: Any) -> T:
        self._moment(False)
        answer = act(*arguments)
        self._moment(True)
        return answer

    def create(self, abouts: Sequence[LedgerAbout]) -> list[int]:
        return self._call(self._model.create, abouts)

    def append(self, batch: Sequence[tuple[int, bytes]]) -> list[AppendOutcome]:
        self._moment(False)
        outcomes = self._model.append(batch)
        self._look_at_closed([number for (number, _), each in zip(batch, outcomes, strict=True) if each == 0])
        self._moment(True)
        return outcomes

    def _look_at_closed(self, begun: Sequence[int]) -> None:
        """What is closed gets no new ledger to write."""
        metadata = self._model.metadata()
        for number in begun if metadata.marks else ():
            about = self._model.about(number)
            bucket = bucket_at(about.level, about.number)
            written = about.kind is LedgerKind.WRITE and about.epoch == metadata.epoch
            if written and metadata.marks is not None and metadata.marks.closes(bucket):
                self._judge(f"{bucket}, which is closed, was begun to be written again")

    def read(self, ledger: int, first: int = 0) -> list[bytes]:
        return self._call(self._model.read, ledger, first)

    def recover(self, ledgers: Sequence[int]) -> list[LedgerInfo]:
        return self._call(self._model.recover, ledgers)

    def close(self, ledgers: Sequence[int]) -> list[LedgerInfo]:
        return self._call(self._model.close, ledgers)

    def delete(self, ledgers: Sequence[int]) -> None:
        self._call(self._model.delete, ledgers)

    def ledgers(self) -> list[LedgerInfo]:
        return self._call(self._model.ledgers)

    def metadata(self) -> ShardMetadata:
        return self._call(self._model.metadata)

    def claim(self, epoch: int) -> ShardMetadata:
        return self._call(self._model.claim, epoch)

    def commit(self, epoch: int, version: int, change: ShardChange) -> ShardMetadata:
        return self._call(self._model.commit, epoch, version, change)

    def close_store(self) -> None:
        """There is nothing to give back."""


class FaultyEngine:
    """A :class:`~engine.delay.ledgers.contract.LedgerEngine` of one node."""

    def __init__(self, model: ModelEngine, moment: Moment, judge: Callable[[str], None]) -> None:
        self._model = model
        self._moment = moment
        self._judge = judge

    def open(self, shard: str) -> LedgerStore:
        return FaultyLedgers(self._model.open(shard), self._moment, self._judge)
