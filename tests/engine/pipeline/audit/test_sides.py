"""Each file is read once for all audits; what was kept of it is never the truth."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from engine.pipeline.audit import sides
from engine.pipeline.audit.auditing import Auditor
from engine.pipeline.audit.sides import SIDES, path_of_side
from engine.pipeline.audit.tasks import SideTask, in_threads, run_side_task
from engine.pipeline.lake.compaction import compact
from engine.pipeline.lake.errors import LakeDamaged
from engine.pipeline.lake.lake import GRACE_S
from engine.pipeline.on_spark import on_spark
from tests.engine.pipeline.audit.asking import counts, known, plain, report
from tests.engine.pipeline.audit.planting import Planter
from tests.engine.pipeline.audit.telling import TOPIC, Hotel, Told


class Counting:
    """Runs tasks here, and notes which."""

    def __init__(self) -> None:
        self.files: list[str] = []

    def __call__(self, tasks: Sequence[SideTask]) -> Iterable[str]:
        self.files += [task.file.path for task in tasks]
        return in_threads()(tasks)


def faulty(told: Told) -> Told:
    planter = Planter(told)
    planter.not_archived(6)
    planter.stored_again(20)
    planter.stored_again(5, data={"booking": "another"})
    planter.swapped(10)
    planter.never_published(5)
    planter.no_envelope(3)
    planter.not_delivered(10, "billing")
    return told


def sides_of(hotel: Hotel) -> set[Path]:
    return set((hotel.root / SIDES).rglob("*.side"))


def test_a_second_audit_reads_no_file_again_and_says_the_same(hotel: Hotel, told: Told) -> None:
    hotel.archive(faulty(told))
    files = len(hotel.lake.state().files)
    first, second = report(hotel), report(hotel)
    assert (first.files, first.computed) == (files, files)
    assert (second.files, second.computed) == (files, 0)
    assert plain(first) == plain(second)


def test_only_what_came_since_is_read_and_the_report_is_that_of_all(hotel: Hotel, told: Told) -> None:
    faulty(told)
    half = len(told.stored) // 2
    hotel.archive_messages(told.stored[:half])
    hotel.archive_ledger(told.published[:half], told.deliveries[: 2 * half])
    report(hotel)
    before = set(hotel.lake.state().files)
    hotel.archive_messages(told.stored[half:])
    hotel.archive_ledger(told.published[half:], told.deliveries[2 * half :])

    counting = Counting()
    incremental = Auditor(hotel.lake, execute=counting).run([TOPIC], known=known(hotel))

    new = set(hotel.lake.state().files) - before
    assert sorted(counting.files) == sorted(new)
    assert incremental.computed == len(new)
    for path in sides_of(hotel):
        path.unlink()
    assert plain(report(hotel)) == plain(incremental)


def test_compaction_changes_nothing_of_the_report(hotel: Hotel, told: Told) -> None:
    hotel.archive(faulty(told), rounds=7)
    before = report(hotel)
    assert compact(hotel.lake).made > 0
    after = report(hotel)
    assert after.computed > 0
    assert after.files < before.files
    assert plain(after) == plain(before)
    assert counts(after.topics[0]) == counts(before.topics[0])


def test_sides_of_files_that_count_no_more_are_swept_with_them(hotel: Hotel, told: Told) -> None:
    hotel.archive(told, rounds=7)
    report(hotel)
    compact(hotel.lake)
    hotel.clock.advance(GRACE_S + 1)
    hotel.lake.sweep()
    report(hotel)
    state = hotel.lake.state()
    assert sides_of(hotel) == {path_of_side(hotel.root, file) for file in state.files.values()}


def test_an_audit_during_which_files_are_merged_and_another_sweeps_ends_as_it_would(hotel: Hotel, told: Told) -> None:
    hotel.archive(told, rounds=7)

    def execute(tasks: Sequence[SideTask]) -> Iterable[str]:
        yield from in_threads()(tasks)
        compact(hotel.lake)
        report(hotel)

    found = Auditor(hotel.lake, execute).run([TOPIC], known=known(hotel))
    assert found.computed > 1
    assert plain(found) == plain(report(hotel))


def test_what_a_killed_task_left_is_swept_and_what_one_is_writing_is_not(hotel: Hotel, told: Told) -> None:
    hotel.archive(told, rounds=1)
    report(hotel)
    folder = next(iter(sides_of(hotel))).parent
    left, written = folder / ".a.side.0badcafe.tmp", folder / ".b.side.0badcafe.tmp"
    now_s = hotel.clock.now_ms() / 1000
    for path, changed_s in ((left, now_s - GRACE_S - 1), (written, now_s - 1)):
        path.write_bytes(b"half a side")
        os.utime(path, (changed_s, changed_s))
    report(hotel)
    assert (left.exists(), written.exists()) == (False, True)


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    "harm",
    [
        Path.unlink,
        flip,
        lambda path: path.write_bytes(path.read_bytes()[:-800]),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"no side"),
        lambda path: path.write_bytes(b"\xff" * 80),
        # As after a power cut.
        lambda path: path.write_bytes(bytes(path.stat().st_size)),
    ],
    ids=["missing", "a bit", "cut off", "empty", "another file", "noise", "zeros"],
)
def test_a_side_that_is_missing_or_damaged_is_computed_again(
    hotel: Hotel, told: Told, harm: Callable[[Path], Any]
) -> None:
    hotel.archive(told)
    before = report(hotel)
    harm(sorted(sides_of(hotel))[1])
    after = report(hotel)
    assert after.computed == 1
    assert plain(after) == plain(before)


def test_no_side_waits_for_the_disk(hotel: Hotel, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    hotel.archive(told)
    waited: list[int] = []
    monkeypatch.setattr(os, "fsync", waited.append)
    assert report(hotel).computed > 2
    # What is known of the commits, as file and name: the one thing beside sides that was written.
    assert len(waited) == 2


def test_sides_of_another_form_are_all_computed_again(
    hotel: Hotel, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    hotel.archive(told)
    files = report(hotel).files
    monkeypatch.setattr(sides, "FORM", sides.FORM + 1)
    assert report(hotel).computed == files


def test_a_file_of_the_lake_that_is_not_as_it_was_committed_ends_the_audit(hotel: Hotel, told: Told) -> None:
    hotel.archive(told)
    path = hotel.root / next(iter(hotel.lake.state().files))
    pq.write_table(pq.read_table(path).slice(1), path)
    with pytest.raises(LakeDamaged):
        report(hotel)


def test_between_two_steps_it_ends_where_it_is_told_to(hotel: Hotel, told: Told) -> None:
    hotel.archive(told)

    def go_on() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Auditor(hotel.lake, go_on=go_on).run([TOPIC])


@pytest.mark.xdist_group("spark")
def test_spark_computes_sides_as_this_process_does(hotel: Hotel, told: Told, spark: Any) -> None:
    hotel.archive(faulty(told), rounds=1)
    here = report(hotel)
    for path in sides_of(hotel):
        path.unlink()
    there = Auditor(hotel.lake, execute=on_spark(spark, run_side_task)).run([TOPIC], known=known(hotel))
    assert there.computed == there.files
    assert plain(there) == plain(here)
