"""Faults that were planted are found, exactly those and no others; what is as it should be gives no finding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from engine.core.errors import BadInput, NotThere
from engine.core.verdicts import AuditVerdict, Severity
from engine.pipeline.audit.auditing import Auditor
from engine.pipeline.audit.findings import FindingKind, Lying
from tests.engine.pipeline.audit.asking import audit, counts, of_kind, report
from tests.engine.pipeline.audit.planting import Planter
from tests.engine.pipeline.audit.telling import TOPIC, Hotel, Told

FAULTS: dict[str, Callable[[Planter], None]] = {
    "not archived": lambda planter: planter.not_archived(6),
    "not told": lambda planter: planter.not_told(30),
    "stored again": lambda planter: planter.stored_again(60),
    "stored again with another payload": lambda planter: planter.stored_again(8, data={"booking": "another"}),
    "swapped": lambda planter: planter.swapped(20),
    "never published": lambda planter: planter.never_published(12),
    "not delivered": lambda planter: planter.not_delivered(25, "billing"),
    "retried": lambda planter: planter.happened(40, "housekeeping", FindingKind.RETRIED, ["retried", "settled"]),
    "interrupted": lambda planter: planter.interrupted(13, "billing"),
    "dead": lambda planter: planter.happened(15, "billing", FindingKind.DEAD, ["dead"]),
    "lost": lambda planter: planter.happened(3, "billing", FindingKind.LOST, ["lost"]),
    "passed": lambda planter: planter.happened(9, "housekeeping", FindingKind.PASSED, ["passed"]),
    "handled again": lambda planter: planter.happened(7, "billing", FindingKind.HANDLED_AGAIN, ["settled", "settled"]),
    "off the clock": lambda planter: planter.off_the_clock(11),
    "of another source": lambda planter: planter.of_another_source(10, "/somebody/else"),
    "no envelope": lambda planter: planter.no_envelope(5),
    "of another form": lambda planter: planter.of_another_form(17),
    "told of nobody": lambda planter: planter.told_of_nobody(4, "billing"),
}


def test_what_is_as_it_should_be_gives_no_finding(hotel: Hotel, told: Told) -> None:
    hotel.archive(told)
    found = audit(hotel)
    assert found.findings == []
    assert found.verdict is AuditVerdict.CLEAN
    assert found.archived.messages == found.published.messages == 6_000
    assert found.archived.bytes == found.published.bytes == sum(len(each.envelope) for each in told.stored)
    assert found.complete == 1.0
    assert [(each.name, each.outcomes, each.open) for each in found.subscriptions] == [
        ("billing", {"settled": 6_000}, 0),
        ("housekeeping", {"settled": 6_000}, 0),
    ]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_at_its_count_and_nothing_else(hotel: Hotel, told: Told, fault: str) -> None:
    planter = Planter(told)
    FAULTS[fault](planter)
    hotel.archive(told)

    found = audit(hotel, samples=1_000)

    assert counts(found) == planter.expected
    for finding in found.findings:
        if ids := planter.ids[finding.kind, finding.subscription]:
            assert {sample.id for sample in finding.samples} == ids
            assert len(finding.samples) == len(ids)
    bad = any(finding.severity is Severity.WRONG for finding in found.findings)
    assert found.verdict is (AuditVerdict.WRONG if bad else AuditVerdict.CLEAN)


def test_all_faults_at_once_are_found_each_at_its_count(hotel: Hotel, told: Told) -> None:
    planter = Planter(told)
    for plant in FAULTS.values():
        plant(planter)
    hotel.archive(told, rounds=5)
    assert counts(audit(hotel)) == planter.expected


def test_five_in_a_hundred_are_found_as_well(hotel: Hotel, told: Told) -> None:
    planter = Planter(told)
    planter.stored_again(300)
    planter.not_told(300)
    planter.not_delivered(300, "housekeeping")
    hotel.archive(told)
    assert counts(audit(hotel)) == planter.expected


def test_a_finding_names_a_few_messages_and_tells_their_sources_keys_and_times(hotel: Hotel, told: Told) -> None:
    planter = Planter(told)
    planter.not_told(30)
    hotel.archive(told)
    (finding,) = audit(hotel).findings
    by_id = {each.id: each for each in told.stored}
    assert len(finding.samples) == 5
    for sample in finding.samples:
        each = by_id[sample.id]
        assert (sample.source, sample.key, sample.at_ms) == (each.source, each.key, each.time_ms)
    assert finding.says == "30 messages are in the lake, and the ledger knows none of them"


def test_what_is_no_envelope_is_named_by_its_place_and_by_why_it_is_none(hotel: Hotel, told: Told) -> None:
    odd = replace(told.stored[700], id="", body=b'{"specversion":"1.0","id":"7"}')
    long = replace(
        told.stored[800], id="", body=b'{"specversion":"1.0","id":"8","source":"/","type":"t","%s":1}' % (b"N" * 900)
    )
    told.stored[700:701], told.stored[800:801] = [odd, told.stored[700]], [long, told.stored[800]]
    hotel.archive(told, rounds=1)

    (first, second) = of_kind(audit(hotel), FindingKind.MALFORMED).samples

    assert (first.id, first.at_ms) == ("", odd.stored_ms)
    place = [each for each in told.stored if each.log == odd.log].index(odd)
    assert first.places == [Lying(odd.log, f"{odd.stored_ms}-{place}", odd.stored_ms)]
    assert first.named == f"{odd.stored_ms}-{place}"
    assert "missing required field `source`" in first.note
    assert "Attribute name 'NNN" in second.note
    assert len(second.note) == 300


@pytest.mark.parametrize("changes", [{}, {"data": {"booking": "another"}}])
def test_what_was_stored_again_names_both_places(hotel: Hotel, told: Told, changes: dict[str, object]) -> None:
    planter = Planter(told)
    planter.stored_again(40, **changes)
    hotel.archive(told)
    (finding,) = audit(hotel, samples=40).findings
    stored: dict[str, list[int]] = {}
    for each in told.stored:
        stored.setdefault(each.id, []).append(each.stored_ms)
    assert len(finding.samples) == 40
    for sample in finding.samples:
        assert [place.stored_ms for place in sample.places] == stored[sample.id]
        assert all(place.position.startswith(f"{place.stored_ms}-") for place in sample.places)


def test_a_message_is_known_by_what_the_ledger_keeps_of_its_id_and_source(hotel: Hotel, told: Told) -> None:
    one = told.stored[10]
    told.stored[10] = replace(one, id=f"{one.id[:3]}\0{one.id[3:]}\0", source=f"\0{one.source}")
    hotel.archive(told)
    assert audit(hotel).findings == []


def test_a_topic_that_the_lake_has_not_is_refused(hotel: Hotel, told: Told) -> None:
    hotel.archive(told)
    with pytest.raises(NotThere):
        Auditor(hotel.lake).run(["unknown"])


@pytest.mark.parametrize("window_ms", [1, 59_999])
def test_windows_that_do_not_fit_are_refused(hotel: Hotel, told: Told, window_ms: int) -> None:
    hotel.archive(told)
    with pytest.raises(BadInput) as refused:
        report(hotel, window_ms=window_ms)
    assert refused.value.field == "window"
    with pytest.raises(BadInput) as refused:
        report(hotel, from_ms=5, to_ms=5)
    assert refused.value.field == "to"
    assert Auditor(hotel.lake).run([TOPIC]).topics[0].topic == TOPIC
