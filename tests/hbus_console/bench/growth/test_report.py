"""What the tables say of their numbers."""

from __future__ import annotations

from dataclasses import replace

from hbus_console.bench.growth.plan import needs
from hbus_console.bench.growth.report import tables
from tests.hbus_console.bench.growth.test_plan import COSTS, DEMAND


def test_one_of_a_thing_is_said_in_the_singular() -> None:
    demand = replace(DEMAND, per_day=1_000_000)
    told = tables(COSTS, demand)
    assert {need.whole for need in needs(COSTS, demand) if need.unit == "cores"} == {1}
    for unit in ("cores", "stores", "threads", "processes"):
        assert f"| 1 {unit} |" not in told
    assert "| 1 core |" in told
    assert "| 1 store |" in told
