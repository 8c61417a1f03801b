"""The picture of a result."""

from __future__ import annotations

from typing import Any

import pytest

from engine.pipeline.query.spec import QueryAnswer, QueryColumn
from hbus_console.pipelines.queries.chart import HEIGHT, MOST_BARS, WIDTH, chart_of


def answer(kind: str, *rows: list[Any], numbers: str = "BIGINT") -> QueryAnswer:
    return QueryAnswer([QueryColumn("by", kind), QueryColumn("n", numbers)], rows)


def test_few_names_are_bars_from_nought() -> None:
    chart = chart_of(answer("VARCHAR", ["a", 10], ["b", -5], ["c", None]))
    assert chart is not None
    (series,) = chart.series
    assert [bar.title for bar in series.bars] == ["a: n 10", "b: n -5"]
    up, down = series.bars
    assert up.y + up.height == pytest.approx(chart.base)
    assert down.y == chart.base
    assert up.height == pytest.approx(2 * down.height, abs=0.2)
    assert all(bar.x >= 0 and bar.x + bar.width <= WIDTH for bar in series.bars)
    assert [mark.text for mark in chart.below] == ["a", "b", "c"]


def test_times_and_many_rows_are_a_line_broken_where_nothing_is_known() -> None:
    chart = chart_of(answer("TIMESTAMP", ["2026-10-01T00:00:00", 1], ["2026-11-01T00:00:00", None], ["x", 3]))
    assert chart is not None
    assert chart.series[0].line.count("M") == 2
    assert chart.below[0].text == "2026-10-01"
    many = chart_of(answer("VARCHAR", *([str(n), n] for n in range(MOST_BARS + 1))))
    assert many is not None
    assert not many.series[0].bars


def test_axis_values_are_round_and_hold_all() -> None:
    for numbers in ([3, 17], [0.001, 0.0042], [-7, 12_345], [0, 0], [1e12, 2e12]):
        chart = chart_of(answer("VARCHAR", *(["x", number] for number in numbers), numbers="DOUBLE"))
        assert chart is not None
        assert 2 <= len(chart.beside) <= 8
        assert all(0 <= mark.y <= HEIGHT for mark in chart.beside)
        assert all(0 <= bar.y <= bar.y + bar.height <= HEIGHT for bar in chart.series[0].bars)


def test_decimals_are_numbers_and_texts_are_none() -> None:
    chart = chart_of(answer("VARCHAR", ["a", "1.50"], ["b", "2.5"], numbers="DECIMAL(4,2)"))
    assert chart is not None
    assert chart.series[0].bars[0].title == "a: n 1.5"
    assert chart_of(answer("VARCHAR", ["a", "1"], ["b", "2"], numbers="VARCHAR")) is None
    assert chart_of(answer("VARCHAR", ["a", 1])) is None
    assert chart_of(answer("VARCHAR")) is None
