"""Windows, tiers and durations, against what was put in."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import msgspec
import pytest

from engine.pipeline.audit.percentiles import Percentiles
from engine.pipeline.audit.report import Report
from engine.pipeline.audit.scope import LENGTHS_MS, MOST, window_of
from tests.engine.pipeline.audit.asking import audit, report
from tests.engine.pipeline.audit.planting import Planter
from tests.engine.pipeline.audit.telling import DAY_MS, MINUTE_MS, SUBSCRIPTIONS, Hotel, Told

HOUR_MS = 60 * MINUTE_MS


def exact(ms: list[int], part: float) -> int:
    return sorted(ms)[math.ceil(part * len(ms)) - 1]


def agrees(found: Percentiles, ms: list[int]) -> None:
    assert found.count == len(ms)
    assert found.longest == max(ms)
    assert [found.p50, found.p95, found.p99, found.p999] == pytest.approx(
        [exact(ms, part) for part in (0.5, 0.95, 0.99, 0.999)], rel=0.02
    )


def test_each_message_is_in_the_window_it_happened_in_at_every_tier(hotel: Hotel, told: Told) -> None:
    planter = Planter(told)
    planter.not_archived(12)
    gone = {each.id for each in told.published} - {each.id for each in told.stored}
    hotel.archive(told)

    found = audit(hotel, window_ms=HOUR_MS)

    # When it happened is not known of those that are not there: then it is when they were published.
    happened = {each.id: each.stored_ms if each.id in gone else each.time_ms or 0 for each in told.published}
    published = Counter(at // HOUR_MS * HOUR_MS for at in happened.values())
    archived = Counter(happened[each.id] // HOUR_MS * HOUR_MS for each in told.stored)
    assert {window.from_ms: window.published.messages for window in found.windows if window.published} == published
    assert {window.from_ms: window.archived.messages for window in found.windows} == archived
    for window in found.windows:
        assert window.closed
        assert window.complete == archived[window.from_ms] / published[window.from_ms]
        assert set(window.subscriptions) == set(SUBSCRIPTIONS)
        for of_it in window.subscriptions.values():
            assert (of_it.outcomes, of_it.open) == ({"settled": published[window.from_ms]}, 0)
    assert found.complete == (6_000 - 12) / 6_000


def test_bytes_are_those_of_the_envelopes(hotel: Hotel, told: Told) -> None:
    hotel.archive(told)
    found = audit(hotel)
    size = sum(len(each.envelope) for each in told.stored)
    assert found.archived.bytes == sum(window.archived.bytes for window in found.windows) == size
    assert found.published is not None
    assert found.published.bytes == size


def test_parts_of_a_span_add_up_to_the_whole(hotel: Hotel, told: Told) -> None:
    hotel.archive(told)
    whole = audit(hotel)
    edges = [hotel.start_ms + hours * HOUR_MS for hours in (-1, 7, 24, 47, 48, 80)]
    parts = [audit(hotel, from_ms=start, to_ms=end) for start, end in pairwise(edges)]
    assert [part.findings for part in parts] == [[]] * 5
    assert sum(part.archived.messages for part in parts) == whole.archived.messages == 6_000
    assert sum(part.published.messages for part in parts if part.published) == 6_000
    assert sum(part.archived_after.count for part in parts) == 6_000
    for name in SUBSCRIPTIONS:
        told_of = [each for part in parts for each in part.subscriptions if each.name == name]
        assert sum(each.outcomes.get("settled", 0) for each in told_of) == 6_000


def test_a_span_reads_the_days_it_needs_and_no_others(hotel: Hotel, told: Told) -> None:
    hotel.archive(told)
    start = hotel.start_ms + 2 * DAY_MS
    part = report(hotel, from_ms=start + HOUR_MS, to_ms=start + 2 * HOUR_MS)
    assert 0 < part.files < len(hotel.lake.state().files)


def test_how_long_settling_and_archiving_took_is_told_within_two_percent(hotel: Hotel, told: Told) -> None:
    hotel.archive(told, rounds=4)
    found = audit(hotel)
    stored = {each.id: each.stored_ms for each in told.stored}
    for each in found.subscriptions:
        took = [one.at_ms - stored[one.id] for one in told.deliveries if one.subscription == each.name]
        agrees(each.settled_after, took)
    rounds = [told.stored[start : start + 1_500] for start in range(0, 6_000, 1_500)]
    agrees(found.archived_after, [part[-1].stored_ms + 30_000 - each.stored_ms for part in rounds for each in part])


def test_attempts_and_what_was_told_are_counted(hotel: Hotel, told: Told) -> None:
    some = {each.id for each in told.stored[100:160]}
    again = [
        replace(each, attempt=attempt, kind="retried", at_ms=each.at_ms + attempt)
        for each in told.deliveries
        if each.id in some and each.subscription == "billing"
        for attempt in (1, 2)
    ]
    told.deliveries = [
        replace(each, attempt=3, at_ms=each.at_ms + 9) if each.id in some and each.subscription == "billing" else each
        for each in told.deliveries
    ] + again
    hotel.archive(told)
    billing, housekeeping = audit(hotel).subscriptions
    assert billing.told == {"retried": 120, "settled": 6_000}
    assert billing.attempts == {1: 6_000, 2: 60, 3: 60}
    assert (housekeeping.told, housekeeping.attempts) == ({"settled": 6_000}, {1: 6_000})


def test_windows_are_the_shortest_of_which_there_are_not_too_many() -> None:
    assert window_of(0) == LENGTHS_MS[0]
    for shorter, longer in pairwise(LENGTHS_MS):
        assert window_of(MOST * shorter) == shorter
        assert window_of(MOST * shorter + 1) == longer


def test_a_report_is_json_and_comes_back_as_it_was(hotel: Hotel, told: Told) -> None:
    planter = Planter(told)
    planter.not_told(5)
    hotel.archive(told)
    made = report(hotel)
    raw = msgspec.json.encode(made)
    assert msgspec.json.encode(report(hotel)) == raw.replace(b'"computed":%d' % made.computed, b'"computed":0')
    back = msgspec.json.decode(raw, type=Report)
    assert msgspec.json.encode(back) == raw
    assert back.verdict == made.verdict
