"""The picture of a result."""

from __future__ import annotations

import re
from itertools import pairwise
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
    chart = chart_of(answer("TIMESTAMP", ["2026-10-01T00:00:00", 1], ["2026-11-01T00:00:00", None], ["2026-12-01", 3]))
    assert chart is not None
    assert chart.series[0].line.count("M") == 2
    assert chart.below[0].text == "1 Oct"
    many = chart_of(answer("VARCHAR", *([str(n), n] for n in range(MOST_BARS + 1))))
    assert many is not None
    assert not many.series[0].bars


def at(line: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"[ML]([\d.]+) ([\d.]+)", line)]


def test_times_stand_as_far_apart_as_they_are_and_in_their_order() -> None:
    times = ["2026-11-30T10:00:00", "2026-11-30T09:00:00", None, "2026-11-30T09:15:00", "infinity"]
    chart = chart_of(answer("TIMESTAMP", *([each, n] for n, each in enumerate(times))))
    assert chart is not None
    (first, _), (second, _), (last, _) = at(chart.series[0].line)
    assert second - first == pytest.approx((last - first) / 4, abs=0.2)
    assert [mark.text for mark in chart.below] == ["09:00", "09:15", "10:00"]


@pytest.mark.parametrize(
    ("kind", "times", "wanted"),
    [
        ("DATE", ["2026-11-29", "2026-11-30"], ["29 Nov", "30 Nov"]),
        ("DATE", ["2025-11-30", "2026-11-30"], ["30 Nov 2025", "30 Nov 2026"]),
        ("TIMESTAMP", ["2026-11-29T09:00:00", "2026-11-30T09:15:00"], ["29 Nov 09:00", "30 Nov 09:15"]),
        ("TIMESTAMP_S", ["2026-11-30T09:00:05", "2026-11-30T09:00:40"], ["09:00:05", "09:00:40"]),
        ("TIMESTAMP WITH TIME ZONE", ["2026-11-30T09:00:00+02:00", "2026-11-30T09:15:00+00:00"], ["07:00", "09:15"]),
        ("TIMESTAMP", ["2026-11-30T09:00:00", "2026-11-30T09:00:00"], ["2026-11-30T09…", "2026-11-30T09…"]),
    ],
)
def test_times_are_written_as_on_other_axes(kind: str, times: list[str], wanted: list[str]) -> None:
    chart = chart_of(answer(kind, *([each, 1] for each in times)))
    assert chart is not None
    assert [mark.text for mark in chart.below] == wanted


def test_no_two_times_are_written_over_each_other() -> None:
    rows = [[f"2026-11-{day:02}T{hour:02}:30:00", 1] for day in (1, 2, 9, 15, 29) for hour in range(24)]
    chart = chart_of(answer("TIMESTAMP", *rows))
    assert chart is not None
    ends = [(each.x - 6.4 * len(each.text) * (1 if each.anchor == "end" else 0.5), each) for each in chart.below]
    assert len(ends) > 2
    for (left, mark), (following, _) in pairwise(ends):
        assert left + 6.4 * len(mark.text) <= following


def test_a_column_without_a_number_is_not_named_and_a_lone_one_is_seen() -> None:
    columns = [QueryColumn("by", "DATE"), *(QueryColumn(name, "BIGINT") for name in "abcdef")]
    rows = [["2026-11-28", None, 1, 2, 3, None, 5], ["2026-11-29", None, 1, 2, 3, 4, 5]]
    chart = chart_of(QueryAnswer(columns, rows))
    assert chart is not None
    assert [each.name for each in chart.series] == ["b", "c", "d", "e"]
    assert chart.series[3].line.endswith("h4")
    assert chart_of(answer("VARCHAR", ["a", None], ["b", None])) is None


def test_a_name_that_is_cut_says_so() -> None:
    chart = chart_of(answer("VARCHAR", ["fourteen chars", 1], ["fifteen chars..", 2]))
    assert chart is not None
    assert [mark.text for mark in chart.below] == ["fourteen chars", "fifteen chars…"]


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
