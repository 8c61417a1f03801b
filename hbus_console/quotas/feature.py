"""Quotas: so much and no more, for tenants, plans and everybody."""

from __future__ import annotations

from hbus_console.access.acts import Act, Role
from hbus_console.registry.declaration import Feature, MenuEntry, Mount, Owned, SubjectKind

#: A policy may cover everybody, whatever it is called: no scope but the whole installation can be given for it.
QUOTA_EDIT = Act("quota.edit", Role.GOVERNOR, "make, change and delete quota policies")
QUOTA_PLAN = Act("quota.plan", Role.GOVERNOR, "say which plan a tenant has")
#: For itself, of resources in its scope.
QUOTA_WANT = Act("quota.want", Role.VIEWER, "ask for tokens")
QUOTA_WANT_FOR = Act("quota.want_for", Role.GOVERNOR, "want tokens for any tenant")

FEATURE = Feature(
    name="quotas",
    offers=("asking",),
    menu=(MenuEntry("quotas", "Quotas", "outline/gauge", "quotas:list", "q", "Limits", 10),),
    pages=(Mount("", "hbus_console.quotas.urls"),),
    api=("hbus_console.quotas.api",),
    acts=(QUOTA_EDIT, QUOTA_PLAN, QUOTA_WANT, QUOTA_WANT_FOR),
    subjects=(
        SubjectKind("policy", "quota policy", address="hbus_console.quotas.addresses:policy"),
        SubjectKind("limiter", "limit", address="hbus_console.quotas.addresses:limiter"),
        SubjectKind("tenant", "tenant", address="hbus_console.quotas.addresses:tenant"),
        SubjectKind("quota-book", "version of the quota policies", address="hbus_console.quotas.addresses:book"),
        SubjectKind("quota-node", "node that holds to limits", address="hbus_console.quotas.addresses:node"),
    ),
    owned=(
        Owned(
            "policies",
            "name",
            text="hbus_console.quotas.addresses:text",
            address="hbus_console.quotas.addresses:address",
            url_name="quotas:list",
        ),
    ),
    facts=("engine.quota.fact_kinds:CATALOG",),
    projection="hbus_console.quotas.projection:QuotaProjection",
    ledger_models=("QuotaUse", "QuotaUseRollup", "QuotaUseDay", "UsesTrimmed"),
    alerts=("hbus_console.quotas.alerts:KINDS",),
    audits=("hbus_console.quotas.auditing:CHECK",),
    concerns=("hbus_console.quotas.concerns:concerns",),
    search=("hbus_console.quotas.finding:find",),
    live=("hbus_console.quotas.live:cells",),
    duties=(
        "hbus_console.quotas.keeping:book_keeper",
        "hbus_console.quotas.keeping:node_counter",
        "hbus_console.quotas.retention:quota_retention",
        "hbus_console.quotas.book_retention:book_retention",
    ),
    audit_words={
        "quota.create": "created",
        "quota.change": "changed",
        "quota.restore": "restored",
        "quota.delete": "deleted",
        "quota.promote": "gave everybody what was tried of",
        "quota.plan": "set the plan of",
        "quota.plans": "set the plans of tenants in version",
        "quota.roll_back": "went back to version",
        "quota.scheduled": "went over to version",
        "quota.renumber": "numbered all anew as version",
    },
)
