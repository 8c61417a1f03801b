"""Since when something waits in a spool, by how far it was read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.core.errors import Unavailable
from engine.pipeline.spool import waiting
from engine.pipeline.spool import writer as writing
from engine.pipeline.spool.files import SpoolFile, paths_in
from engine.pipeline.spool.leaving import let_go
from engine.pipeline.spool.waiting import OldestWaiting
from tests.engine.pipeline.spool.test_writer import TOPIC, Rig


@pytest.fixture(params=[200, 64 * 1024 * 1024], ids=["many files", "one file"])
def rig(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rig:
    monkeypatch.setattr(writing, "FILE_BYTES", request.param)
    return Rig(tmp_path)


@pytest.fixture
def oldest(rig: Rig) -> OldestWaiting:
    return OldestWaiting(rig.root, TOPIC)


def life_of(rig: Rig) -> str:
    file = SpoolFile(rig.newest)
    file.close()
    return file.beginning.life


def test_of_what_was_never_spooled_nothing_waits(oldest: OldestWaiting) -> None:
    assert oldest.since_ms("", 0) == 0
    oldest.close()


def test_it_is_the_first_message_behind_the_place(rig: Rig, oldest: OldestWaiting) -> None:
    at_ms = []
    for number in range(1, 12):
        rig.clock.advance(5)
        at_ms.append(rig.clock.now_ms())
        rig.append(number)
    life = life_of(rig)
    assert [oldest.since_ms(life, upto) for upto in range(12)] == [*at_ms, 0]
    # It goes on under who has looked.
    rig.clock.advance(5)
    rig.append(12)
    assert (oldest.since_ms(life, 11), oldest.since_ms(life, 12)) == (rig.clock.now_ms(), 0)
    # Of a spool that was begun anew nothing was read.
    assert oldest.since_ms("another", 12) == at_ms[0]
    oldest.close()


def test_files_that_go_meanwhile_had_nothing_that_waited(rig: Rig, oldest: OldestWaiting) -> None:
    for number in range(1, 12):
        rig.append(number)
    life = life_of(rig)
    began_ms = rig.clock.now_ms()
    assert oldest.since_ms(life, 5) == began_ms
    let_go(rig.root, TOPIC, life=life, upto=5, before_ms=began_ms + 1)
    assert oldest.since_ms(life, 5) == began_ms
    oldest.close()


def test_files_that_go_faster_than_one_looks_are_no_answer(
    rig: Rig, oldest: OldestWaiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.append(1)
    gone = rig.newest.with_name(f"{0:018d}.spool")
    monkeypatch.setattr(waiting, "paths_in", lambda place: [gone, *paths_in(place)])
    with pytest.raises(Unavailable, match="changes faster"):
        oldest.since_ms("", 0)


def test_a_file_that_was_put_in_the_place_of_another_is_looked_at(rig: Rig, oldest: OldestWaiting) -> None:
    rig.append(1)
    assert oldest.since_ms(life_of(rig), 1) == 0
    rig.writer.close()
    for path in paths_in(rig.place):
        os.unlink(path)
    rig.clock.advance(5)
    rig.append(1)
    assert oldest.since_ms("", 0) == rig.clock.now_ms()
    oldest.close()
