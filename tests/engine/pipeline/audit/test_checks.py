"""Each kind of finding answers one of the questions that an audit is asked."""

from __future__ import annotations

from collections import Counter

from engine.pipeline.audit.checks import CHECK_OF, CHECKS
from engine.pipeline.audit.findings import FindingKind


def test_every_kind_of_finding_belongs_to_one_check() -> None:
    asked = Counter(kind for check in CHECKS for kind in check.kinds)
    assert asked == Counter(FindingKind)
    assert {kind: kind in check.kinds for kind, check in CHECK_OF.items()} == dict.fromkeys(FindingKind, True)
