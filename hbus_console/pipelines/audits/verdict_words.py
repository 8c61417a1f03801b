"""How pages say a verdict and how bad a finding is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from engine.core.verdicts import AuditVerdict, Severity

#: What each verdict is called, and its tone.
VERDICTS: Mapping[AuditVerdict, tuple[str, str]] = {
    AuditVerdict.WRONG: ("something is wrong", "bad"),
    AuditVerdict.OPEN: ("not all is there yet", "info"),
    AuditVerdict.EXPLAINED: ("holds, with what is explained", "warn"),
    AuditVerdict.CLEAN: ("holds", "ok"),
}
TONES: Mapping[Severity, str] = {Severity.WRONG: "bad", Severity.EXPLAINED: "warn", Severity.NOTICE: "info"}
ICONS: Mapping[str, tuple[str, str]] = {
    "bad": ("outline/alert-circle", "wrong"),
    "warn": ("outline/alert-triangle", "explained"),
    "info": ("outline/info-circle", "worth knowing"),
    "muted": ("outline/minus", "not judged"),
    "ok": ("outline/check", "holds"),
}
WORST = (Severity.WRONG, Severity.EXPLAINED, Severity.NOTICE)


class _HasVerdict(Protocol):
    @property
    def verdict(self) -> AuditVerdict: ...


class WithVerdict:
    """What a page says of a verdict."""

    __slots__ = ()

    @property
    def says(self: _HasVerdict) -> str:
        return VERDICTS[self.verdict][0]

    @property
    def tone(self: _HasVerdict) -> str:
        return VERDICTS[self.verdict][1]
