from __future__ import annotations

import re

import pytest
from django.test import RequestFactory

from engine.core.clock import ManualClock
from engine.core.errors import BadInput
from hbus_console.state import ROOT
from hbus_console.ui.timerange import PARAMETERS, problem, read_range, time_range

NOW = 1_795_183_331_204


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


def test_the_last_hour_is_the_default_and_leaves_no_trace_in_links(clock: ManualClock) -> None:
    found = time_range(RequestFactory().get("/"), clock)
    assert (found.start_ms, found.end_ms, found.query) == (NOW - 3_600_000, NOW, "")
    assert found.moving


def test_a_preset_is_carried_on_by_links(clock: ManualClock) -> None:
    found = time_range(RequestFactory().get("/?range=24h"), clock)
    assert (found.end_ms - found.start_ms, found.label, found.query) == (86_400_000, "Last 24 hours", "range=24h")


def test_from_and_to_take_epoch_milliseconds_and_local_times(clock: ManualClock) -> None:
    found = time_range(RequestFactory().get(f"/?from={NOW - 1000}&to=2026-11-20T14:10"), clock)
    assert found.start_ms == NOW - 1000
    assert found.end_ms == 1_795_183_800_000
    assert found.query == f"from={NOW - 1000}&to=1795183800000"
    assert not found.moving
    assert found.label == "20 Nov 14:02 to 14:10"


def test_without_an_end_it_moves_on(clock: ManualClock) -> None:
    found = time_range(RequestFactory().get(f"/?from={NOW - 60_000}"), clock)
    assert (found.end_ms, found.moving, found.label, found.phrase) == (
        NOW,
        True,
        "Since 20 Nov 14:01",
        "since 20 Nov 14:01",
    )


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("range=2h", "range"),
        ("from=yesterday", "from"),
        (f"from={NOW}&to={NOW - 1}", "to"),
        (f"from=0&to={NOW}", "from"),
        ("from=99999999999999999999", "from"),
        # Which an offset puts out of every calendar, and those that lie so near that a range or a wall would.
        ("to=0001-01-01T00:00:00%2B14:00", "to"),
        ("to=9999-12-31T23:59:59-14:00", "to"),
        ("to=0001-01-01T00:10:00Z", "to"),
        ("to=9999-12-31T23:59:59Z", "to"),
        ("to=1969-12-31T23:59:59Z", "to"),
    ],
)
def test_a_range_that_cannot_be_is_refused_naming_the_parameter(clock: ManualClock, query: str, field: str) -> None:
    with pytest.raises(BadInput) as refused:
        read_range(RequestFactory().get(f"/?{query}"), clock)
    assert refused.value.field == field
    assert refused.value.remedy


def test_a_page_falls_back_to_the_default_and_can_say_why(clock: ManualClock) -> None:
    request = RequestFactory().get("/?range=2h")
    found = time_range(request, clock)
    assert found.end_ms - found.start_ms == 3_600_000
    said = problem(request)
    assert said is not None
    assert "2h" in said.what


def test_it_is_read_once_a_request_so_that_a_page_is_of_one_moment(clock: ManualClock) -> None:
    request = RequestFactory().get("/")
    first = time_range(request, clock)
    clock.advance(5)
    assert time_range(request, clock) is first


def test_no_form_s_field_is_called_like_the_range_of_the_pages() -> None:
    """The range's own form and the hidden fields that carry it on are all; another would be read as the range."""
    own = {"range.html", "range_fields.html"}
    templates = [path for folder in ("templates", "hbus_console") for path in (ROOT / folder).rglob("*.html")]
    named = re.compile(rf"""name=["']({"|".join(PARAMETERS)})["']""")
    taken = {path.name for path in templates if named.search(path.read_text(encoding="utf-8"))}
    assert taken == own


def test_the_last_hour_is_carried_on_where_it_was_chosen(clock: ManualClock) -> None:
    # A page that shows all there is without a range would else forget it.
    assert time_range(RequestFactory().get("/?range=1h"), clock).query == "range=1h"


def test_a_malformed_range_leaves_no_trace_in_links(clock: ManualClock) -> None:
    assert time_range(RequestFactory().get("/?range=2h"), clock).query == ""


def test_where_a_zone_is_asked_for_a_moment_without_one_is_refused(clock: ManualClock) -> None:
    """The console's own forms send the time of its zone; a program may mean another."""
    request = RequestFactory().get("/?from=2026-01-01T00:00:00")
    read_range(request, clock)
    with pytest.raises(BadInput, match="names no zone") as refused:
        read_range(request, clock, zoned=True)
    assert refused.value.field == "from"
    read_range(RequestFactory().get("/?from=2026-01-01T00:00:00%2B01:00"), clock, zoned=True)
