"""The real measurement of quotas, small: a row of each kind. How fast anything is, is not judged here."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from hbus_console.bench import baseline, quota, quota_calls
from hbus_console.bench.loops import alone, together
from hbus_console.bench.peers import go_program, go_rate, limiters
from hbus_console.bench.quota import QuotaRig
from hbus_console.bench.rig import chosen
from hbus_console.bench.rows import Row
from hbus_console.supervisor import nsqd
from hbus_console.supervisor.standalone import StandaloneStore


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Iterator[QuotaRig]:
    monkeypatch.setattr(quota, "ROUND_TRIPS", 100)
    monkeypatch.setattr(quota, "REQUESTS", 100)
    monkeypatch.setattr(quota, "WARM_S", 0.01)
    monkeypatch.setattr(quota_calls, "ROUNDS", 1)
    with quota.measured(calls=1_000, tenants=50, samples=1) as made:
        yield made


def only(rig: QuotaRig, what: str) -> list[Row]:
    return [each.measure() for each in chosen(list(quota.measurements(rig)), what)]


def test_each_row_bears_a_name_of_its_own(rig: QuotaRig) -> None:
    names = [each.what for each in quota.measurements(rig)]
    assert len(set(names)) == len(names) == 15


@pytest.mark.long
def test_limiters_are_measured_beside_go_with_one_thread_and_eight(rig: QuotaRig) -> None:
    rows = only(rig, "beside Go")
    assert [row.goal for row in rows] == [0.6, 3.0, 0.6, 3.0]
    for row in rows:
        assert (row.area, row.unit, row.samples) == ("quota", "ns", 1)
        assert row.ours is not None
        assert "the goal the most it may be" in row.conditions
        if row.theirs is None:
            # Where there is no Go, the row says so.
            assert "no Go" in row.peer or "be built" in row.peer
        else:
            assert row.ratio == pytest.approx(row.ours / row.theirs)
            assert row.holds is (row.ratio <= (row.goal or 0))


def test_the_local_limiter_is_measured_beside_every_limiter_in_python(rig: QuotaRig) -> None:
    rows = [row for peer in limiters.PEERS for row in only(rig, f"beside {peer}")]
    assert [row.peer.partition(",")[0] for row in rows] == list(limiters.PEERS)
    assert all(row.theirs is not None and row.goal == 1.0 for row in rows)


def test_the_control_plane_s_answers_are_timed_and_counted(rig: QuotaRig) -> None:
    (refill,) = only(rig, "refill")
    assert (refill.unit, refill.goal, refill.p50) == ("ms", None, refill.ours)
    assert (refill.p99 or 0) >= (refill.p50 or 0) > 0
    rows = only(rig, "Wants a second")
    assert [row.what for row in rows] == [
        "Wants a second of 8 claimants of one bucket",
        "Wants a second of 50 tenants",
        "Wants a second of 50 tenants held to 6 rules each",
    ]
    assert all((row.ours or 0) > 0 and (row.theirs or 0) > 0 for row in rows)


def test_a_request_is_measured_with_the_check_and_without(rig: QuotaRig) -> None:
    (row,) = only(rig, "Django request")
    assert (row.unit, row.goal, row.theirs) == ("µs", quota.GOAL_REQUEST_US, None)
    assert row.holds is ((row.ours or 0) < quota.GOAL_REQUEST_US)


def test_a_peer_that_cannot_be_had_is_named_beside_our_own_figure(
    rig: QuotaRig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nsqd, "find_go", lambda: None)
    monkeypatch.setattr(go_rate, "build", lambda: go_program.build("rate", go_rate.SOURCES, tmp_path))
    monkeypatch.setitem(limiters.PEERS, "limits", limiters.PEERS["limits"]._replace(module="no_such_module"))  # type: ignore[misc]
    for what, words in (("LocalLimiter.allow(), 1 thread, beside Go", "no Go"), ("beside limits", "not installed")):
        (row,) = only(rig, what)
        assert row.ours is not None
        assert (row.theirs, row.holds) == (None, None)
        assert words in row.peer


def test_those_who_are_refused_are_counted_in_the_row(rig: QuotaRig) -> None:
    assert alone(lambda: False, 10).refused == 10
    assert together(lambda: False, 16, 8).refused == 16
    assert together(lambda: True, 16, 8).refused == 0


def test_the_name_tells_the_pinned_version() -> None:
    pins = (go_rate.SOURCES / "go.mod").read_text(encoding="utf-8")
    (version,) = re.findall(r"golang.org/x/time v(\S+)", pins)
    assert version in go_rate.NAME


def test_a_row_is_one_line_of_json(rig: QuotaRig) -> None:
    (row,) = only(rig, "beside token-bucket")
    assert json.loads(row.as_json())["what"] == "LocalLimiter.allow(), 1 thread, beside token-bucket"


def test_the_baseline_of_the_repository_has_every_row_with_its_conditions(own_store: StandaloneStore) -> None:
    rig = QuotaRig(own_store, calls=1, tenants=10_000, samples=1)
    saved = baseline.load(baseline.file_of(quota.AREA))
    assert list(saved) == [each.what for each in quota.measurements(rig)]
    assert all("load" in row.conditions and row.ours for row in saved.values())
    rig.plane.close()
