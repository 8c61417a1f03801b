"""The kit that any ledger store, ours or a stranger's, must pass. Needs pytest.

::

    class TestMine(LedgerConformance):
        @pytest.fixture
        def engine(self):
            return MyEngine(...)

``another`` opens the same store a second time, as another process would; give one of its own where that needs more than
the same engine.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from engine.core.errors import HbusError
from engine.delay.errors import LedgerClosed, LedgerFenced, MetadataMoved, NoSuchLedger, StaleEpoch
from engine.delay.ledgers.contract import PAGE_BYTES, AppendOutcome, LedgerAbout, LedgerEngine, LedgerStore
from engine.delay.ledgers.metadata import LedgerKind, LedgerRef, ShardChange, ShardMetadata
from engine.delay.levels import Level, TimeBucket, watermarks_at

HOUR = TimeBucket(Level.L1H, 500_000)
MINUTE = TimeBucket(Level.L0M, 30_000_000)
MARKS = watermarks_at(HOUR.start_ms)
ABOUT = LedgerAbout(3, *HOUR, LedgerKind.RUN, HOUR.start_ms, "L2d/20833#1")
#: Seconds of real time after which a thread that should have ended is given up.
PATIENCE_S = 60.0


def made(store: LedgerStore, entries: int = 0) -> int:
    """A ledger with entries ``0``, ``1``, …"""
    (ledger,) = store.create([ABOUT])
    if entries:
        assert store.append([(ledger, b"%d" % number) for number in range(entries)]) == list(range(entries))
    return ledger


def whole(store: LedgerStore, ledger: int) -> list[bytes]:
    """All of its entries, page by page."""
    found: list[bytes] = []
    while page := store.read(ledger, len(found)):
        found += page
    return found


def refused(outcomes: list[AppendOutcome], *kinds: type[HbusError]) -> bool:
    return all(isinstance(outcome, kinds) for outcome in outcomes)


class LedgerConformance:
    """Every promise of :mod:`engine.delay.ledgers.contract`."""

    @pytest.fixture
    def engine(self) -> LedgerEngine:
        """Where shards are stored, with none there that a test has not made."""
        raise NotImplementedError("a conformance test class gives an engine fixture")

    @pytest.fixture
    def store(self, engine: LedgerEngine) -> Iterator[LedgerStore]:
        opened = engine.open("a shard")
        yield opened
        opened.close_store()

    @pytest.fixture
    def another(self, engine: LedgerEngine) -> Iterator[LedgerStore]:
        opened = engine.open("a shard")
        yield opened
        opened.close_store()

    # Entries -----------------------------------------------------------------------------------------------------

    def test_entries_are_numbered_in_their_order_and_read_from_any(self, store: LedgerStore) -> None:
        ledger = made(store, 3)
        assert store.append([(ledger, b"3"), (ledger, b"4")]) == [3, 4]
        assert whole(store, ledger) == [b"0", b"1", b"2", b"3", b"4"]
        assert store.read(ledger, 3) == [b"3", b"4"]
        assert store.read(ledger, 5) == []

    def test_one_batch_goes_to_many_ledgers_and_each_entry_has_its_own_outcome(self, store: LedgerStore) -> None:
        one, fenced, other = made(store, 1), made(store, 1), made(store)
        store.recover([fenced])
        outcomes = store.append([(one, b"a"), (fenced, b"b"), (other, b"c"), (one, b"d"), (10**6, b"e")])
        assert outcomes[0] == 1
        assert isinstance(outcomes[1], LedgerFenced)
        assert outcomes[2:4] == [0, 2]
        assert isinstance(outcomes[4], NoSuchLedger)
        assert (whole(store, one), whole(store, fenced), whole(store, other)) == ([b"0", b"a", b"d"], [b"0"], [b"c"])

    def test_a_read_answers_a_page_and_at_least_one_entry(self, store: LedgerStore) -> None:
        ledger = made(store)
        sizes = [PAGE_BYTES // 2, PAGE_BYTES // 2, 10, 2 * PAGE_BYTES, 1]
        store.append([(ledger, b"x" * size) for size in sizes])
        assert [len(entry) for entry in store.read(ledger)] == sizes[:2]
        assert [len(entry) for entry in store.read(ledger, 2)] == sizes[2:3]
        assert [len(entry) for entry in store.read(ledger, 3)] == sizes[3:4]
        assert [len(entry) for entry in whole(store, ledger)] == sizes

    def test_what_is_acknowledged_is_there_for_whoever_recovers_it(
        self, store: LedgerStore, another: LedgerStore
    ) -> None:
        ledger = made(store, 4)
        (info,) = another.recover([ledger])
        assert (info.closed, info.last, info.length, info.about) == (True, 3, 4, ABOUT)
        assert whole(another, ledger) == [b"0", b"1", b"2", b"3"]

    def test_shards_are_apart(self, engine: LedgerEngine, store: LedgerStore) -> None:
        ledger = made(store, 2)
        store.claim(7)
        other = engine.open("another shard")
        assert other.ledgers() == []
        assert other.metadata() == ShardMetadata()
        assert other.create([ABOUT])
        assert [info.id for info in store.ledgers()] == [ledger]
        other.close_store()

    # Ends --------------------------------------------------------------------------------------------------------

    def test_after_a_fence_nothing_is_appended(self, store: LedgerStore, another: LedgerStore) -> None:
        ledger = made(store, 2)
        another.recover([ledger])
        assert refused(store.append([(ledger, b"late"), (ledger, b"later")]), LedgerFenced)
        # Who is not its writer need not know by which of the two it was closed.
        assert refused(another.append([(ledger, b"mine")]), LedgerFenced, LedgerClosed)
        assert whole(store, ledger) == [b"0", b"1"]

    def test_after_a_close_nothing_is_appended(self, store: LedgerStore) -> None:
        ledger = made(store, 2)
        (info,) = store.close([ledger])
        assert (info.closed, info.last) == (True, 1)
        assert refused(store.append([(ledger, b"late")]), LedgerClosed)

    def test_the_last_entry_is_the_same_for_everybody(self, store: LedgerStore, another: LedgerStore) -> None:
        empty, full = made(store), made(store, 3)
        first = another.recover([empty, full])
        assert [info.last for info in first] == [-1, 2]
        assert store.recover([empty, full]) == first
        assert store.close([empty, full]) == first

    def test_a_fence_while_a_writer_appends_keeps_what_was_acknowledged(
        self, store: LedgerStore, another: LedgerStore
    ) -> None:
        ledger = made(store)
        acknowledged: list[bytes] = []
        begun = threading.Event()

        def write() -> None:
            number = 0
            while True:
                entry = b"%d" % number
                (outcome,) = store.append([(ledger, entry)])
                if isinstance(outcome, HbusError):
                    assert isinstance(outcome, LedgerFenced)
                    return
                assert outcome == number
                acknowledged.append(entry)
                number += 1
                if number == 5:
                    begun.set()

        writer = threading.Thread(target=write)
        writer.start()
        assert begun.wait(PATIENCE_S)
        (info,) = another.recover([ledger])
        writer.join(PATIENCE_S)
        assert not writer.is_alive()
        kept = whole(another, ledger)
        assert len(kept) == info.last + 1
        assert kept[: len(acknowledged)] == acknowledged

    def test_two_who_recover_at_once_find_the_same(self, store: LedgerStore, another: LedgerStore) -> None:
        ledgers = [made(store, number) for number in range(6)]
        found: dict[str, list[int]] = {}
        together = threading.Barrier(2)

        def recover(name: str, by: LedgerStore) -> None:
            together.wait(PATIENCE_S)
            found[name] = [info.last for info in by.recover(ledgers)]

        threads = [threading.Thread(target=recover, args=each) for each in (("one", store), ("two", another))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert found == {"one": list(range(-1, 5)), "two": list(range(-1, 5))}

    def test_what_is_deleted_is_gone_and_its_number_is_never_used_again(self, store: LedgerStore) -> None:
        kept, gone = made(store, 1), made(store, 2)
        store.delete([gone])
        store.delete([gone, 10**6])
        assert refused(store.append([(gone, b"late")]), NoSuchLedger)
        for ask in (store.read, lambda ledger: store.recover([ledger]), lambda ledger: store.close([ledger])):
            with pytest.raises(NoSuchLedger):
                ask(gone)
        assert whole(store, kept) == [b"0"]
        assert made(store) not in (kept, gone)

    def test_all_of_a_shard_is_listed_with_what_it_says_of_itself(
        self, store: LedgerStore, another: LedgerStore
    ) -> None:
        opened, closed = made(store, 1), made(store, 2)
        store.close([closed])
        found = {info.id: info for info in another.ledgers()}
        assert {number: info.closed for number, info in found.items()} == {opened: False, closed: True}
        assert found[closed].about == ABOUT
        assert (found[closed].last, found[closed].length) == (1, 2)

    # Metadata ----------------------------------------------------------------------------------------------------

    def test_a_change_is_there_whole_for_everybody(self, store: LedgerStore, another: LedgerStore) -> None:
        claimed = store.claim(5)
        assert (claimed.epoch, claimed.marks, claimed.buckets) == (5, None, {})
        refs = (LedgerRef(1, LedgerKind.WRITE), LedgerRef(2, LedgerKind.RUN, True, 10, 3, 4_096))
        after = store.commit(5, claimed.version, ShardChange(MARKS, {HOUR: refs, MINUTE: refs[:1]}))
        assert (after.epoch, after.version, after.marks) == (5, claimed.version + 1, MARKS)
        assert another.metadata() == store.metadata() == after
        assert after.buckets == {HOUR: refs, MINUTE: refs[:1]}

    def test_a_change_leaves_alone_what_it_does_not_name(self, store: LedgerStore) -> None:
        refs = (LedgerRef(1, LedgerKind.WRITE),)
        at = store.claim(1)
        at = store.commit(1, at.version, ShardChange(MARKS, {HOUR: refs, MINUTE: refs}))
        at = store.commit(1, at.version, ShardChange(buckets={MINUTE: ()}))
        assert (at.marks, at.buckets) == (MARKS, {HOUR: refs})
        assert store.metadata() == at

    def test_an_epoch_that_is_over_changes_nothing(self, store: LedgerStore, another: LedgerStore) -> None:
        store.claim(5)
        held = another.claim(6)
        for version in (held.version, held.version - 1):
            with pytest.raises(StaleEpoch):
                store.commit(5, version, ShardChange(MARKS))
        for epoch in (4, 5, 6):
            with pytest.raises(StaleEpoch):
                store.claim(epoch)
        assert store.metadata() == held

    def test_a_change_of_another_version_changes_nothing(self, store: LedgerStore) -> None:
        held = store.claim(5)
        after = store.commit(5, held.version, ShardChange(MARKS))
        for version in (held.version, after.version + 1):
            with pytest.raises(MetadataMoved):
                store.commit(5, version, ShardChange(buckets={HOUR: (LedgerRef(1, LedgerKind.RUN),)}))
        assert store.metadata() == after

    def test_of_two_changes_at_once_one_is_made(self, store: LedgerStore, another: LedgerStore) -> None:
        at = store.claim(5)
        for turn in range(10):
            together = threading.Barrier(2)
            won: list[int] = []

            def change(by: LedgerStore, ledger: int, version: int, together: threading.Barrier, won: list[int]) -> None:
                together.wait(PATIENCE_S)
                try:
                    by.commit(5, version, ShardChange(buckets={HOUR: (LedgerRef(ledger, LedgerKind.RUN),)}))
                except MetadataMoved:
                    return
                won.append(ledger)

            threads = [
                threading.Thread(target=change, args=(by, 2 * turn + side, at.version, together, won))
                for side, by in enumerate((store, another))
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(PATIENCE_S)
            at = store.metadata()
            assert len(won) == 1
            assert [ref.id for ref in at.buckets[HOUR]] == won

    def test_a_claim_and_a_change_at_once_leave_no_change_of_the_old_owner_after_it(
        self, store: LedgerStore, another: LedgerStore
    ) -> None:
        held = store.claim(1)
        seen: list[ShardMetadata] = []

        def change() -> None:
            at = held
            while True:
                try:
                    at = store.commit(1, at.version, ShardChange(MARKS))
                except StaleEpoch:
                    return

        owner = threading.Thread(target=change)
        owner.start()
        seen.append(another.claim(2))
        owner.join(PATIENCE_S)
        assert not owner.is_alive()
        assert another.metadata() == seen[0]
