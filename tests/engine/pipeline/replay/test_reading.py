"""A span comes back in the order of storing, whole, from wherever one came to, whatever the lake made of its files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import islice

import msgspec
import pytest

from engine.bus import Message, encode
from engine.pipeline.lake.compaction import compact
from engine.pipeline.lake.erasure import erase
from engine.pipeline.lake.errors import LakeDamaged
from engine.pipeline.lake.schema import READ
from engine.pipeline.lake.state import Act, Commit, LakeState
from engine.pipeline.lake.writing import PortionFiles
from engine.pipeline.replay import spool
from engine.pipeline.replay.reading import SpanReader
from engine.pipeline.replay.span import ReplaySpan
from engine.pipeline.replay.spool import ReplayRow
from engine.pipeline.source.columns import Columns, Rows
from tests.engine.pipeline.lake.filling import Filled

FOREVER = 9_000_000_000_000
ALL = ReplaySpan("t", 0, FOREVER)
KEYS = ("a", "b", "c")


@pytest.fixture
def reader(filled: Filled) -> Iterator[SpanReader]:
    with closing(SpanReader(filled.lake, ALL)) as made:
        yield made


def read(filled: Filled, span: ReplaySpan = ALL) -> list[str]:
    with closing(SpanReader(filled.lake, span)) as reader:
        return names(reader.rows({}))


def names(rows: Iterator[ReplayRow]) -> list[str]:
    return [row.message.id if row.message else f"at {row.position}" for row in rows]


def in_parts(reader: SpanReader, size: int) -> Iterator[list[ReplayRow]]:
    """As an operation reads: so many, and on from where those ended."""
    came: dict[str, tuple[int, str]] = {}
    while part := list(islice(reader.rows(came), size)):
        came |= {row.log: (row.at_ms, row.position) for row in part}
        yield part


def test_what_lies_by_keys_comes_as_it_was_stored(filled: Filled) -> None:
    for _ in range(3):
        filled.add(KEYS * 4)
        filled.clock.advance(1)
    assert filled.ids() != [f"m{number}" for number in range(36)]
    assert read(filled) == [f"m{number}" for number in range(36)]


def test_logs_are_merged_by_time(filled: Filled) -> None:
    for log in ("-", "p1", "-", "h", "p1"):
        filled.add(["a", "b"], log=log)
        filled.clock.advance(0.5)
    assert read(filled) == [f"m{number}" for number in range(10)]


def test_a_span_begins_with_its_first_instant_and_ends_before_its_last(filled: Filled) -> None:
    begin = filled.clock.now_ms()
    for _ in range(4):
        filled.add(["a"])
        filled.clock.advance(1)
    filled.add(["a"], topic="other")
    assert read(filled, ReplaySpan("t", begin + 1_000, begin + 3_000)) == ["m1", "m2"]
    assert read(filled, ReplaySpan("t", begin + 1_001, begin + 3_001)) == ["m2", "m3"]


def test_one_key_alone(filled: Filled) -> None:
    filled.add(KEYS * 3)
    assert read(filled, ReplaySpan("t", 0, FOREVER, "b")) == ["m1", "m4", "m7"]


@pytest.mark.parametrize("size", [1, 2, 5, 7, 100])
def test_whoever_goes_on_from_any_place_misses_and_repeats_nothing(
    filled: Filled, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool, "AT_ONCE", 3)
    for log in ("-", "p1", "-", "p1"):
        filled.add(KEYS * 4, log=log)
        filled.clock.advance(0.25)
    came: dict[str, tuple[int, str]] = {}
    found: list[str] = []
    while True:
        # Each time by another process, which knows nothing but the place.
        with closing(SpanReader(filled.lake, ALL)) as reader:
            part = list(islice(reader.rows(came), size))
        if not part:
            break
        came |= {row.log: (row.at_ms, row.position) for row in part}
        found += names(iter(part))
    assert found == read(filled) == [f"m{number}" for number in range(48)]


def test_a_file_is_read_once_in_many_parts(filled: Filled, reader: SpanReader, monkeypatch: pytest.MonkeyPatch) -> None:
    filled.add(KEYS * 4)
    filled.add(KEYS, log="p1")
    read_files: list[str] = []
    read_checked = spool.read_checked

    def counting(root, file, columns):  # type: ignore[no-untyped-def]
        read_files.append(file.path)
        return read_checked(root, file, columns)

    monkeypatch.setattr(spool, "read_checked", counting)
    assert sum(len(part) for part in in_parts(reader, 2)) == 15
    assert len(read_files) == len(set(read_files)) == 2


def test_a_part_that_failed_is_read_again(filled: Filled, reader: SpanReader) -> None:
    filled.add(KEYS)
    assert names(reader.rows({})) == names(reader.rows({})) == ["m0", "m1", "m2"]


def test_files_that_are_merged_on_the_way_change_nothing(filled: Filled, reader: SpanReader) -> None:
    for _ in range(8):
        filled.add(KEYS)
    parts = in_parts(reader, 5)
    found = names(iter(next(parts)))
    assert compact(filled.lake).made == 1
    for part in parts:
        found += names(iter(part))
    assert found == [f"m{number}" for number in range(24)]


def test_what_is_erased_on_the_way_does_not_come(filled: Filled, reader: SpanReader) -> None:
    filled.add(KEYS * 4)
    parts = in_parts(reader, 4)
    found = names(iter(next(parts)))
    erase(filled.lake, "t", "b", by="gov", reason="asked for")
    for part in parts:
        found += names(iter(part))
    assert found == ["m0", "m1", "m2", "m3", "m5", "m6", "m8", "m9", "m11"]


def test_a_file_that_was_changed_is_refused(filled: Filled) -> None:
    (file,) = filled.add(KEYS)
    filled.lake.root.joinpath(file.path).write_bytes(b"PAR1")
    with pytest.raises(LakeDamaged, match="other content than was committed"):
        read(filled)
    filled.lake.root.joinpath(file.path).unlink()
    with pytest.raises(LakeDamaged, match="cannot be read"):
        read(filled)


def test_nothing_is_left_lying(filled: Filled, reader: SpanReader) -> None:
    filled.add(KEYS)
    before = sorted(filled.lake.root.rglob("*"))
    next(reader.rows({}))
    assert sorted(filled.lake.root.rglob("*")) == before


BODIES = (
    encode(
        Message(
            id="m0",
            source="/s",
            type="t",
            time="2026-11-21T08:00:00.123456Z",
            partitionkey="ä",
            data=msgspec.Raw(b'{"n": 1.50}'),
            extensions={"shop": "7"},
        )
    ),
    encode(Message(id="m1", source="/s", type="t", data_base64=b"\x00\xff")),
    # An instant that is none is kept as it came.
    encode(Message(id="m2", source="/s", type="t", time="yesterday")),
    b"no envelope",
)


def test_messages_are_as_they_were(filled: Filled) -> None:
    with filled.lake.run() as run:
        files = PortionFiles(filled.root, "t", "-", f"{run}-0")
        at_ms = [filled.clock.now_ms()] * len(BODIES)
        positions = [f"1-{number}" for number in range(len(BODIES))]
        files.add(Columns(READ).table(Rows("t", "-", positions, at_ms, BODIES)), at_ms)
        made = files.close()

        def make(state: LakeState) -> Commit:
            return filled.lake.following(state, Act.ARCHIVE, run, added=made)

        filled.lake.publish(make)
    with closing(SpanReader(filled.lake, ALL)) as reader:
        messages = [row.message for row in reader.rows({})]
    assert [message and encode(message) for message in messages] == [*BODIES[:3], None]
