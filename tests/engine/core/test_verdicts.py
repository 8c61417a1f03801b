"""The verdict of some findings, of some things together, and the sentence that a finding is told by."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from engine.core.verdicts import WORST_FIRST, AuditVerdict, FindingForm, Severity, verdict_of, worst_of

WRONG, EXPLAINED, NOTICE = Severity.WRONG, Severity.EXPLAINED, Severity.NOTICE


@pytest.mark.parametrize(
    ("found", "is_open", "verdict"),
    [
        ([], False, AuditVerdict.CLEAN),
        ([NOTICE], False, AuditVerdict.CLEAN),
        ([NOTICE, EXPLAINED], False, AuditVerdict.EXPLAINED),
        ([EXPLAINED], True, AuditVerdict.OPEN),
        ([], True, AuditVerdict.OPEN),
        ([EXPLAINED, WRONG], True, AuditVerdict.WRONG),
    ],
)
def test_what_is_wrong_outweighs_what_is_open_and_that_what_is_explained(
    found: Sequence[Severity], is_open: bool, verdict: AuditVerdict
) -> None:
    assert verdict_of(found, is_open=is_open) is verdict


def test_of_several_the_worst_counts_and_of_none_it_is_clean() -> None:
    assert worst_of([]) is AuditVerdict.CLEAN
    for place, verdict in enumerate(WORST_FIRST):
        assert worst_of(reversed(WORST_FIRST[place:])) is verdict


def test_one_and_several_are_told_apart() -> None:
    form = FindingForm(WRONG, "{count} slots have no run", "1 slot has no run")
    assert (form.says(1), form.says(1_234), form.says(0)) == (
        "1 slot has no run", "1,234 slots have no run", "0 slots have no run",
    )  # fmt: skip
