"""What may go of a topic: nothing unless said, whole days, never under a hold, and it is told."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from engine.core.errors import BadInput
from engine.pipeline.lake.lake import GRACE_S
from engine.pipeline.lake.retention import LONGEST_DAYS, let_go, set_rules
from engine.pipeline.lake.state import Act, Commit, LakeState, TopicRules
from tests.engine.pipeline.lake.filling import Filled

DAY_S = 86_400


def keep(filled: Filled, days: int | None, hold: str = "", topic: str = "t") -> None:
    set_rules(filled.lake, topic, lambda _: TopicRules(days, hold), by="ada", reason="the contract says so")


def five_days(filled: Filled, topic: str = "t") -> list[str]:
    dates = []
    for day in range(5):
        filled.clock.advance(DAY_S if day else 0)
        dates += [file.date for file in filled.add(["a"], topic)]
    return dates


def test_nothing_goes_unless_it_is_said(filled: Filled) -> None:
    five_days(filled)
    assert let_go(filled.lake) == []
    assert len(filled.ids()) == 5


def test_days_that_are_over_go_whole_and_it_is_told(filled: Filled) -> None:
    dates = five_days(filled)
    filled.add(["a"], "u")
    keep(filled, 2)

    (gone,) = let_go(filled.lake)

    assert (gone.topic, gone.kept_from, gone.files, gone.rows) == ("t", dates[3], 3, 3)
    assert filled.ids() == ["m3", "m4"]
    assert filled.ids("u") == ["m5"]
    state = filled.lake.state()
    assert state.topics["t"].kept_from == dates[3]
    assert state.topics["u"].kept_from == ""
    assert list(filled.lake.commits())[-1].act is Act.RETENTION
    assert let_go(filled.lake) == []
    assert filled.lake.state() == state


def test_the_present_day_is_one_of_those_that_are_kept(filled: Filled) -> None:
    five_days(filled)
    keep(filled, 1)
    let_go(filled.lake)
    assert filled.ids() == ["m4"]


def test_under_a_hold_nothing_goes_and_afterwards_it_does(filled: Filled) -> None:
    five_days(filled)
    keep(filled, 1, hold="case 12-4711")
    assert let_go(filled.lake) == []
    assert len(filled.ids()) == 5
    keep(filled, 1)
    assert [gone.files for gone in let_go(filled.lake)] == [4]


def test_a_hold_that_comes_just_before_holds(filled: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    five_days(filled)
    keep(filled, 1)
    publish = filled.lake.publish

    def after_the_hold(make: Callable[[LakeState], Commit]) -> LakeState:
        monkeypatch.undo()
        keep(filled, 1, hold="case 12-4711")
        return publish(make)

    monkeypatch.setattr(filled.lake, "publish", after_the_hold)
    assert let_go(filled.lake) == []
    assert len(filled.ids()) == 5


def test_rules_stay_with_archiving_and_who_said_them_is_in_the_log(filled: Filled) -> None:
    keep(filled, 7)
    filled.add(["a"])
    assert filled.lake.state().topics["t"].rules == TopicRules(7)
    first = next(iter(filled.lake.commits()))
    assert (first.act, first.by, first.reason) == (Act.RULES, "ada", "the contract says so")
    assert filled.lake.state().topics["t"].archived_ms == filled.clock.now_ms()


def test_what_went_is_there_for_readers_for_a_while(filled: Filled) -> None:
    five_days(filled)
    keep(filled, 1)
    let_go(filled.lake)
    assert filled.lake.sweep() == []
    filled.clock.advance(GRACE_S + 1)
    assert len(filled.lake.sweep()) == 4


@pytest.mark.parametrize("days", [0, -1, LONGEST_DAYS + 1])
def test_days_that_make_no_sense_are_refused(filled: Filled, days: int) -> None:
    with pytest.raises(BadInput) as refused:
        keep(filled, days)
    assert refused.value.field == "keep_days"
    assert filled.lake.state().version == 0


def test_who_changes_one_thing_leaves_the_other_and_what_changes_nothing_makes_no_commit(filled: Filled) -> None:
    keep(filled, 7, hold="case 12-4711")
    before, after = set_rules(filled.lake, "t", lambda was: replace(was, keep_days=9), by="ada", reason="why")
    assert (before, after) == (TopicRules(7, "case 12-4711"), TopicRules(9, "case 12-4711"))
    version = filled.lake.version()
    keep(filled, 9, hold="case 12-4711")
    assert filled.lake.version() == version
