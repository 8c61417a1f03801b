"""The anchors go on, and are read, whatever somebody writes into their file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hbus_console.audit.anchor import anchor_head, anchors_path, last_anchor
from hbus_console.audit.verify import FindingKind, verify

Write = Callable[..., list[Any]]
Tamper = Callable[..., None]

#: What somebody wrote behind the anchors: without an end, as lines, and as lines that look like theirs.
BEHIND = {
    "no end": b"x" * 5_000,
    "no end, with lines": b"x" * 5_000 + b"\nx" * 40_000,
    "a long line": b"x" * 5_000 + b"\n",
    "many lines": b'{"hash": 1}\n' * 2_000,
    "lines of no hash": b'{"seq": 1, "hash": "ab", "at": "2026-01-01T00:00:00.000Z"}\n' * 100,
    "escapes": b'{"seq": 2, "hash": "\\ud800", "at": "2026-01-01T00:00:00.000Z", "mac": "\\ud800"}\n',
    "no ASCII": '{"seq": 2, "hash": "ü", "at": "2026-01-01T00:00:00.000Z", "mac": "ü"}\n'.encode(),
    "no number": b'{"seq": 1e999, "hash": "ab", "at": "2026-01-01T00:00:00.000Z"}\n',
    "no instant": b'{"seq": 2, "hash": "ab", "at": 7, "mac": "x"}\n',
}


@pytest.mark.parametrize("what", BEHIND)
def test_nothing_that_others_write_behind_the_anchors_stops_them_or_makes_them_none(
    write: Write, tamper: Tamper, what: str
) -> None:
    """Found by a stranger: 5,000 bytes without an end, and nothing was anchored any more, nor said to be missing."""
    write(2)
    anchor_head()
    with anchors_path().open("ab") as file:
        file.write(BEHIND[what])
    known = last_anchor()
    assert known is not None
    verdict = verify()
    assert not verdict.bare
    assert [finding.kind for finding in verdict.findings] == [FindingKind.ANCHOR] * len(verdict.findings)
    assert verdict.findings, "no crash leaves so much behind"
    write(1)
    anchor_head(begin=False)
    known = last_anchor()
    assert known is not None
    assert known.seq == 3
    tamper("DELETE FROM audit_auditentry WHERE seq > 1")
    assert (FindingKind.TRUNCATED, 2) in [(found.kind, found.seq) for found in verify().findings]
