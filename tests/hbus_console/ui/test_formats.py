from __future__ import annotations

from datetime import UTC, datetime

import pytest

from hbus_console.ui import formats

AT_MS = 1_795_183_331_204


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1234567, "1,234,567"),
        (0, "0"),
        (0.456, "0.46"),
        (12.34, "12.3"),
        (10.0, "10"),
        (999.6, "1,000"),
        (None, "–"),
        ("", "–"),
    ],
)
def test_numbers_have_separators_and_as_many_decimals_as_can_be_read(value: object, text: str) -> None:
    assert formats.num(value) == text


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (640, "640 µs"),
        (3_800, "3.8 ms"),
        (1_234_000, "1.2 s"),
        (72_000_000, "1 m 12 s"),
        (60_000_000, "1 m"),
        (7_500_000_000, "2 h 5 m"),
        (273_600_000_000, "3 d 4 h"),
        (None, "–"),
    ],
)
def test_durations_use_the_two_units_that_matter(us: int | None, text: str) -> None:
    assert formats.duration(us) == text


@pytest.mark.parametrize(("size", "text"), [(214, "214 B"), (1536, "1.5 KB"), (222_298_112, "212 MB"), (None, "–")])
def test_sizes_step_by_1024(size: int | None, text: str) -> None:
    assert formats.size(size) == text


@pytest.mark.parametrize(
    ("distance_ms", "text"),
    [
        (400, "just now"),
        (1_000, "1 second ago"),
        (28 * 60_000, "28 minutes ago"),
        (-3 * 3_600_000, "in 3 hours"),
        (2 * 86_400_000, "2 days ago"),
    ],
)
def test_relative_times_look_back_and_ahead(distance_ms: int, text: str) -> None:
    assert formats.relative(distance_ms) == text


def test_ago_says_the_exact_moment_on_hover() -> None:
    html = formats.ago(AT_MS, now_ms=AT_MS + 28 * 60_000)
    assert html == (
        '<time datetime="2026-11-20T14:02:11.204+00:00" title="2026-11-20 14:02:11 UTC" data-ago>28 minutes ago</time>'
    )


def test_a_moment_may_be_milliseconds_or_a_datetime() -> None:
    moment = datetime(2026, 11, 20, 14, 2, 11, 204_000, tzinfo=UTC)
    assert formats.clock(AT_MS) == formats.clock(moment) == "14:02:11.204"


def test_clock_follows_the_zone_of_the_console() -> None:
    from django.utils import timezone

    with timezone.override("Asia/Tokyo"):
        assert formats.clock(AT_MS) == "23:02:11.204"


def test_no_moment_is_a_dash() -> None:
    assert formats.ago(None) == formats.clock(0) == formats.exact("") == "–"


def test_short_id_keeps_both_ends() -> None:
    assert formats.short_id("01K9ZC3M8V5T2W0X4Y6B7RZM") == "01K9…7RZM"
    assert formats.short_id("01a0c3f0-217b-7abc-9def-0123456789ab") == "01a0…89ab"
    assert formats.short_id("abc") == "abc"


def test_an_id_made_of_words_keeps_what_tells_it_apart() -> None:
    assert formats.short_id("booking-48213/created") == "booking-48213/created"
    assert formats.short_id("reservations/booking/48213/created") == "reservations…213/created"


def test_what_is_too_long_is_cut_in_its_middle() -> None:
    assert formats.cut("booking/48213", 13) == "booking/48213"
    assert formats.cut("booking/48213", 12) == "bookin…48213"
    assert {len(formats.cut("k" * 190, most)) for most in (13, 14)} == {13, 14}
    assert formats.cut(None, 5) == ""


def test_one_thing_is_not_told_as_several() -> None:
    assert formats.counted(1, "message") == "1 message"
    assert formats.counted(1_204, "message") == "1,204 messages"
    assert formats.counted(0, "entry", "entries") == "0 entries"
    assert formats.counted(1, "letter waits", "letters wait") == "1 letter waits"


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        (86_400, "seconds", "1 day"),
        (7_200, "seconds", "2 hours"),
        (90, "seconds", ""),
        (168, "hours", "7 days"),
        (1_048_576, "bytes", "1 MiB"),
        (65_536, "bytes", "64 KiB"),
        (1_000_000, "bytes", ""),
        (0, "seconds", ""),
        (4, "threads", ""),
        ("many", "seconds", ""),
        (None, "bytes", ""),
    ],
)
def test_a_value_is_told_in_a_larger_unit_that_holds_it_whole(value: object, unit: str, words: str) -> None:
    assert formats.in_larger_unit(value, unit) == words


@pytest.mark.parametrize(("number", "said"), [(0, "none waits"), (1, "waits"), (2, "wait"), (1_000, "wait")])
def test_words_agree_with_the_number_beside_them(number: int, said: str) -> None:
    assert formats.agreeing(number, "waits", "wait", none="none waits") == said
