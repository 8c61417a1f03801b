"""The series of a lake equal what one counts message by message, whatever its files are, and no file is read twice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import pytest

from engine.core.resolution import Resolution
from engine.pipeline.audit.tasks import SideTask, in_threads, run_side_task
from engine.pipeline.lake.compaction import compact
from engine.pipeline.lake.erasure import erase
from engine.pipeline.lake.retention import let_go, set_rules
from engine.pipeline.lake.state import date_of
from engine.pipeline.on_spark import on_spark
from engine.pipeline.rollup import days
from engine.pipeline.rollup.rolling import Roller
from engine.pipeline.rollup.series import SeriesCounts
from tests.engine.pipeline.audit.asking import report
from tests.engine.pipeline.audit.telling import TOPIC, Booking, Delivery, Hotel, Told
from tests.engine.pipeline.rollup.counting import Slot, counted

_MEASURED = ("p50_ms", "p99_ms", "longest_ms", "late_p50_ms", "late_p99_ms")


class Keeper:
    """Keeps what is rolled up, as a database would, and notes which files were looked through."""

    def __init__(self, hotel: Hotel) -> None:
        self._hotel = hotel
        self.rows: dict[tuple[str, str], dict[Slot, SeriesCounts]] = {}
        self.digests: dict[tuple[str, str], str] = {}
        self.files: list[str] = []

    def run(self, **options: Any) -> list[str]:
        """Which days were rolled up."""
        made = []
        for day in Roller(self._hotel.lake, execute=self._noting).run(self.digests, **options):
            self.digests[day.topic, day.date] = day.digest
            self.rows[day.topic, day.date] = {
                (row.subscription, row.resolution, row.at): row.counts for row in day.rows
            }
            made.append(day.date)
        return made

    @property
    def series(self) -> dict[Slot, SeriesCounts]:
        """All days of the topic."""
        return {slot: counts for rows in self.rows.values() for slot, counts in rows.items()}

    def _noting(self, tasks: Sequence[SideTask]) -> Iterable[str]:
        self.files += [task.file.path for task in tasks]
        return in_threads()(tasks)


@pytest.fixture
def keeper(hotel: Hotel) -> Keeper:
    return Keeper(hotel)


def exact(counts: SeriesCounts) -> SeriesCounts:
    return msgspec.structs.replace(counts, **dict.fromkeys(_MEASURED))


def assert_same(found: dict[Slot, SeriesCounts], wanted: dict[Slot, SeriesCounts]) -> None:
    assert {slot: exact(counts) for slot, counts in found.items()} == {
        slot: exact(counts) for slot, counts in wanted.items()
    }
    for slot, counts in wanted.items():
        for name in _MEASURED:
            of_it, right = getattr(found[slot], name), getattr(counts, name)
            # What is shorter than a millisecond has no other length.
            assert of_it == (None if right is None else pytest.approx(right, rel=0.011, abs=0.5)), (slot, name)


def test_series_equal_what_one_counts_message_by_message(hotel: Hotel, told: Told, keeper: Keeper) -> None:
    hotel.archive(told)
    keeper.run()
    wanted = counted(told)
    assert_same(keeper.series, wanted)
    # Of everything there is something.
    total = {
        name: sum(getattr(counts, name) for counts in wanted.values()) for name in SeriesCounts.__struct_fields__[:7]
    }
    assert min(total.values()) > 0


def test_who_settles_a_day_later_is_timed_from_its_publishing(hotel: Hotel, keeper: Keeper) -> None:
    hotel.archive(two_days(hotel), rounds=1)
    keeper.run()
    of_day = keeper.series["slow", Resolution.DAY, hotel.start_ms // 1000 + 86_400]
    assert (of_day.settled, of_day.timed) == (1, 1)
    assert of_day.longest_ms == 86_400_000


def two_days(hotel: Hotel) -> Told:
    one = Booking("a", "k", "1", hotel.start_ms + 5_000, "-")
    return Told([one], [one], [Delivery("a", one.source, "slow", "settled", one.stored_ms + 86_400_000)])


def test_a_second_run_makes_nothing_again(hotel: Hotel, told: Told, keeper: Keeper) -> None:
    hotel.archive(told)
    assert len(keeper.run()) == 3
    read = len(keeper.files)
    assert read == len(set(keeper.files)) == len(hotel.lake.state().files)
    assert keeper.run() == []
    assert len(keeper.files) == read


def test_what_came_since_is_read_and_nothing_else(hotel: Hotel, told: Told, keeper: Keeper) -> None:
    told.stored.sort(key=lambda each: each.stored_ms)
    told.deliveries.sort(key=lambda each: each.at_ms)
    half = len(told.stored) // 2
    hotel.archive_messages(told.stored[:half])
    hotel.archive_ledger(told.published[:half], told.deliveries[:half])
    keeper.run()
    hotel.archive_messages(told.stored[half:])
    hotel.archive_ledger(told.published[half:], told.deliveries[half:])
    keeper.run()
    assert sorted(keeper.files) == sorted(hotel.lake.state().files)
    assert_same(keeper.series, counted(told))


def test_an_audit_leaves_nothing_to_read(hotel: Hotel, told: Told, keeper: Keeper) -> None:
    hotel.archive(told)
    report(hotel)
    keeper.run()
    assert keeper.files == []
    assert_same(keeper.series, counted(told))


def test_merged_files_are_counted_once(hotel: Hotel, told: Told, keeper: Keeper) -> None:
    hotel.archive(told, rounds=7)
    keeper.run()
    before = keeper.series
    assert compact(hotel.lake).made > 0
    assert keeper.run() != []
    assert keeper.series == before


def test_what_was_erased_counts_no_more_and_its_day_alone_is_made_again(hotel: Hotel, keeper: Keeper) -> None:
    one = Booking("a", "forget-me", "1", hotel.start_ms + 5_000, "-")
    others = [Booking(f"b{day}", "k", str(day + 1), hotel.start_ms + 86_400_000 * day, "-") for day in range(3)]
    hotel.archive(Told([one, *others], [one, *others], []), rounds=1)
    keeper.run()
    erase(hotel.lake, TOPIC, "forget-me", by="gov", reason="asked for")
    assert keeper.run() == [date_of(hotel.start_ms)]
    assert keeper.series["", Resolution.DAY, hotel.start_ms // 1000].stored == 1


def test_what_retention_took_of_the_lake_stays_as_it_was_rolled_up(hotel: Hotel, told: Told, keeper: Keeper) -> None:
    hotel.archive(told)
    keeper.run()
    before = keeper.series
    set_rules(hotel.lake, TOPIC, lambda rules: msgspec.structs.replace(rules, keep_days=1), by="gov", reason="old")
    assert let_go(hotel.lake)
    assert keeper.run() == []
    assert keeper.series == before


def test_only_resolutions_that_are_wanted_of_a_day_are_made(hotel: Hotel, told: Told, keeper: Keeper) -> None:
    hotel.archive(told)
    keeper.run(resolutions=lambda _: [Resolution.DAY])
    assert_same(keeper.series, {slot: counts for slot, counts in counted(told).items() if slot[1] is Resolution.DAY})


def test_other_topics_are_left_alone(hotel: Hotel, told: Told, keeper: Keeper) -> None:
    hotel.archive(told)
    assert keeper.run(topics=["another"]) == []
    assert keeper.run(topics=[TOPIC]) != []


def test_what_is_made_otherwise_is_made_again(
    hotel: Hotel, told: Told, keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    hotel.archive(told)
    first = keeper.run()
    monkeypatch.setattr(days, "FORM", days.FORM + 1)
    assert keeper.run() == first


def test_between_two_days_it_ends_where_it_is_told_to(hotel: Hotel, told: Told) -> None:
    hotel.archive(told)

    def go_on() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(Roller(hotel.lake, go_on=go_on).run({}))


@pytest.mark.xdist_group("spark")
def test_spark_looks_through_files_as_this_process_does(hotel: Hotel, told: Told, spark: Any) -> None:
    hotel.archive(told, rounds=1)
    made = list(Roller(hotel.lake, execute=on_spark(spark, run_side_task)).run({}))
    found = {(row.subscription, row.resolution, row.at): row.counts for day in made for row in day.rows}
    assert_same(found, counted(told))
