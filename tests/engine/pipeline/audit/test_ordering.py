"""The order of keys and their missing numbers, against a count row by row, however the rows lie in files."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest

from engine.pipeline.audit import ordering
from engine.pipeline.audit.findings import FindingKind
from engine.pipeline.audit.report import TopicAudit
from engine.pipeline.lake.compaction import compact
from tests.engine.pipeline.audit.asking import audit, of_kind
from tests.engine.pipeline.audit.telling import Booking, Hotel


def disorder(seed: int, start_ms: int, number: int = 600) -> list[Booking]:
    """Numbers and times that go up by and large, of a few keys and two sources, some in two logs."""
    chance = random.Random(seed)
    made = []
    for index in range(number):
        stored_ms = start_ms + index * 9_000
        made.append(
            Booking(
                id=f"m{index}",
                key=f"k{chance.randrange(5)}",
                sequence=str(max(0, index // 10 + chance.choice((0, 0, 1, 2, -3)))) if chance.random() < 0.8 else "",
                stored_ms=stored_ms,
                log=chance.choice(("-", "-", "-", "high")),
                source=chance.choice(("/a", "/b")),
                time_ms=stored_ms - chance.randrange(200_000),
            )
        )
    return made


def expected_late(stored: list[Booking], *, by_time: bool) -> set[str]:
    highest: dict[tuple[str, str, str], int] = {}
    late = set()
    for each in stored:
        if bool(each.sequence) is by_time:
            continue
        place, value = (each.key, each.source, each.log), each.time_ms if by_time else int(each.sequence)
        assert value is not None
        if value < highest.get(place, -1):
            late.add(each.id)
        highest[place] = max(value, highest.get(place, -1))
    return late


def expected_missing(stored: list[Booking]) -> int:
    numbers: dict[tuple[str, str], set[int]] = defaultdict(set)
    for each in stored:
        if each.sequence:
            numbers[each.key, each.source].add(int(each.sequence))
    return sum(max(of_it) - min(of_it) + 1 - len(of_it) for of_it in numbers.values())


def ids(found: TopicAudit, kind: FindingKind) -> set[str]:
    return {sample.id for each in found.findings if each.kind is kind for sample in each.samples}


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("runs_at_once", [ordering.RUNS_AT_ONCE, 50])
def test_each_key_is_as_a_count_row_by_row_has_it(
    hotel: Hotel, seed: int, runs_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ordering, "RUNS_AT_ONCE", runs_at_once)
    stored = disorder(seed, hotel.start_ms)
    for start in range(0, len(stored), 97):
        hotel.archive_messages(stored[start : start + 97])

    found = audit(hotel, samples=1_000)

    late, late_by_time = (expected_late(stored, by_time=by_time) for by_time in (False, True))
    assert late
    assert late_by_time
    assert ids(found, FindingKind.OUT_OF_ORDER) == late
    assert ids(found, FindingKind.OUT_OF_TIME) == late_by_time
    assert of_kind(found, FindingKind.GAP).count == expected_missing(stored) > 0
    compact(hotel.lake)
    assert audit(hotel, samples=1_000).findings == found.findings


@pytest.mark.parametrize("sequence", ["", "-4", "4.5", "0x10", "٣", "1" * 19, "four"])
def test_what_is_no_number_counts_for_nothing(hotel: Hotel, sequence: str) -> None:
    numbers = ["1", "2", sequence, "3", "5"]
    stored = [
        Booking(f"m{index}", "k", number, hotel.start_ms + index * 1_000, "-", time_ms=hotel.start_ms + index * 1_000)
        for index, number in enumerate(numbers)
    ]
    hotel.archive_messages(stored)
    (finding,) = [each for each in audit(hotel).findings if each.kind is not FindingKind.FOREIGN]
    assert (finding.kind, finding.count) == (FindingKind.GAP, 1)
    assert [(sample.id, sample.note) for sample in finding.samples] == [("m4", "before it 4 is missing")]


def test_numbers_may_begin_with_noughts(hotel: Hotel) -> None:
    stored = [
        Booking(f"m{index}", "k", f"{index:08d}", hotel.start_ms + index * 1_000, "-") for index in (7, 8, 9, 10, 11)
    ]
    hotel.archive_messages(stored)
    assert audit(hotel).findings == []
