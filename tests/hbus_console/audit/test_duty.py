from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import structlog

from engine.core.clock import ManualClock
from hbus_console.audit.duty import AuditVerification
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.state import Verified, last_verified

Write = Callable[..., list[AuditEntry]]


def known() -> Verified:
    found = last_verified()
    assert found is not None
    return found


def test_new_entries_are_verified_each_time_and_all_of_them_once_a_day(
    write: Write, tamper: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hbus_console.audit.state.FULL_UP_TO", 1)
    clock = ManualClock()
    duty = AuditVerification(clock)
    write(3)
    duty.tick()
    first = clock.now_ms()
    assert (known().seq, known().full_at_ms) == (3, first)
    tamper("UPDATE audit_auditentry SET actor = 'bob' WHERE seq = 2")
    write(2)
    clock.advance(600)
    duty.tick()
    assert (known().holds, known().seq, known().full_at_ms) == (True, 5, first)
    clock.advance(24 * 3600)
    with structlog.testing.capture_logs() as logs:
        duty.tick()
    assert not known().holds
    assert [(line["log_level"], line["worst"]) for line in logs] == [
        ("error", "Entry 2 (topic.pause) does not match its hash.")
    ]
