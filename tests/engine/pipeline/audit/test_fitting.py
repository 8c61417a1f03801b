"""Payloads are held against what was theirs: each once, and again where that changed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.core.verdicts import AuditVerdict
from engine.pipeline.audit.findings import FindingKind
from engine.pipeline.audit.sides import FITTED, path_of_side
from engine.pipeline.lake.compaction import compact
from tests.engine.pipeline.audit.asking import BookingRules, audit, counts, of_kind
from tests.engine.pipeline.audit.planting import Planter
from tests.engine.pipeline.audit.telling import TOPIC, Hotel, Told


@pytest.fixture
def odd(told: Told) -> Told:
    Planter(told).of_another_form(7)
    return told


def test_each_names_its_message_and_what_is_wrong_with_it(hotel: Hotel, odd: Told) -> None:
    hotel.archive(odd)
    found = audit(hotel, samples=9)
    (finding,) = found.findings
    assert (finding.says, found.verdict) == ("7 payloads break the schema that was theirs", AuditVerdict.WRONG)
    by_id = {each.id: each for each in odd.stored}
    assert len(finding.samples) == 7
    for sample in finding.samples:
        each = by_id[sample.id]
        told_of = (sample.source, sample.key, sample.at_ms, sample.note)
        assert told_of == (each.source, each.key, each.time_ms, "booking is of type int")


def test_a_message_is_asked_about_once_and_only_samples_again(hotel: Hotel, odd: Told) -> None:
    hotel.archive(odd)
    first, second = BookingRules(), BookingRules()
    assert counts(audit(hotel, rules=first)) == counts(audit(hotel, rules=second))
    assert (len(first.asked), len(second.asked)) == (6_000 + 5, 5)


@pytest.mark.parametrize("harm", ["another name", "a damaged answer", "no answer", "merged files"])
def test_what_was_answered_counts_only_for_the_same_rules_and_the_same_file(hotel: Hotel, odd: Told, harm: str) -> None:
    hotel.archive(odd, rounds=3)
    before, rules = audit(hotel), BookingRules(name="2" if harm == "another name" else "1")
    for file in hotel.lake.state().files_of(TOPIC):
        path = path_of_side(hotel.root, file, FITTED)
        if harm == "a damaged answer":
            path.write_bytes(path.read_bytes()[:-16] + bytes(16))
        elif harm == "no answer":
            path.unlink()
    if harm == "merged files":
        assert compact(hotel.lake).made > 0
    assert counts(audit(hotel, rules=rules)) == counts(before)
    assert len(rules.asked) > 3_000 if harm == "merged files" else len(rules.asked) == 6_000 + 5


def test_nothing_is_asked_of_files_from_before_there_was_anything_to_ask(hotel: Hotel, odd: Told) -> None:
    hotel.archive(odd, rounds=3)
    last_ms = max(file.last_ms for file in hotel.lake.state().files_of(TOPIC))
    rules = BookingRules(since_ms=last_ms + 1)
    assert audit(hotel, rules=rules).findings == []
    assert rules.asked == []


def test_copies_and_what_is_no_envelope_are_not_held_against_it(hotel: Hotel, told: Told) -> None:
    told.stored = [replace(each, data={"booking": 7}, replay="r-1") for each in told.stored[:40]]
    told.stored += [replace(told.stored[-1], id="", body=b'{"specversion":"1.0"}')]
    told.published, told.deliveries = [], []
    hotel.archive(told)
    rules = BookingRules()
    assert FindingKind.UNFIT not in {each.kind for each in audit(hotel, rules=rules).findings}
    assert rules.asked == []


def test_a_message_is_told_when_it_was_made_and_when_it_was_stored(hotel: Hotel, told: Told) -> None:
    plain = told.stored[0]
    late, early = replace(plain, id="late", time_ms=plain.stored_ms + 7), replace(plain, id="early", time_ms=None)
    long_ago = replace(plain, id="long ago", time_ms=plain.stored_ms - 90_000_000)
    told.stored, told.published, told.deliveries = [late, early, long_ago], [], []
    hotel.archive(told)
    rules = BookingRules()
    audit(hotel, rules=rules)
    assert [each.stored_ms for each in rules.asked] == [plain.stored_ms] * 3
    made = sorted(each.made_ms for each in rules.asked)
    assert made == [plain.stored_ms - 90_000_000, plain.stored_ms, plain.stored_ms]


def test_one_out_of_the_span_is_not_told(hotel: Hotel, odd: Told) -> None:
    hotel.archive(odd)
    wrong = sorted(each.time_ms or 0 for each in odd.stored if each.data)
    found = audit(hotel, from_ms=wrong[2], to_ms=wrong[5], samples=9)
    assert of_kind(found, FindingKind.UNFIT).count == 3
