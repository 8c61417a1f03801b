"""The promises of :mod:`engine.bus.rereading`, kept by the files of a spool."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from engine.bus import Rereads, gone
from engine.core.errors import BadInput
from engine.pipeline.source.planning import plan
from engine.pipeline.source.reached import end_of
from engine.pipeline.spool import reading
from engine.pipeline.spool import writer as writing
from engine.pipeline.spool.files import paths_in
from engine.pipeline.spool.frames import Spooled
from engine.pipeline.spool.leaving import let_go
from engine.pipeline.spool.reading import LOG, SpoolReader
from tests.engine.pipeline.spool.test_writer import TOPIC, Rig, messages, of


@pytest.fixture(params=[200, 64 * 1024 * 1024], ids=["many files", "one file"])
def rig(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rig:
    monkeypatch.setattr(writing, "FILE_BYTES", request.param)
    return Rig(tmp_path)


@pytest.fixture
def reader(rig: Rig) -> SpoolReader:
    return SpoolReader(rig.root)


def test_a_spool_can_be_read_over_again(reader: SpoolReader) -> None:
    assert isinstance(reader, Rereads)
    assert reader.extents("nothing.of.it") == []


def test_an_extent_tells_both_ends_and_how_many(rig: Rig, reader: SpoolReader) -> None:
    began_ms = rig.clock.now_ms()
    rig.append(1, 2)
    rig.clock.advance(5)
    rig.append(3)
    (extent,) = reader.extents(TOPIC)
    assert (extent.first, extent.last, extent.held, extent.added) == ("1", "3", 3, 3)
    assert (extent.first_ms, extent.last_ms) == (began_ms, rig.clock.now_ms())


def test_it_grows_under_a_reader_that_stays(rig: Rig, reader: SpoolReader) -> None:
    for number in range(1, 12):
        rig.append(number)
        assert reader.extents(TOPIC)[0].last == str(number)
        before = str(number - 1) if number > 1 else ""
        assert reader.stretch(TOPIC, LOG, before, upto=str(number), limit=9).bodies == of([number])


def test_a_stretch_begins_after_one_place_and_ends_with_another(rig: Rig, reader: SpoolReader) -> None:
    rig.append(1, 2, 3)
    rig.append(4, 5, 6)
    found = reader.stretch(TOPIC, LOG, "1", upto="5", limit=9)
    assert (found.positions, found.bodies, found.ended) == (["2", "3", "4", "5"], of([2, 3, 4, 5]), True)
    assert reader.stretch(TOPIC, LOG, "1", upto="5", limit=2).bodies == of([2, 3])
    assert not reader.stretch(TOPIC, LOG, "1", upto="5", limit=2).ended
    assert reader.stretch(TOPIC, LOG, "5", upto="5", limit=9).bodies == []
    assert reader.stretch(TOPIC, LOG, "", upto="", limit=9).bodies == []


def test_large_messages_come_a_few_at_a_time(rig: Rig, reader: SpoolReader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "ROOM_BYTES", 10)
    rig.append(1, 2, 3)
    found = reader.stretch(TOPIC, LOG, "", upto="3", limit=9)
    assert (found.bodies, found.ended) == (of([1, 2]), False)


def test_the_nth_is_found(rig: Rig, reader: SpoolReader) -> None:
    rig.append(1, 2)
    rig.append(3, 4, 5)
    nth = partial(reader.nth_after, TOPIC, LOG)
    assert nth("", upto="5", number=2) == ("2", 2)
    assert nth("2", upto="5", number=2) == ("4", 2)
    assert nth("2", upto="5", number=9) == ("5", 3)
    assert nth("2", upto="3", number=9) == ("3", 1)
    assert nth("5", upto="5", number=9) == ("5", 0)


def test_an_instant_parts_it(rig: Rig, reader: SpoolReader) -> None:
    for number in (1, 2, 4):
        rig.append(number, number + 10)
        rig.clock.advance(1)
    last_ms = rig.clock.now_ms() - 1_000
    place = partial(reader.place_before, TOPIC, LOG)
    assert place(last_ms - 2_000) == ""
    assert place(last_ms - 1_999) == "2"
    assert place(last_ms) == "4"
    assert place(last_ms + 1) == "6"
    assert place(0) == ""


def test_what_went_is_counted(rig: Rig, reader: SpoolReader) -> None:
    for number in range(1, 10):
        rig.append(number)
    seen = end_of(reader.extents(TOPIC)[0])
    for number in range(10, 15):
        rig.append(number)
    # Two messages fill a small file, so that 13 begins one; the only one stays.
    first = 13 if len(paths_in(rig.place)) > 1 else 1
    let_go(rig.root, TOPIC, life=seen.life, upto=12, before_ms=rig.clock.now_ms() + 1)
    (extent,) = reader.extents(TOPIC)
    assert int(extent.first) == first
    assert gone(extent, seen.added) == max(0, first - 1 - 9)
    assert reader.stretch(TOPIC, LOG, seen.at, upto=extent.last, limit=99).bodies == of(range(max(10, first), 15))
    assert reader.nth_after(TOPIC, LOG, "", upto=extent.last, number=1) == (extent.first, 1)


def test_what_the_transport_lost_is_missing_of_the_count(rig: Rig, reader: SpoolReader) -> None:
    with rig.writer.held():
        rig.writer.pass_over(2)
        rig.writer.append(messages(1, 2))
    before = end_of(reader.extents(TOPIC)[0])
    assert (before.at, before.added, reader.extents(TOPIC)[0].held) == ("4", 4, 2)
    (loss,) = plan({}, reader.extents(TOPIC)).losses
    assert loss.messages == 2

    with rig.another().held():
        pass
    with rig.writer.held():
        rig.writer.append(messages(3))
        rig.writer.pass_over(5)
        rig.writer.append(messages(4))

    (extent,) = reader.extents(TOPIC)
    assert (extent.added, extent.held, extent.last) == (11, 4, "11")
    assert reader.stretch(TOPIC, LOG, before.at, upto=extent.last, limit=9).positions == ["5", "11"]
    assert reader.nth_after(TOPIC, LOG, before.at, upto=extent.last, number=2) == ("11", 2)
    assert reader.nth_after(TOPIC, LOG, "", upto="7", number=9) == ("5", 3)


def test_a_message_may_be_empty_and_its_place_may_not_be_ascii(rig: Rig, reader: SpoolReader) -> None:
    with rig.writer.held():
        rig.writer.append([Spooled("ä", b""), Spooled("", b"x")])
    assert reader.stretch(TOPIC, LOG, "", upto="2", limit=9).bodies == [b"", b"x"]


@pytest.mark.parametrize(("log", "place"), [("", ""), ("-", ""), (LOG, "?"), (LOG, "-1"), (LOG, "0")])
def test_what_is_no_log_and_no_place_is_refused(rig: Rig, reader: SpoolReader, log: str, place: str) -> None:
    rig.append(1)
    with pytest.raises(BadInput):
        reader.stretch(TOPIC, log, place, upto="1", limit=1)
    with pytest.raises(BadInput):
        reader.nth_after(TOPIC, log, place, upto="1", number=1)
