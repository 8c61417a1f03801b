"""What was appended stays, each message once, through torn ends, full disks and damage; and it is read by position."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from engine.core.clock import ManualClock
from engine.pipeline.spool import writer as writing
from engine.pipeline.spool.errors import SpoolBusy, SpoolDamaged
from engine.pipeline.spool.files import paths_in
from engine.pipeline.spool.frames import Spooled
from engine.pipeline.spool.leaving import forget, let_go
from engine.pipeline.spool.reading import LOG, SpoolReader
from engine.pipeline.spool.writer import SpoolWriter

TOPIC = "booking.created"


class Rig:
    """A spool, its clock, and processes that come one after the other."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = ManualClock()
        self.writer = self.another()

    def another(self) -> SpoolWriter:
        """As another process, or one that was started again, has it."""
        return SpoolWriter(self.root, TOPIC, self.clock)

    @property
    def place(self) -> Path:
        return self.root / TOPIC

    @property
    def newest(self) -> Path:
        return paths_in(self.place)[-1]

    def append(self, *numbers: int, writer: SpoolWriter | None = None) -> int:
        writer = writer or self.writer
        with writer.held():
            return writer.append(messages(*numbers))

    def bodies(self, after: str = "", limit: int = 1_000) -> list[bytes]:
        reader = SpoolReader(self.root)
        upto = reader.extents(TOPIC)[0].last
        found: list[bytes] = []
        while True:
            part = reader.stretch(TOPIC, LOG, after, upto=upto, limit=limit)
            found += part.bodies
            if part.ended:
                reader.close()
                return found
            after = part.positions[-1]


def messages(*numbers: int) -> list[Spooled]:
    return [Spooled(f"{number:016x}", b"body %d" % number) for number in numbers]


def of(numbers: Sequence[int]) -> list[bytes]:
    return [each.body for each in messages(*numbers)]


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "lake" / "spool")


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "FILE_BYTES", 300)


def test_what_was_appended_is_read_in_its_order(rig: Rig) -> None:
    rig.append(1, 2)
    rig.append(3)
    assert rig.bodies() == of([1, 2, 3])
    assert rig.bodies("2") == of([3])


def test_it_is_closed_to_others(rig: Rig) -> None:
    rig.append(1)
    assert [path.stat().st_mode & 0o077 for path in (rig.root, rig.place, *rig.place.iterdir())] == [0] * 4


def test_what_comes_again_is_not_written_again_also_by_another_process(rig: Rig) -> None:
    assert rig.append(1, 2) == 2
    assert rig.append(2, 3, 3) == 1
    assert rig.append(1, 3, 4, writer=rig.another()) == 1
    assert rig.bodies() == of([1, 2, 3, 4])


def test_two_messages_under_one_id_of_two_nsqds_are_both_kept(rig: Rig) -> None:
    with rig.writer.held():
        assert rig.writer.append([Spooled("0a", b"one"), Spooled("0a", b"other")]) == 2


def test_an_envelope_is_known_under_another_place_and_what_is_none_is_not(rig: Rig) -> None:
    envelope, changed = b'{"id":"1","source":"/a","data":1}', b'{"id":"1","source":"/a","data":2}'
    with rig.writer.held():
        assert rig.writer.append([Spooled("0a", envelope), Spooled("0a", b"raw")]) == 2
        # NSQ hands a message out from its copy under an id of the copy's own.
        assert rig.writer.append([Spooled("0b.17-0", envelope), Spooled("0b.17-0", b"raw")]) == 1
        # Another payload under the same id and source is something that an audit shall find.
        assert rig.writer.append([Spooled("0c", changed), Spooled("0c", b"[" * 5_000), Spooled("0d", b"\xff")]) == 3
    assert rig.bodies() == [envelope, b"raw", b"raw", changed, b"[" * 5_000, b"\xff"]


def test_what_is_remembered_has_a_bound(rig: Rig) -> None:
    small = SpoolWriter(rig.root, TOPIC, rig.clock, window=2)
    assert rig.append(1, 2, 3, writer=small) == 3
    assert rig.append(2, 3, writer=small) == 0
    assert rig.append(1, writer=small) == 1


@pytest.mark.parametrize("cut", [1, 10, 45])
def test_a_torn_end_is_cut_off_never_read_and_given_again(rig: Rig, cut: int) -> None:
    rig.append(1, 2)
    whole = rig.newest.stat().st_size
    rig.append(3)
    os.truncate(rig.newest, rig.newest.stat().st_size - cut)
    assert rig.bodies() == of([1, 2])

    assert rig.append(3, 4, writer=rig.another()) == 2

    assert rig.bodies() == of([1, 2, 3, 4])
    assert whole < rig.newest.stat().st_size


def test_an_end_of_the_right_length_with_nothing_in_it_is_torn_too(rig: Rig) -> None:
    rig.append(1)
    rig.append(2)
    # A file system may have noted how long the file is, and not what is in it.
    with rig.newest.open("r+b") as file:
        file.seek(-6, os.SEEK_END)
        file.write(b"\0" * 6)
    assert rig.bodies() == of([1])
    assert rig.append(2, writer=rig.another()) == 1
    assert rig.bodies() == of([1, 2])


def test_a_whole_frame_behind_one_that_is_not_tells_of_damage(rig: Rig) -> None:
    rig.append(1)
    place = rig.newest.stat().st_size
    rig.append(2)
    rig.append(3)
    with rig.newest.open("r+b") as file:
        file.seek(place + 3)
        file.write(b"?")

    with pytest.raises(SpoolDamaged, match="from byte"):
        rig.append(4, writer=rig.another())
    assert rig.newest.stat().st_size > place, "nothing was cut off"


def test_changed_bytes_are_told_and_not_read(rig: Rig) -> None:
    rig.append(1)
    place = rig.newest.stat().st_size
    rig.append(2)
    with rig.newest.open("r+b") as file:
        file.seek(place - 1)
        file.write(b"?")
    with pytest.raises(SpoolDamaged, match="from byte"):
        rig.bodies()


def test_bytes_of_a_message_do_not_pass_for_a_frame(rig: Rig, tmp_path: Path) -> None:
    other = Rig(tmp_path / "other")
    other.append(1)
    rig.append(1)
    with rig.writer.held():
        rig.writer.append([Spooled("f", other.newest.read_bytes() * 2)])
    os.truncate(rig.newest, rig.newest.stat().st_size - 1)
    # A torn end, and no damage: what is in it is a frame of no file here.
    assert rig.append(2, writer=rig.another()) == 1
    assert rig.bodies() == of([1, 2])


@pytest.mark.usefixtures("small_files")
def test_files_follow_each_other_and_are_read_as_one(rig: Rig) -> None:
    for number in range(1, 30):
        rig.append(number)
    assert len(paths_in(rig.place)) > 5
    assert rig.bodies(limit=4) == of(range(1, 30))
    assert rig.append(*range(1, 31), writer=rig.another()) == 1


@pytest.mark.usefixtures("small_files")
def test_a_file_that_is_missing_between_others_is_told(rig: Rig) -> None:
    for number in range(1, 30):
        rig.append(number)
    paths_in(rig.place)[2].unlink()
    with pytest.raises(SpoolDamaged):
        rig.bodies()


def test_only_one_holds_it(rig: Rig) -> None:
    other = rig.another()
    with rig.writer.held():
        with pytest.raises(SpoolBusy, match=TOPIC), other.held():
            pass
        assert not forget(rig.place)
    with other.held():
        other.append(messages(1))
    # What another wrote meanwhile is seen.
    assert rig.append(1, 2) == 1
    assert rig.bodies() == of([1, 2])


def test_a_file_that_is_taken_away_is_not_written_on(rig: Rig) -> None:
    with rig.writer.held():
        rig.writer.append(messages(1))
        rig.newest.unlink()
        with pytest.raises(SpoolDamaged, match="taken away"):
            rig.writer.append(messages(2))
    assert rig.append(1, 2) == 2


def test_what_could_not_be_written_is_not_there_and_is_taken_when_it_comes_again(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.append(1)

    def fails(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fails)
        with pytest.raises(OSError, match="No space"):
            rig.append(2)
    assert rig.bodies() == of([1])
    assert rig.append(2) == 1
    assert rig.bodies() == of([1, 2])


def test_a_clock_that_steps_back_never_makes_a_later_message_older(rig: Rig) -> None:
    rig.append(1)
    rig.clock.advance(60)
    rig.append(2)
    later_ms = rig.clock.now_ms()
    rig.writer, rig.clock = SpoolWriter(rig.root, TOPIC, ManualClock(later_ms - 30_000)), ManualClock(later_ms - 30_000)
    rig.append(3)
    found = SpoolReader(rig.root).stretch(TOPIC, LOG, "", upto="3", limit=10)
    assert list(found.at_ms) == [later_ms - 60_000, later_ms, later_ms]


def test_what_was_archived_goes_by_whole_files_once_its_time_is_over(rig: Rig) -> None:
    for number in range(1, 4):
        rig.append(number)
        rig.clock.advance(writing.FILE_MS / 1000)
    rig.append(4)
    life = SpoolReader(rig.root).extents(TOPIC)[0].life
    first, second, *_ = paths_in(rig.place)

    assert let_go(rig.root, TOPIC, life="another", upto=4, before_ms=rig.clock.now_ms()) == 0
    assert let_go(rig.root, TOPIC, life=life, upto=1, before_ms=rig.clock.now_ms()) == 1
    assert not first.exists()
    assert second.exists()
    assert let_go(rig.root, TOPIC, life=life, upto=4, before_ms=rig.clock.now_ms() - 2 * writing.FILE_MS + 1) == 1
    assert rig.bodies() == of([3, 4])
    assert let_go(rig.root, TOPIC, life=life, upto=4, before_ms=rig.clock.now_ms() + 1) == 1
    # The last one stays, and with it the count.
    extent = SpoolReader(rig.root).extents(TOPIC)[0]
    assert (extent.added, extent.held, extent.first, extent.last) == (4, 1, "4", "4")


def test_a_quiet_spool_that_was_archived_holds_nothing_any_more(rig: Rig) -> None:
    rig.append(1, 2)
    rig.clock.advance(writing.FILE_MS / 1000)
    with rig.writer.held():
        pass
    before = SpoolReader(rig.root).extents(TOPIC)[0]
    let_go(rig.root, TOPIC, life=before.life, upto=2, before_ms=rig.clock.now_ms())

    (extent,) = SpoolReader(rig.root).extents(TOPIC)

    assert (extent.added, extent.held, extent.first, extent.last) == (2, 0, "", "2")
    assert extent.last_ms == before.last_ms
    assert rig.append(3, writer=rig.another()) == 1
    assert rig.bodies() == of([3])


def test_a_spool_that_is_forgotten_lives_another_life_when_it_comes_again(rig: Rig) -> None:
    rig.append(1)
    life = SpoolReader(rig.root).extents(TOPIC)[0].life
    assert forget(rig.place)
    assert SpoolReader(rig.root).extents(TOPIC) == []
    assert rig.append(1) == 1
    assert SpoolReader(rig.root).extents(TOPIC)[0].life != life
