"""The arithmetic of growth, by cases one can work out by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from engine.core.errors import BadInput
from hbus_console.bench.growth.costs import Costs, load, predicted_rate, save
from hbus_console.bench.growth.plan import DAY_S, GIB, Demand, bends, needs

COSTS = Costs(
    conditions="by hand",
    size=200,
    publish_us=10,
    consume_us=20,
    store_publish_us=4,
    store_consume_us=3,
    stored_b=500,
    logged_publish_b=600,
    logged_consume_b=200,
    booked_us=50,
    booked_b=1000,
    cores=2,
    processes=2,
    measured_rate=80_000,
)
#: 10,000 messages a second at the peak, 5,000 on average; two deliveries each.
DEMAND = Demand(per_day=5_000 * DAY_S, peak=2, groups=2, handler_ms=10, handler_cpu_ms=0.08, busy=0.5, busiest=0.25)


def units() -> dict[str, float]:
    return {need.what: need.units for need in needs(COSTS, DEMAND)}


def test_needs_follow_from_the_peak_and_the_costs() -> None:
    found = units()
    assert found["cores that publish"] == pytest.approx(10_000 * 10e-6 / 0.5)
    assert found["stores"] == pytest.approx(10_000 * (4 + 2 * 3) * 1e-6 / 0.5)
    assert found["append-only files"] == pytest.approx(10_000 * (600 + 2 * 200) / 1e6)
    assert found["cores that consume"] == pytest.approx(20_000 * (20 + 80) * 1e-6 / 0.5)
    assert found["handler threads"] == pytest.approx(20_000 * 0.01 / 0.5)
    # 400 threads in 25 processes ask for more than 4 cores do
    assert found["consumer processes"] == pytest.approx(400 / 16)


def test_what_is_kept_follows_from_the_day() -> None:
    found = units()
    assert found["memory of the stores"] == pytest.approx(DEMAND.per_day * 500 / GIB)
    # Two deliveries make half as many facts again as one
    assert found["ledger"] == pytest.approx(DEMAND.per_day * 1000 * 1.5 / GIB)
    assert found["cores that book"] == pytest.approx(5_000 * 50e-6 * 1.5 / 0.5)


def test_units_are_rounded_up() -> None:
    whole = {need.what: need.whole for need in needs(COSTS, DEMAND)}
    assert (whole["stores"], whole["cores that consume"]) == (1, 4)


def test_the_nearest_end_comes_first_and_carries_just_what_one_unit_can() -> None:
    found = bends(COSTS, DEMAND)
    assert [each.per_day for each in found] == sorted(each.per_day for each in found)
    store = next(each for each in found if each.what == "the one store of an installation")
    at_the_end = replace(DEMAND, per_day=store.per_day)
    assert {need.what: need.units for need in needs(COSTS, at_the_end)}["stores"] == pytest.approx(1)
    assert all(each.answer for each in found)


@pytest.mark.parametrize(
    ("processes", "cores", "limit_us"),
    [(1, 8, 20), (2, 8, 10), (16, 8, 3), (2, 2, 11.5), (16, 2, 11.5)],
    ids=["one process", "two", "the store's thread", "two cores", "two cores, many processes"],
)
def test_the_rate_is_what_runs_out_first(processes: int, cores: int, limit_us: float) -> None:
    assert predicted_rate(COSTS, processes, cores) == pytest.approx(1e6 / limit_us)


@pytest.mark.parametrize(
    ("field", "value"), [("peak", 0.5), ("busy", 1.2), ("per_day", 0), ("handler_cpu_ms", 6.0), ("busiest", -1.0)]
)
def test_a_demand_that_cannot_be_is_refused_by_name(field: str, value: float) -> None:
    with pytest.raises(BadInput) as refused:
        Demand(**{field: value})
    assert refused.value.field == field
    assert refused.value.remedy


def test_costs_come_back_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    save(path, COSTS)
    assert load(path) == COSTS


def test_costs_that_are_not_there_or_not_whole_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    with pytest.raises(BadInput, match="no measured costs"):
        load(path)
    path.write_bytes(msgspec.json.encode({"size": 200}))
    with pytest.raises(BadInput, match="holds no costs"):
        load(path)
