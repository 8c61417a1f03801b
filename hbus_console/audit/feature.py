"""The audit log."""

from __future__ import annotations

from hbus_console.access.acts import Act, Role
from hbus_console.registry.declaration import Feature, MenuEntry, Mount

AUDIT_READ = Act("audit.read", Role.OPERATOR, "read the audit log", reading=True)
AUDIT_EXPORT = Act("audit.export", Role.GOVERNOR, "export the audit log")
AUDIT_ANCHOR = Act("audit.anchor", Role.ADMIN, "begin the anchors of the audit log")

FEATURE = Feature(
    name="audit",
    menu=(MenuEntry("audit", "Audit log", "outline/file-text", "audit:list", "a", "Governance", 10, act=AUDIT_READ),),
    pages=(Mount("audit/", "hbus_console.audit.urls"),),
    api=("hbus_console.audit.api",),
    acts=(
        AUDIT_READ,
        AUDIT_EXPORT,
        AUDIT_ANCHOR,
    ),
    audit_words={
        "audit.anchor": "began the anchors of the",
        "audit.export": "exported the",
    },
    prepare=("hbus_console.audit.beginning:prepare",),
    duties=(
        "hbus_console.audit.anchor:AuditAnchor",
        "hbus_console.audit.duty:AuditVerification",
        "hbus_console.audit.open_decisions:UntoldDecisions",
        "hbus_console.audit.refusal_counts:RefusalSums",
    ),
    concerns=("hbus_console.audit.concerns:concerns",),
    live=("hbus_console.audit.live:cells",),
)
