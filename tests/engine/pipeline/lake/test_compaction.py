"""Many small files become few: nothing is lost or doubled, no key's order changes, and no row is written often."""

from __future__ import annotations

import threading
from collections import Counter

import msgspec
import pyarrow.parquet as pq
import pytest

from engine.pipeline.lake.compaction import FAN, OVER_MS, compact, due, tier_of
from engine.pipeline.lake.errors import LakeDamaged
from engine.pipeline.lake.lake import GRACE_S
from engine.pipeline.lake.schema import SCHEMA
from engine.pipeline.lake.state import Act, Kind, LakeFile
from engine.pipeline.lake.writing import BYTES, ROWS
from tests.engine.pipeline.lake.filling import Filled

TODAY = "2026-11-28"


def said(name: str, rows: int, *, date: str = TODAY, log: str = "-", topic: str = "t", weight: int = 1) -> LakeFile:
    return LakeFile(name, Kind.MESSAGES, topic, log, date, rows, rows, weight, "", 0, 0, "", "")


def names(merges: list[list[LakeFile]]) -> list[str]:
    return ["".join(file.path for file in merge) for merge in merges]


def test_eight_of_a_size_become_one_and_seven_do_not() -> None:
    files = [said(name, 10) for name in "abcdefgh"]
    assert names(due(files, TODAY)) == ["abcdefgh"]
    assert due(files[1:], TODAY) == []


def test_files_of_other_logs_topics_kinds_and_days_are_no_neighbours() -> None:
    files = [said(name, 10) for name in "abcdefg"]
    others = [
        said("x", 10, log="p1"),
        said("x", 10, topic="u"),
        said("x", 10, date="2026-11-29"),
        msgspec.structs.replace(said("x", 10), kind=Kind.PUBLISHED),
    ]
    for other in others:
        assert due([*files, other], TODAY) == []


def test_a_large_one_is_left_alone_and_parts_its_neighbours() -> None:
    files = [*(said(name, 10) for name in "abcd"), said("L", ROWS * 3 // 4), *(said(name, 10) for name in "efgh")]
    assert due(files, TODAY) == []
    by_weight = msgspec.structs.replace(said("L", 10), weight=BYTES * 3 // 4)
    assert due([*files[:4], by_weight, *files[5:]], TODAY) == []


def test_small_ones_are_not_put_to_a_large_one_again_and_again() -> None:
    files = [said("L", ROWS // 4), *(said(name, 10) for name in "abcdefgh")]
    assert names(due(files, TODAY)) == ["abcdefgh"]


def test_what_does_not_fit_into_one_file_becomes_several() -> None:
    files = [said(name, ROWS * 2 // 5) for name in "abcdefgh"]
    assert names(due(files, TODAY)) == ["ab", "cd", "ef", "gh"]


def test_of_a_day_that_is_over_all_that_fit_become_one() -> None:
    files = [said("a", 1), said("b", ROWS // 3), said("c", 7), said("L", ROWS)]
    assert names(due(files, "2026-11-29")) == ["abc"]
    assert due(files, TODAY) == []


def test_a_row_is_written_seldom_and_files_stay_few() -> None:
    files: list[LakeFile] = []
    written, most = 0, 0
    # As a topic of 20 messages a minute is archived in two days.
    for minute in range(2_880):
        files.append(said(str(minute), 20))
        while merges := due(files, TODAY):
            for merge in merges:
                place = files.index(merge[0])
                rows = sum(file.rows for file in merge)
                written += rows
                files[place : place + len(merge)] = [said(f"m{minute}-{place}", rows)]
        most = max(most, len(files))
    assert sum(file.rows for file in files) == 57_600
    assert written < 5 * 57_600
    assert most <= FAN * 5
    assert tier_of(said("x", 0)) == 0


def test_it_is_all_there_and_each_key_in_its_order(filled: Filled) -> None:
    keys = ["a", "b", "", "c"]
    for _ in range(FAN):
        filled.add(keys)
    before = {key: filled.of_key(key) for key in keys if key}

    outcome = compact(filled.lake)

    assert (outcome.merged, outcome.made) == (FAN, 1)
    (file,) = filled.lake.state().files_of("t")
    assert (file.rows, file.first, file.last) == (FAN * 4, "0-0", f"{FAN * 4 - 1}-0")
    assert Counter(filled.ids()) == Counter(f"m{number}" for number in range(FAN * 4))
    assert {key: filled.of_key(key) for key in before} == before
    assert [row["id"] for row in filled.rows() if row["partitionkey"] is None] == [
        f"m{number}" for number in range(2, FAN * 4, 4)
    ]
    table = pq.read_table(filled.lake.paths([file])[0])
    assert table.schema == SCHEMA
    hashes = [value for value in table["key_hash"].to_pylist() if value is not None]
    assert hashes == sorted(hashes)
    assert list(filled.lake.verify()) == []


def test_the_order_of_files_stays_the_order_of_storing(filled: Filled) -> None:
    for _ in range(FAN):
        filled.add(["a"] * 3)
    compact(filled.lake)
    filled.add(["a"] * 2)
    assert filled.of_key("a") == [f"m{number}" for number in range(FAN * 3 + 2)]


def test_a_day_that_is_over_is_one_file_and_stays_as_it_is(filled: Filled) -> None:
    filled.add(["a", "b"])
    filled.add(["a"])
    assert compact(filled.lake).made == 0
    filled.clock.advance(86_400 + OVER_MS / 1000)

    assert compact(filled.lake).made == 1
    assert compact(filled.lake).made == 0
    assert filled.of_key("a") == ["m0", "m2"]


def test_how_far_a_topic_is_archived_stays_and_so_does_when(filled: Filled) -> None:
    for _ in range(FAN):
        filled.add(["a"])
    before = filled.lake.state()
    filled.clock.advance(60)
    compact(filled.lake)
    assert filled.lake.state().topics == before.topics
    assert list(filled.lake.commits())[-1].act is Act.COMPACTION


def test_who_reads_the_former_files_has_them_for_a_while(filled: Filled) -> None:
    former = [file for _ in range(FAN) for file in filled.add(["a"])]
    compact(filled.lake)

    assert filled.lake.sweep() == []
    filled.clock.advance(GRACE_S + 1)
    assert sorted(filled.lake.sweep()) == sorted(filled.root / file.path for file in former)
    assert filled.of_key("a") == [f"m{number}" for number in range(FAN)]


@pytest.mark.parametrize("harm", ["changed", "gone"])
def test_a_file_that_is_not_as_it_was_committed_is_not_made_good(filled: Filled, harm: str) -> None:
    files = [file for _ in range(FAN) for file in filled.add(["a"])]
    other = pq.read_table(filled.root / files[1].path)
    if harm == "changed":
        pq.write_table(other, filled.root / files[3].path)
    else:
        (filled.root / files[3].path).unlink()
    before = filled.lake.state()

    with pytest.raises(LakeDamaged, match=files[3].path):
        compact(filled.lake)

    assert filled.lake.state() == before
    assert [flaw.what for flaw in filled.lake.verify()] == [files[3].path]


def test_two_at_once_merge_each_file_once(filled: Filled) -> None:
    for _ in range(FAN * 4):
        filled.add(["a", "b"])
    threads = [threading.Thread(target=compact, args=(filled.lake,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counter(filled.ids()) == Counter(f"m{number}" for number in range(FAN * 8))
    assert due(filled.lake.state().files.values(), TODAY) == []
    assert list(filled.lake.verify()) == []


def test_it_ends_between_two_merges_where_it_is_told_to(filled: Filled) -> None:
    for topic in ("t", "u"):
        for _ in range(FAN):
            filled.add(["a"], topic)
    calls: list[int] = []

    def go_on() -> None:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compact(filled.lake, go_on)
    assert [len(filled.lake.state().files_of(topic)) for topic in ("t", "u")] == [1, FAN]
