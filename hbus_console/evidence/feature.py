"""What engines tell, booked."""

from __future__ import annotations

from hbus_console.registry.declaration import ALL_MODELS, Feature, Mount

FEATURE = Feature(
    name="evidence",
    pages=(Mount("evidence/", "hbus_console.evidence.urls"),),
    api=("hbus_console.evidence.api",),
    facts=("engine.core.fact_kinds:FACTS",),
    ledger_models=(ALL_MODELS,),
    kept=("evidence",),
    duties=("hbus_console.wiring.fact_log:fact_collector", "hbus_console.evidence.retention:evidence_retention"),
    concerns=("hbus_console.evidence.concerns:concerns",),
    search=("hbus_console.evidence.finding:find",),
    live=("hbus_console.evidence.live:cells",),
)
