"""What is told of a span before a file is read."""

from __future__ import annotations

import msgspec

from engine.pipeline.lake.erasure import erase
from engine.pipeline.lake.retention import let_go, set_rules
from engine.pipeline.lake.state import Act, Commit, Kind, LakeState, TopicCommit, TopicRules, date_of
from engine.pipeline.replay.span import ReplaySpan, files_in, told_of
from engine.pipeline.source.planning import Loss, Why
from engine.pipeline.source.reached import LogReached
from tests.engine.pipeline.lake.filling import Filled

DAY_S = 86_400


def lose(filled: Filled, loss: Loss) -> None:
    def make(state: LakeState) -> Commit:
        topics = {"t": TopicCommit({loss.log: LogReached(loss.before)}, losses=[loss])}
        return filled.lake.following(state, Act.ARCHIVE, topics=topics)

    filled.lake.publish(make)


def test_files_tell_how_many_there_are_at_least_and_at_most(filled: Filled) -> None:
    begin = filled.clock.now_ms()
    for _ in range(3):
        filled.add(["a", "b"])
        filled.clock.advance(1)
    state = filled.lake.state()
    told = told_of(state, ReplaySpan("t", begin, begin + 2_001))
    assert (told.files, told.least, told.most) == (3, 6, 6)
    told = told_of(state, ReplaySpan("t", begin, begin + 2_000))
    assert (told.files, told.least, told.most) == (2, 4, 4)
    assert told_of(state, ReplaySpan("none", begin, begin + 9_000)).most == 0


def test_a_file_that_reaches_beyond_the_span_counts_at_most(filled: Filled) -> None:
    filled.add(["a"])
    filled.clock.advance(2)
    filled.add(["a"])
    (first, second) = filled.lake.state().files.values()
    wide = msgspec.structs.replace(first, last_ms=second.last_ms)
    state = msgspec.structs.replace(filled.lake.state(), files={wide.path: wide})
    told = told_of(state, ReplaySpan("t", first.first_ms, second.last_ms))
    assert (told.least, told.most) == (0, 1)


def test_files_before_the_place_one_came_to_are_passed_over(filled: Filled) -> None:
    filled.add(["a"])
    filled.clock.advance(1)
    came = {"-": (filled.clock.now_ms(), "1-0")}
    filled.add(["a"])
    filled.add(["a"], log="p1")
    state = filled.lake.state()
    span = ReplaySpan("t", 0, filled.clock.now_ms() + 1)
    assert [file.log for file in files_in(state, span, came)] == ["-", "p1"]
    assert len(files_in(state, span)) == 3


def test_losses_are_told_where_they_may_lie_in_it(filled: Filled) -> None:
    begin = filled.clock.now_ms()
    filled.add(["a"])
    filled.clock.advance(10)
    lose(filled, Loss("-", Why.TRIMMED, "0-0", "1-0", 5))
    lose(filled, Loss(Kind.PUBLISHED, Why.TRIMMED, "", "", 7))
    filled.add(["a"])
    filled.clock.advance(10)
    lose(filled, Loss("p1", Why.EMPTIED, "", "", None))
    state = filled.lake.state()

    within = told_of(state, ReplaySpan("t", begin + 1_000, begin + 2_000))
    assert (within.lost, within.uncounted_losses) == (5, 1)
    before = told_of(state, ReplaySpan("t", begin - 9_000, begin))
    assert (before.lost, before.uncounted_losses) == (0, 1)
    after = told_of(state, ReplaySpan("t", begin + 15_000, begin + 16_000))
    assert (after.lost, after.uncounted_losses) == (0, 1)
    assert told_of(state, ReplaySpan("t", begin + 21_000, begin + 22_000)).losses == []


def test_what_retention_and_erasures_took_is_told(filled: Filled) -> None:
    begin = filled.clock.now_ms()
    filled.add(["a", "b"])
    filled.clock.advance(3 * DAY_S)
    filled.add(["a", "b"])
    set_rules(filled.lake, "t", lambda _: TopicRules(keep_days=1), by="gov", reason="policy")
    let_go(filled.lake)
    erase(filled.lake, "t", "b", by="gov", reason="asked for")

    now = filled.clock.now_ms()
    told = told_of(filled.lake.state(), ReplaySpan("t", begin, now + 1))
    assert (told.most, told.kept_from, told.erased_messages) == (1, date_of(now), 1)
    assert told_of(filled.lake.state(), ReplaySpan("t", now, now + 1)).kept_from == ""
