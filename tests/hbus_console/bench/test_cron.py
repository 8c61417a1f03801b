"""The real measurement of schedules, small: a row of each kind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hbus_console.bench import cron, cron_specs
from hbus_console.bench.cron import CronRig
from hbus_console.bench.rig import chosen


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Iterator[CronRig]:
    monkeypatch.setattr(cron, "AT_ONCE", 200)
    monkeypatch.setattr(cron, "BEAT", 20)
    monkeypatch.setattr(cron_specs, "SLOTS", 5)
    with cron.measured(schedules=300, samples=1) as made:
        yield made


def test_each_row_bears_a_name_of_its_own(rig: CronRig) -> None:
    names = [each.what for each in cron.measurements(rig)]
    assert len(set(names)) == len(names) == 7


def test_expressions_are_measured_beside_both_peers(rig: CronRig) -> None:
    for peer in ("croniter", "cronsim"):
        for each in chosen(list(cron.measurements(rig)), f"beside {peer}"):
            row = each.measure()
            assert row.ours is not None
            assert row.theirs is not None
            assert row.ratio == pytest.approx(row.ours / row.theirs)


@pytest.mark.long
def test_slots_of_one_second_are_measured_beside_each_beat(rig: CronRig) -> None:
    rows = [each.measure() for each in chosen(list(cron.measurements(rig)), "of one second")]
    assert [row.peer for row in rows] == ["Celery beat, 20 entries", "redbeat, 20 entries"]
    for row in rows:
        assert (row.unit, row.goal) == ("/s", cron.ALL_WITHIN_MS)
        assert row.theirs is not None
        assert row.ratio is not None
        assert "the last of 200 was started after" in row.conditions
    # In the same run.
    assert rows[0].ours == rows[1].ours


@pytest.mark.long
def test_lateness_is_measured_of_every_schedule(rig: CronRig) -> None:
    found = rig.node(60, 2)
    # Two of sixty seconds.
    assert found["count"] == 2
    assert found["most"] >= found["p99"] >= 0
