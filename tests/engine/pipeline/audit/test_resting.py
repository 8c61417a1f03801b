"""A topic at rest is judged at once, up to its last message; one of which something may yet be told waits for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from engine.core.verdicts import AuditVerdict
from engine.pipeline.audit.auditing import Auditor, TopicKnown
from engine.pipeline.audit.closing import TELLING_MS
from engine.pipeline.audit.report import TopicAudit
from tests.engine.pipeline.audit.telling import SUBSCRIPTIONS, TOPIC, Hotel, Told, season

NUMBER = 200


@pytest.fixture
def young(hotel: Hotel) -> Told:
    """All of it stored within four minutes; the last of it is some seconds old."""
    return season(NUMBER, hotel.start_ms, every_ms=1_200)


def audited(hotel: Hotel, told: Told, to_ms: int | None = None, drained_ms: int = 0) -> TopicAudit:
    hotel.archive(told)
    complete_ms = told.published[-1].stored_ms + 10_000
    since = dict.fromkeys(SUBSCRIPTIONS, hotel.start_ms)
    drained = {"housekeeping": drained_ms} if drained_ms else {}
    known = {TOPIC: TopicKnown(since, complete_ms=complete_ms, drained=drained)}
    (found,) = Auditor(hotel.lake).run([TOPIC], None, to_ms, known=known).topics
    return found


def test_where_everything_is_at_every_tier_it_is_judged_up_to_the_last(hotel: Hotel, young: Told) -> None:
    found = audited(hotel, young)
    assert (found.verdict, found.findings) == (AuditVerdict.CLEAN, [])
    assert found.archived.messages == NUMBER
    assert {name.name: name.outcomes for name in found.subscriptions} == {
        name: {"settled": NUMBER} for name in SUBSCRIPTIONS
    }
    assert all(window.closed for window in found.windows)


@pytest.mark.parametrize(("later_ms", "verdict"), [(10_000, AuditVerdict.CLEAN), (10_001, AuditVerdict.OPEN)])
def test_a_span_that_was_asked_for_and_has_not_ended_is_open(
    hotel: Hotel, young: Told, later_ms: int, verdict: AuditVerdict
) -> None:
    assert audited(hotel, young, young.published[-1].stored_ms + later_ms).verdict is verdict


def _untold(told: Told) -> None:
    told.published = told.published[:-1]


def _not_archived(told: Told) -> None:
    told.stored = [each for each in told.stored if each is not told.published[-1]]


def _not_handled(told: Told) -> None:
    told.deliveries = told.deliveries[:-1]


def _numbered_on(told: Told) -> None:
    last = told.stored[-1]
    jumped = replace(last, sequence=str(int(last.sequence) + 1))
    told.stored, told.published = [*told.stored[:-1], jumped], [*told.published[:-1], jumped]


@pytest.mark.parametrize("awaited", [_untold, _not_archived, _not_handled, _numbered_on])
def test_whatever_may_yet_be_told_keeps_it_open_and_is_no_finding(
    hotel: Hotel, young: Told, awaited: Callable[[Told], None]
) -> None:
    end_ms = young.published[-1].stored_ms + 1
    awaited(young)
    found = audited(hotel, young, end_ms)
    assert (found.verdict, found.findings) == (AuditVerdict.OPEN, [])
    assert found.closed_ms <= end_ms + 10_000 - TELLING_MS


def test_what_is_older_is_told_also_where_nothing_is_awaited(hotel: Hotel) -> None:
    told = season(NUMBER, hotel.start_ms, every_ms=40_000)
    told.published = told.published[1:]
    found = audited(hotel, told)
    assert [(finding.kind, finding.count) for finding in found.findings] == [("untold", 1)]
    assert found.archived.messages == NUMBER


@pytest.mark.parametrize(("later_ms", "verdict"), [(1, AuditVerdict.CLEAN), (0, AuditVerdict.OPEN)])
def test_the_outcome_of_what_the_store_is_done_with_is_not_awaited(
    hotel: Hotel, young: Told, later_ms: int, verdict: AuditVerdict
) -> None:
    last_ms = young.stored[-1].stored_ms
    _not_handled(young)
    found = audited(hotel, young, last_ms + 1, last_ms + later_ms)
    assert found.verdict is verdict
    said = [(finding.kind, finding.subscription, finding.count) for finding in found.findings]
    assert said == ([("done_untold", "housekeeping", 1)] if later_ms else [])
