"""Figures of runs, as lists, pictures and metrics say them."""

from __future__ import annotations

import re

import pytest

from engine.cron.slots.steps import OPEN, RunState
from hbus_console.jobs.drawing import DayLine, day, tone_of_run
from hbus_console.jobs.feature import FEATURE
from hbus_console.jobs.judge import row_of
from hbus_console.jobs.models import JobRun
from hbus_console.ui.states import tone_of

S = 1_000_000


def test_every_state_of_a_run_has_a_colour_and_one_alone() -> None:
    told = {state.value: tone_of_run(state) for state in RunState}
    assert told == {state: FEATURE.tones.get(state, "neutral") for state in told}
    # As a page has it that knows the word alone.
    assert told == {state: tone_of(state, "jobs") for state in told}
    # What waits is not at work.
    assert {state for state in OPEN if told[state] == "info"} == {RunState.RUNNING}
    assert [state for state, tone in told.items() if tone == "info"] == [RunState.RUNNING]
    assert tone_of_run("no state") == "neutral"


@pytest.mark.parametrize(
    ("run", "late"),
    [
        (JobRun(slot=100, begun_us=100 * S + 7), 7),
        # By its jitter, or by the pause before an attempt, it was to begin later.
        (JobRun(slot=100, not_before_us=160 * S, begun_us=160 * S + 7), 7),
        (JobRun(slot=100, not_before_us=40 * S, begun_us=160 * S), 60 * S),
        (JobRun(slot=100, begun_us=99 * S), 0),
        (JobRun(slot=100), None),
        (JobRun(slot=100, begun_us=160 * S, kind="ping"), None),
        # It was asked for, or the run before it ended, within its second.
        (JobRun(slot=100, decided_us=100 * S + 900_000, begun_us=100 * S + 900_007, kind="manual"), 7),
        (JobRun(slot=100, decided_us=100 * S + 900_000, begun_us=100 * S + 900_007, kind="after"), 7),
        (JobRun(slot=100, decided_us=100 * S + 900_000, not_before_us=160 * S, begun_us=160 * S, kind="manual"), 0),
        # A node was late to decide it, and so it is late.
        (JobRun(slot=100, decided_us=100 * S + 900_000, begun_us=100 * S + 900_007), 900_007),
    ],
)
def test_a_run_is_late_from_when_it_was_to_begin(run: JobRun, late: int | None) -> None:
    assert run.late_us == late
    run.state, run.changed_us, run.decided_us = RunState.CLAIMED, 0, run.decided_us or 0
    assert row_of(run).due_s * S == run.due_us


@pytest.mark.parametrize(("now_s", "drawn"), [(0, False), (999, False), (1_000, True), (4_600, True), (4_601, False)])
def test_now_is_drawn_where_it_lies_in_the_line(now_s: int, drawn: bool) -> None:
    line = DayLine("close-of-day", (), (2_000,), 3_600)
    assert ('class="now"' in day(line, 1_000, now_s * 1_000_000)) is drawn


def drawn(line: DayLine) -> list[tuple[str, int, int]]:
    shapes = re.findall(r'<rect class="([\w ]+)" x="(\d+)" y="3" width="(\d+)"', day(line, 0, -1))
    return [(tone, int(x), int(width)) for tone, x, width in shapes]


def test_slots_that_would_touch_are_one_band_and_not_ticks_that_seem_to_be_all() -> None:
    minutes = [60 * minute for minute in range(0, 60 * 24, 2)]
    assert drawn(DayLine("a", (), minutes)) == [("next often", 0, 1_439)]
    quarters = [900 * quarter for quarter in range(4)]
    assert drawn(DayLine("a", (), quarters)) == [("next", x, 3) for x in (0, 15, 30, 45)]
    # As the list of jobs has them: one in a quarter of an hour, and behind the first two others come at once.
    assert drawn(DayLine("a", (), quarters, often={0, 900})) == [("next often", 0, 33), ("next", 45, 3)]
    assert drawn(DayLine("a", (), [0], often={0})) == [("next often", 0, 3)]
