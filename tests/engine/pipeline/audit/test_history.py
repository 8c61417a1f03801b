"""When something came into the lake is told by its commits, of which each is read once."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from engine.core.verdicts import AuditVerdict
from engine.pipeline.audit.auditing import Auditor
from engine.pipeline.audit.history import LogHistory, LostSpan, history_of
from engine.pipeline.audit.sides import SIDES
from engine.pipeline.lake.commits import CommitLog
from engine.pipeline.lake.retention import set_rules
from engine.pipeline.lake.state import Commit, TopicRules
from engine.pipeline.source.planning import Loss, Why
from tests.engine.pipeline.audit.asking import audit
from tests.engine.pipeline.audit.telling import TOPIC, Hotel, Told, season


def test_each_message_was_archived_by_the_first_commit_that_reaches_it() -> None:
    history = LogHistory([100, 200, 300], [150, 260, 330])
    found = history.archived_after(np.array([90, 100, 101, 300, 301]))
    assert found[:4].tolist() == [60, 50, 159, 30]
    assert np.isnan(found[4])
    assert history.within(101, 200) == LogHistory([200], [260])
    assert history.within(1, 999) == history
    assert np.isnan(LogHistory().archived_after(np.array([1]))).all()


def test_a_loss_lies_between_what_was_read_before_and_what_is_there_again(hotel: Hotel, told: Told) -> None:
    first, rest = told.stored[:100], told.stored[200:]
    hotel.archive_messages([each for each in first if each.log == "-"])
    hotel.archive_messages([each for each in rest if each.log == "-"][:1], losses=[Loss("-", Why.TRIMMED, "", "", 3)])
    spans = history_of(hotel.lake, hotel.root / SIDES).of(TOPIC).lost
    before = max(each.stored_ms for each in first if each.log == "-")
    after = min(each.stored_ms for each in rest if each.log == "-")
    assert spans == [LostSpan("-", before, after)]


def test_only_commits_that_came_since_are_read(hotel: Hotel, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    hotel.archive(told, rounds=5)
    whole = history_of(hotel.lake, hotel.root / SIDES)
    hotel.archive_messages([])
    read: list[int] = []
    newest_first = CommitLog.newest_first

    def counted(log: CommitLog) -> object:
        for commit in newest_first(log):
            read.append(commit.version)
            yield commit

    monkeypatch.setattr(CommitLog, "newest_first", counted)
    again = history_of(hotel.lake, hotel.root / SIDES)
    # The last one that is known, and the one before it, at which reading ends.
    assert read == [11, 10, 9]
    assert (again.version, again.topics) == (11, whole.topics)


def test_a_lake_that_was_restored_and_went_on_is_read_anew(hotel: Hotel, told: Told) -> None:
    hotel.archive_messages(told.stored[:100])
    copy = hotel.root.with_name("copy")
    shutil.copytree(hotel.root, copy)
    hotel.archive_messages(told.stored[100:200])
    history_of(hotel.lake, hotel.root / SIDES)
    shutil.copytree(hotel.root / SIDES, copy / SIDES, dirs_exist_ok=True)
    restored = Hotel(copy)
    restored.archive_messages(told.stored[100:150], lag_ms=77)

    steps = history_of(restored.lake, copy / SIDES).of(TOPIC).logs

    fresh = history_of(restored.lake, copy / "elsewhere").of(TOPIC).logs
    assert steps == fresh
    assert max(max(each.archived_ms) for each in steps.values()) == told.stored[149].stored_ms + 77


def test_what_was_kept_and_cannot_be_read_is_gathered_again(hotel: Hotel, told: Told) -> None:
    hotel.archive(told)
    before = history_of(hotel.lake, hotel.root / SIDES)
    (hotel.root / SIDES / "history.msgpack").write_bytes(b"\xc1")
    assert history_of(hotel.lake, hotel.root / SIDES) == before


def test_commits_after_one_come_in_their_order(hotel: Hotel, told: Told) -> None:
    hotel.archive(told)
    every: list[Commit] = list(hotel.lake.commits())
    assert hotel.lake.commits_after(0) == every
    assert hotel.lake.commits_after(2) == every[2:]
    assert hotel.lake.commits_after(6) == []


def test_a_topic_without_any_message_is_clean(hotel: Hotel) -> None:
    set_rules(hotel.lake, TOPIC, lambda _: TopicRules(keep_days=7), by="ada", reason="enough")
    found = audit(hotel)
    assert (found.verdict, found.findings, found.windows) == (AuditVerdict.CLEAN, [], [])


def test_topics_are_audited_each_for_itself(hotel: Hotel) -> None:
    other = Hotel(hotel.root, topic="room.cleaned")
    hotel.archive(season(300, hotel.start_ms))
    other.archive(season(200, hotel.start_ms, keys=3))
    found = Auditor(hotel.lake).run([TOPIC, "room.cleaned"])
    assert [(each.topic, each.findings) for each in found.topics] == [(TOPIC, []), ("room.cleaned", [])]
    assert found.verdict is AuditVerdict.CLEAN
