"""The form of a figure."""

from __future__ import annotations

import json

from hbus_console.bench.rows import compare, missing, table

FIELDS = ["area", "what", "unit", "ours", "peer", "theirs", "ratio", "goal", "holds", "samples", "conditions"]


def test_runs_are_interleaved_and_the_medians_compared() -> None:
    order: list[str] = []
    mine, other = iter([10.0, 90.0, 30.0]), iter([20.0, 10.0, 400.0])

    def ours() -> float:
        order.append("ours")
        return next(mine)

    def theirs() -> float:
        order.append("theirs")
        return next(other)

    row = compare("bus", "w", "msg/s", ours=ours, peer="p", theirs=theirs, samples=3, conditions="c", goal=1.6)
    assert order == ["ours", "theirs"] * 3
    assert (row.ours, row.theirs, row.ratio, row.holds) == (30.0, 20.0, 1.5, False)


def test_a_line_of_json_has_the_fields_of_the_design_and_latencies_only_where_measured() -> None:
    row = compare(
        "bus", "w", "msg/s", ours=lambda: 2.0, peer="p", theirs=lambda: 1.0, samples=1, conditions="c", goal=2
    )
    assert list(json.loads(row.as_json())) == FIELDS
    assert row.holds is True


def test_a_row_whose_peer_could_not_be_had_says_so_and_has_no_ratio() -> None:
    row = missing("bus", "w", "msg/s", ours=5.0, peer="celery", why="not installed", conditions="c", goal=20)
    assert (row.peer, row.ratio, row.holds) == ("celery: not installed", None, None)
    assert "celery: not installed" in table([row])


def test_of_a_time_the_goal_is_the_greatest_ratio() -> None:
    rows = [
        compare(
            "quota", "w", "ns", ours=lambda: 50.0, peer="p", theirs=lambda: 100.0, samples=1, conditions="c", goal=goal
        )
        for goal in (0.6, 0.4)
    ]
    assert [row.holds for row in rows] == [True, False]
    assert rows[0].ratio == 0.5
    assert "≤ 0.6" in table(rows)
