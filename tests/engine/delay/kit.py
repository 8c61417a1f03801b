"""A shard on a model store, and short words for what is done with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from engine.delay.ledgers.contract import LedgerEngine
from engine.delay.ledgers.memory import ModelEngine
from engine.delay.levels import WEEK_MS
from engine.delay.near import TakenMessage
from engine.delay.outcomes import AddOutcome, AddStatus, ShardSettings
from engine.delay.records import PendingMessage
from engine.delay.search import DelayHandle
from engine.delay.shard import DelayShard

#: The beginning of a week, of a day, of an hour and of a minute.
BEGIN = 2_961 * WEEK_MS
SECOND = 1_000


class Bench:
    """One shard, its owners one after the other, and the time."""

    def __init__(self, engine: LedgerEngine | None = None, **settings: Any) -> None:
        self.engine = engine or ModelEngine()
        self.settings = ShardSettings(**settings)
        self.now = BEGIN
        self.epoch = 0
        self.shard = self.take_over()

    def take_over(self, engine: LedgerEngine | None = None) -> DelayShard:
        self.epoch += 1
        self.shard = DelayShard.open(engine or self.engine, "s", self.epoch, self.now, self.settings)
        return self.shard

    def add(self, *distances_ms: int, body: bytes = b"body", key: str = "") -> list[DelayHandle]:
        """One message for each, due so long from now and named ``m`` and its due time."""
        dues = [self.now + distance for distance in distances_ms]
        outcomes = self.try_add([PendingMessage(due, name(due), "topic", body, key) for due in dues])
        assert [outcome.status for outcome in outcomes] == [AddStatus.KEPT] * len(dues)
        return [outcome.handle for outcome in outcomes if outcome.handle is not None]

    def try_add(self, messages: Sequence[PendingMessage]) -> list[AddOutcome]:
        return self.shard.add(messages, self.now)

    def tick(self, most: int = 1_000) -> list[str]:
        """Publish what one tick hands over: the names."""
        handed = self.shard.tick(self.now, most)
        self.shard.dispatched(handed.messages)
        return names(handed.messages)

    def run(self, until_ms: int, step_ms: int = 10 * SECOND) -> list[str]:
        """Tick until so long from now; at each moment as often as there is something to do."""
        end, published = self.now + until_ms, []
        while self.now <= end:
            busy = True
            while busy:
                handed = self.shard.tick(self.now, 1_000)
                self.shard.dispatched(handed.messages)
                published += names(handed.messages)
                busy = handed.busy
            self.now += step_ms
        return published

    def drain(self, give_up: int = 100) -> list[str]:
        """Tick at this moment until nothing more comes."""
        published = []
        for _ in range(give_up):
            handed = self.shard.tick(self.now, 1_000)
            self.shard.dispatched(handed.messages)
            published += names(handed.messages)
            if not handed.busy:
                return published
        raise AssertionError("it never comes to rest")


def name(due_ms: int) -> str:
    return f"m{due_ms - BEGIN}"


def names(taken: Sequence[TakenMessage]) -> list[str]:
    return [each.record.message().message_id for each in taken]


class CountingEngine:
    """Has something happen before or after the n-th call to the store."""

    def __init__(self, engine: LedgerEngine, at: int, happen: Callable[[], None], *, after: bool = False) -> None:
        self._engine = engine
        self._at = at
        self._happen = happen
        self._after = after
        self.calls = 0

    def open(self, shard: str) -> Any:
        return _Counting(self, self._engine.open(shard))

    def stop(self) -> None:
        """Nothing happens any more."""
        self._at = 0

    def begin(self, at: int) -> None:
        """From now on it is the ``at``-th call."""
        self._at = self.calls + at

    def call(self, act: Callable[..., Any], *arguments: Any) -> Any:
        self.calls += 1
        due = self.calls == self._at
        if due and not self._after:
            self._happen()
        answer = act(*arguments)
        if due and self._after:
            self._happen()
        return answer


class _Counting:
    def __init__(self, counter: CountingEngine, store: Any) -> None:
        self._counter = counter
        self._store = store

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        return (lambda *arguments: self._counter.call(found, *arguments)) if callable(found) else found
