"""The writer's rule: what is fenced or unknown is recovered, and goes on elsewhere as long as the epoch holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from engine.core.errors import OutcomeUnknown, Unavailable
from engine.delay.errors import EntryDamaged, ShardLost
from engine.delay.ledgers.contract import AppendOutcome
from engine.delay.ledgers.memory import ModelEngine, ModelLedgers
from engine.delay.ledgers.metadata import LedgerKind
from engine.delay.levels import DAY_MS, MINUTE_MS
from engine.delay.outcomes import AddStatus, CancelStatus
from engine.delay.records import PendingMessage, records_of
from engine.delay.writing import read_from
from tests.engine.delay.kit import BEGIN, SECOND, Bench, name

Append = Callable[[Sequence[tuple[int, bytes]]], list[AppendOutcome]]


@pytest.fixture
def bench() -> Bench:
    return Bench(ModelEngine())


def model(bench: Bench) -> ModelLedgers:
    engine = bench.engine
    assert isinstance(engine, ModelEngine)
    return engine.open("s")


def fence_all(bench: Bench) -> None:
    """As a store does that repairs itself."""
    store = model(bench)
    store.recover([info.id for info in store.ledgers() if not info.closed])


def append_by(monkeypatch: pytest.MonkeyPatch, make: Callable[[ModelLedgers, Append], Append]) -> None:
    whole = ModelLedgers.append

    def append(self: ModelLedgers, batch: Sequence[tuple[int, bytes]]) -> list[AppendOutcome]:
        return make(self, lambda each: whole(self, each))(batch)

    monkeypatch.setattr(ModelLedgers, "append", append)


def kept(bench: Bench) -> list[str]:
    """All messages in all ledgers to write."""
    store = model(bench)
    found = []
    for info in store.ledgers():
        if info.about.kind is LedgerKind.WRITE:
            found += [each.message().message_id for entry in read_from(store, info.id) for each in records_of(entry)]
    return sorted(found)


@pytest.mark.parametrize("distance", [30 * SECOND, 20 * MINUTE_MS, 9 * DAY_MS])
def test_a_fence_under_a_writer_that_is_owner_is_no_ones_loss(bench: Bench, distance: int) -> None:
    bench.add(distance)
    fence_all(bench)
    bench.add(distance + 1)
    fence_all(bench)
    (handle,) = bench.add(distance + 2)
    assert bench.shard.cancel([handle], bench.now) == [CancelStatus.CANCELLED]
    assert len(model(bench).ledgers()) == 3
    bench.now += distance + SECOND
    assert bench.drain() == [name(BEGIN + distance), name(BEGIN + distance + 1)]


def test_what_a_fence_let_through_is_not_written_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three entries, of which the fence comes after the first: its recovery tells which are there."""

    def make(store: ModelLedgers, append: Append) -> Append:
        def halfway(batch: Sequence[tuple[int, bytes]]) -> list[AppendOutcome]:
            if len(batch) == 3:
                append(batch[:1])
                store.recover([batch[0][0]])
                return append([*batch[1:], batch[1]])
            return append(batch)

        return halfway

    append_by(monkeypatch, make)
    body = b"x" * 600_000
    messages = [PendingMessage(bench.now + DAY_MS * 9, f"m{number}", "topic", body) for number in range(3)]
    assert [outcome.status for outcome in bench.try_add(messages)] == [AddStatus.KEPT] * 3
    assert kept(bench) == ["m0", "m1", "m2"]


@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("distance", [30 * SECOND, 20 * MINUTE_MS])
def test_a_lost_answer_is_looked_up(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, written: bool, distance: int
) -> None:
    lost = [True]

    def make(store: ModelLedgers, append: Append) -> Append:
        def losing(batch: Sequence[tuple[int, bytes]]) -> list[AppendOutcome]:
            if not lost.pop():
                return append(batch)
            if written:
                append(batch)
            raise OutcomeUnknown("the answer was lost")

        return lambda batch: losing(batch) if lost else append(batch)

    append_by(monkeypatch, make)
    bench.add(distance)
    assert kept(bench) == [name(BEGIN + distance)]
    bench.now += distance + SECOND
    assert bench.drain() == [name(BEGIN + distance)]


@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("distance", [30 * SECOND, 20 * MINUTE_MS])
def test_while_the_store_is_away_nobody_knows_and_afterwards_it_shows(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, written: bool, distance: int
) -> None:
    bench.add(distance)

    def make(store: ModelLedgers, append: Append) -> Append:
        def losing(batch: Sequence[tuple[int, bytes]]) -> list[AppendOutcome]:
            if written:
                append(batch)
            raise OutcomeUnknown("the answer was lost")

        return losing

    def away(self: ModelLedgers, ledgers: Sequence[int]) -> Any:
        raise Unavailable("the store is away")

    with monkeypatch.context() as patch:
        append_by(patch, make)
        patch.setattr(ModelLedgers, "recover", away)
        (outcome,) = bench.try_add([PendingMessage(BEGIN + distance + 1, "doubted", "topic", b"")])
        assert outcome.status is AddStatus.UNKNOWN
        assert isinstance(outcome.error, OutcomeUnknown)
        assert outcome.handle is not None
        with pytest.raises(Unavailable):
            bench.tick()
    bench.now += distance + SECOND
    assert bench.drain() == [name(BEGIN + distance), *(["doubted"] if written else [])]
    answer = bench.shard.cancel([outcome.handle], bench.now)
    assert answer == [CancelStatus.DISPATCHED if written else CancelStatus.UNKNOWN]


def test_what_is_settled_is_kept_while_the_store_goes_away_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two ledgers in doubt: of the one the store tells, and not of the other."""

    def make(store: ModelLedgers, append: Append) -> Append:
        def losing(batch: Sequence[tuple[int, bytes]]) -> list[AppendOutcome]:
            append(batch)
            raise OutcomeUnknown("the answer was lost")

        return losing

    answers = 0
    whole = ModelLedgers.recover

    def recover(self: ModelLedgers, ledgers: Sequence[int]) -> Any:
        if answers <= 0:
            raise Unavailable("the store is away")
        return whole(self, ledgers)

    def counted(self: ModelLedgers, ledgers: Sequence[int]) -> Any:
        nonlocal answers
        found = recover(self, ledgers)
        answers -= 1
        return found

    monkeypatch.setattr(ModelLedgers, "recover", counted)
    with monkeypatch.context() as patch:
        append_by(patch, make)
        messages = [PendingMessage(BEGIN + each, f"m{each}", "topic", b"") for each in (SECOND, 61 * SECOND)]
        assert [outcome.status for outcome in bench.try_add(messages)] == [AddStatus.UNKNOWN] * 2
    answers = 1
    with pytest.raises(Unavailable):
        bench.tick()
    answers = 1
    bench.now += 62 * SECOND
    assert bench.drain() == [f"m{SECOND}", f"m{61 * SECOND}"]


def test_what_was_certainly_not_written_is_said_to_have_failed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(self: ModelLedgers, batch: object) -> Any:
        raise Unavailable("the store is away")

    with monkeypatch.context() as patch:
        patch.setattr(ModelLedgers, "append", away)
        (outcome,) = bench.try_add([PendingMessage(BEGIN + SECOND, "m", "topic", b"")])
        assert (outcome.status, outcome.handle) == (AddStatus.FAILED, None)
    bench.add(2 * SECOND)
    assert len(model(bench).ledgers()) == 1
    bench.now += 5 * SECOND
    assert bench.drain() == [name(BEGIN + 2 * SECOND)]


def test_a_store_that_fences_whatever_is_written_is_given_up(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def make(store: ModelLedgers, append: Append) -> Append:
        def fencing(batch: Sequence[tuple[int, bytes]]) -> list[AppendOutcome]:
            store.recover([ledger for ledger, _ in batch])
            return append(batch)

        return fencing

    with monkeypatch.context() as patch:
        append_by(patch, make)
        (outcome,) = bench.try_add([PendingMessage(BEGIN + SECOND, "m", "topic", b"")])
        assert outcome.status is AddStatus.FAILED
    bench.now += 2 * SECOND
    assert bench.drain() == []


def test_an_old_epoch_never_writes_again_whatever_it_is_answered(bench: Bench) -> None:
    bench.add(9 * DAY_MS)
    old = bench.shard
    bench.take_over()
    before = kept(bench)
    for _ in range(2):
        with pytest.raises(ShardLost):
            old.add([PendingMessage(BEGIN + 9 * DAY_MS, "zombie", "topic", b"")], bench.now)
        with pytest.raises(ShardLost):
            old.add([PendingMessage(BEGIN + 20 * DAY_MS, "zombie", "topic", b"")], bench.now)
    assert kept(bench) == before


def test_a_ledger_that_is_long_enough_gets_no_more() -> None:
    bench = Bench(ModelEngine(), roll_bytes=500)
    for number in range(16):
        bench.add(9 * DAY_MS + number)
    store = model(bench)
    closed = [info for info in store.ledgers() if info.closed]
    assert len(closed) > 2
    assert all(500 <= info.length < 800 for info in closed)
    assert bench.shard.look().pending == 16


def test_damage_in_a_ledger_is_said_and_nothing_is_passed_over(bench: Bench) -> None:
    bench.add(20 * MINUTE_MS)
    (info,) = model(bench).ledgers()
    entries = model(bench)._ledger(info.id).entries
    entries[0] = entries[0][:-1] + b"?"
    bench.now += 20 * MINUTE_MS
    for _ in range(2):
        with pytest.raises(EntryDamaged, match="checksum"):
            bench.tick()
