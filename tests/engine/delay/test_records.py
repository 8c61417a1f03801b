"""What lies in a ledger."""

from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import BadInput
from engine.delay.errors import EntryDamaged
from engine.delay.records import (
    MOST_ENTRY_BYTES,
    MOST_RECORD_BYTES,
    MOST_RECORDS,
    PendingMessage,
    RecordKind,
    dispatched,
    entries_of,
    entry_of,
    packed,
    records_of,
    span_of,
    tombstone,
)

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
MESSAGES = st.builds(
    PendingMessage,
    due_ms=st.integers(0, 1 << 62),
    message_id=TEXTS,
    topic=TEXTS,
    body=st.binary(max_size=200),
    key=TEXTS,
    sequence=st.integers(0, (1 << 63) - 1),
    version=st.integers(0, (1 << 32) - 1),
)
ONE = PendingMessage(1_790_000_000_000, "id-1", "booking.created", b"\x00body", "key-1", 7, 2)


@given(st.lists(MESSAGES, min_size=1, max_size=20))
def test_what_is_packed_is_unpacked(messages: list[PendingMessage]) -> None:
    records = [packed(message) for message in messages]
    entry = entry_of([*records, tombstone(records[0]), dispatched(records[-1])])
    found = records_of(entry)
    assert [record.message() for record in found[:-2]] == messages
    assert found[-2][:4] == (messages[0].due_ms, messages[0].sequence, messages[0].version, RecordKind.TOMBSTONE)
    assert found[-1][:4] == (messages[-1].due_ms, messages[-1].sequence, messages[-1].version, RecordKind.DISPATCHED)


def test_an_entrys_head_tells_spans_and_what_the_ledger_holds_with_it() -> None:
    records = [packed(msgspec.structs.replace(ONE, due_ms=due, sequence=due * 2)) for due in (30, 10, 20)]
    span = span_of(entry_of([*records, tombstone(records[0])], messages_before=100, tombstones_before=5))
    assert (span.records, span.messages, span.tombstones) == (4, 103, 6)
    assert (span.due_from_ms, span.due_to_ms, span.sequence_from, span.sequence_to) == (10, 30, 20, 60)


def test_the_form_is_the_one_that_lies_in_ledgers() -> None:
    """A release that reads others must take the next version."""
    assert entry_of([packed(ONE)]).hex() == (
        "010100000001000000000000000000000000000000006c50c4a0010000006c50c4a00100000700000000000000070000"
        "0000000000714f9e780202000000006c50c4a00100000700000000000000040005000f000500000069642d316b65792d"
        "31626f6f6b696e672e6372656174656400626f6479"
    )


def test_damage_anywhere_is_one_clear_error() -> None:
    entry = entry_of([packed(ONE), tombstone(packed(ONE))])
    rng = random.Random(3)
    for at in range(len(entry)):
        flipped = bytearray(entry)
        flipped[at] ^= 1 << rng.randrange(8)
        # A head may be wrong where nothing behind it tells: in counts and spans.
        if at >= 5 + 4 * 8 + 16 or at == 0:
            with pytest.raises(EntryDamaged):
                records_of(bytes(flipped))
    for cut in range(len(entry)):
        with pytest.raises(EntryDamaged):
            records_of(entry[:cut])
    with pytest.raises(EntryDamaged):
        records_of(entry + b"more")


@given(st.binary(max_size=300))
def test_bytes_of_others_are_one_clear_error(foreign: bytes) -> None:
    with pytest.raises(EntryDamaged, match="cannot be read"):
        records_of(foreign)


def test_an_entry_of_a_newer_release_says_so() -> None:
    with pytest.raises(EntryDamaged, match="of version 2"):
        span_of(b"\x02" + entry_of([packed(ONE)])[1:])


def test_records_are_cut_into_entries_that_a_store_takes() -> None:
    small = [packed(ONE)] * (2 * MOST_RECORDS + 1)
    assert [len(batch) for batch in entries_of(small)] == [MOST_RECORDS, MOST_RECORDS, 1]
    large = [packed(msgspec.structs.replace(ONE, body=b"x" * (MOST_ENTRY_BYTES // 3)))] * 5
    assert [len(batch) for batch in entries_of(large)] == [2, 2, 1]
    huge = [packed(msgspec.structs.replace(ONE, body=b"x" * (2 * MOST_ENTRY_BYTES)))]
    assert [len(batch) for batch in entries_of([*huge, *small[:1]])] == [1, 1]
    assert list(entries_of([])) == []


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"message_id": "x" * 70_000}, "message_id"),
        ({"key": "ä" * 40_000}, "key"),
        ({"topic": "x" * 70_000}, "topic"),
        ({"body": b"x" * MOST_RECORD_BYTES}, "body"),
    ],
)
def test_what_is_too_long_is_refused_at_its_field(change: dict[str, object], field: str) -> None:
    with pytest.raises(BadInput) as raised:
        packed(msgspec.structs.replace(ONE, **change))
    assert raised.value.field == field
