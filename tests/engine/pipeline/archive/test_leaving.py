"""A transport forgets a topic: what was not archived is lost and counted, and its next life begins from nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from engine.pipeline.archive.archiving import Archiver
from engine.pipeline.archive.leaving import forget_logs
from engine.pipeline.archive.tasks import ArchiveTask, in_this_process
from engine.pipeline.lake.errors import Superseded
from engine.pipeline.lake.lake import Lake
from engine.pipeline.lake.state import LakeFile
from engine.pipeline.source.planning import Why
from engine.pipeline.source.reached import NOTHING
from tests.engine.pipeline.conftest import Topic


@pytest.fixture
def lake(tmp_path: Path, topic: Topic) -> Lake:
    return Lake(tmp_path / "lake", topic.clock)


def archive(lake: Lake, topic: Topic) -> int:
    return sum(Archiver(lake, topic.config, in_this_process).run([topic.name]).messages.values())


def losses(lake: Lake, topic: Topic) -> list[tuple[Why, int | None]]:
    return [(known.loss.why, known.loss.messages) for known in lake.state().held(topic.name).losses]


def test_where_all_was_archived_the_next_life_has_lost_nothing(lake: Lake, topic: Topic) -> None:
    topic.publish_many(0, 30)
    archive(lake, topic)
    extents = topic.rereads.extents(topic.name)
    topic.empty()
    assert forget_logs(lake, topic.name, extents)
    topic.publish_many(30, 5)

    assert archive(lake, topic) == 5
    assert losses(lake, topic) == []
    assert sum(file.rows for file in lake.state().files_of(topic.name)) == 35


def test_without_it_nobody_knows_what_was_lost(lake: Lake, topic: Topic) -> None:
    topic.publish_many(0, 30)
    archive(lake, topic)
    topic.empty()
    topic.publish_many(30, 5)
    archive(lake, topic)
    assert losses(lake, topic) == [(Why.EMPTIED, None)]


def test_what_was_not_archived_is_lost_and_counted(lake: Lake, topic: Topic) -> None:
    topic.publish_many(0, 30)
    archive(lake, topic)
    topic.publish_many(30, 7)
    topic.trim(4)
    extents = topic.rereads.extents(topic.name)
    topic.empty()
    forget_logs(lake, topic.name, extents)
    assert losses(lake, topic) == [(Why.TRIMMED, 3), (Why.EMPTIED, 4)]


def test_a_topic_that_was_never_archived_is_nothing_to_tell(lake: Lake, topic: Topic) -> None:
    topic.publish_many(0, 3)
    assert not forget_logs(lake, topic.name, topic.rereads.extents(topic.name))
    assert lake.state().version == 0


@pytest.mark.parametrize("trimmed", [0, 3])
def test_what_was_archived_and_never_read_is_lost_and_counted(lake: Lake, topic: Topic, trimmed: int) -> None:
    topic.publish_many(0, 70)
    if trimmed:
        topic.trim(70 - trimmed)
    extents = topic.rereads.extents(topic.name)
    topic.empty()
    assert forget_logs(lake, topic.name, extents, archived=True)
    topic.publish_many(70, 5)
    assert archive(lake, topic) == 5
    told = [(Why.TRIMMED, trimmed)] if trimmed else []
    assert losses(lake, topic) == [*told, (Why.EMPTIED, 70 - trimmed)]


def test_of_a_life_that_was_never_read_after_one_that_was_the_loss_is_counted(lake: Lake, topic: Topic) -> None:
    topic.publish_many(0, 40)
    archive(lake, topic)
    for begin, number in ((40, 30), (70, 20)):
        extents = topic.rereads.extents(topic.name)
        topic.empty()
        forget_logs(lake, topic.name, extents, archived=True)
        topic.publish_many(begin, number)
    archive(lake, topic)
    assert losses(lake, topic) == [(Why.EMPTIED, 30)]
    assert sum(file.rows for file in lake.state().files_of(topic.name)) == 60


def test_a_log_that_was_never_given_anything_is_nothing_to_tell(lake: Lake, topic: Topic) -> None:
    assert not forget_logs(lake, topic.name, topic.rereads.extents(topic.name), archived=True)


def test_a_first_run_that_had_planned_to_read_them_gives_up(lake: Lake, topic: Topic) -> None:
    topic.publish_many(0, 45)

    def forgotten_meanwhile(tasks: Sequence[ArchiveTask]) -> list[list[LakeFile]]:
        made = list(in_this_process(tasks))
        forget_logs(lake, topic.name, topic.rereads.extents(topic.name), archived=True)
        topic.empty()
        return made

    with pytest.raises(Superseded):
        Archiver(lake, topic.config, forgotten_meanwhile).run([topic.name])
    topic.publish_many(45, 15)
    assert archive(lake, topic) == 15
    assert losses(lake, topic) == [(Why.EMPTIED, 45)]


def test_told_once_more_it_changes_nothing(lake: Lake, topic: Topic) -> None:
    topic.publish_many(0, 30)
    archive(lake, topic)
    extents = topic.rereads.extents(topic.name)
    assert [forget_logs(lake, topic.name, extents) for _ in range(2)] == [True, False]
    assert set(lake.state().reached(topic.name).values()) == {NOTHING}


def test_a_run_that_had_planned_to_read_them_gives_up(lake: Lake, topic: Topic) -> None:
    topic.publish_many(0, 30)
    archive(lake, topic)
    topic.publish_many(30, 5)

    def forgotten_meanwhile(tasks: Sequence[ArchiveTask]) -> list[list[LakeFile]]:
        made = list(in_this_process(tasks))
        forget_logs(lake, topic.name, topic.rereads.extents(topic.name))
        return made

    with pytest.raises(Superseded):
        Archiver(lake, topic.config, forgotten_meanwhile).run([topic.name])
    assert losses(lake, topic) == [(Why.EMPTIED, 5)]
    assert sum(file.rows for file in lake.state().files_of(topic.name)) == 30
