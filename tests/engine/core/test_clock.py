from __future__ import annotations

import threading

import pytest

from engine.core.clock import ManualClock, SystemClock, from_rfc3339, to_datetime, to_rfc3339


@pytest.mark.parametrize(
    ("epoch_ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_790_000_000_007, "2026-09-21T14:13:20.007Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (4_102_444_799_999, "2099-12-31T23:59:59.999Z"),
    ],
)
def test_instants_are_written_and_read_in_utc(epoch_ms: int, text: str) -> None:
    assert to_rfc3339(epoch_ms) == text
    assert from_rfc3339(text) == epoch_ms
    assert round(to_datetime(epoch_ms).timestamp() * 1000) == epoch_ms


@pytest.mark.parametrize(
    ("epoch_ms", "text"),
    [
        (253_402_300_800_000, "9999-12-31T23:59:59.000Z"),
        (2**63 - 1, "9999-12-31T23:59:59.807Z"),
        (-(2**63), "0001-01-01T00:00:00.192Z"),
    ],
)
def test_what_no_calendar_has_is_written_as_the_nearest_that_it_has(epoch_ms: int, text: str) -> None:
    assert to_rfc3339(epoch_ms) == text


def test_an_offset_is_honoured_and_required() -> None:
    assert from_rfc3339("2026-11-21T09:00:00+01:00") == from_rfc3339("2026-11-21T08:00:00Z")
    with pytest.raises(ValueError, match="no UTC offset"):
        from_rfc3339("2026-11-21T08:00:00")


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_an_instant_that_no_calendar_has_in_utc_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="before the year 1 or after 9999"):
        from_rfc3339(text)


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.9999999Z"])
def test_the_first_and_the_last_instant_are_read_and_can_be_written(text: str) -> None:
    assert to_datetime(from_rfc3339(text)).year in (1, 9999)


def test_a_manual_clock_stands_still_until_it_is_moved() -> None:
    clock = ManualClock(1_000)
    clock.advance(1.5)
    assert (clock.now_ms(), clock.monotonic()) == (2_500, 1.5)
    clock.step_wall(-2)
    assert (clock.now_ms(), clock.monotonic()) == (500, 1.5)
    with pytest.raises(ValueError, match="forward"):
        clock.advance(-1)


def test_waiting_on_a_manual_clock_ends_with_the_event_or_the_time() -> None:
    clock = ManualClock()
    event = threading.Event()
    answers: list[bool] = []
    waiter = threading.Thread(target=lambda: answers.append(clock.wait(event, 60)))
    waiter.start()
    clock.advance(59)
    assert waiter.is_alive()
    clock.advance(1)
    waiter.join(10)
    event.set()
    assert (answers, clock.wait(event, 60)) == ([False], True)


def test_the_system_clock_waits_no_negative_time() -> None:
    assert not SystemClock().wait(threading.Event(), -1)
