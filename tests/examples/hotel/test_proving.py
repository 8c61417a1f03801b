"""The proof of the demo stands beside the archive's own job, which takes the same messages."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from engine.pipeline.audit.report import AuditVerdict
from engine.pipeline.lake.errors import Superseded
from examples.hotel import proving
from hbus_console.access.permissions import SYSTEM


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was done; the first archiving meets the job."""
    done: list[str] = []
    outcomes: Iterator[Superseded | None] = iter([Superseded("Another run has archived t meanwhile.", remedy=""), None])

    def archive(*_: object, **__: object) -> None:
        done.append("archived")
        if error := next(outcomes):
            raise error

    def audit(_: object) -> SimpleNamespace:
        done.append("audited")
        return SimpleNamespace(verdict=AuditVerdict.CLEAN)

    def at_once(*_: object, **__: object) -> SimpleNamespace:
        done.append("kept")
        return SimpleNamespace(row=SimpleNamespace(pk=1), report=None)

    monkeypatch.setattr(proving, "run_archive", archive)
    monkeypatch.setattr(proving, "wanted_topics", list)
    monkeypatch.setattr(proving, "run_audit", audit)
    monkeypatch.setattr(proving, "audit_at_once", at_once)
    monkeypatch.setattr(proving, "_proof", lambda *_: done.append("told"))
    return done


def test_a_topic_that_the_job_archived_first_is_looked_at_again(steps: list[str]) -> None:
    proving.prove(SYSTEM, ["t"], threading.Event())
    assert steps == ["archived", "archived", "audited", "kept", "told"]


def test_it_ends_where_that_goes_on_for_too_long(steps: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proving, "PATIENCE_S", -1.0)
    with pytest.raises(Superseded):
        proving.prove(SYSTEM, ["t"], threading.Event())
    assert steps == ["archived"]
