"""The kinds of facts that the quota engine declares."""

from __future__ import annotations

import logging

from engine.core.fact_kinds import QUIET, FactCatalog, FactCounter, FactKind, Tone
from engine.quota.facts import QuotaFields

_LABELS = ("resource", "limiter")


def _used(name: str, sentence: str, tone: Tone, says: str) -> FactKind:
    # What a minute adds up to is kept; each of these would be a row too many. Tenants are too many for labels.
    return FactKind(
        name,
        sentence,
        tone,
        QUIET,
        FactCounter(says, ("service", "policy"), adds="amount", by_fields=True),
        booked=False,
    )


KINDS = (
    _used("quota_admitted", "tokens were admitted", Tone.OK, "Tokens that limits admitted."),
    _used("quota_delayed", "tokens were admitted after a wait", Tone.INFO, "Of these, tokens that had to wait."),
    _used("quota_refused", "tokens were refused", Tone.WARN, "Tokens that limits refused."),
    _used("quota_shadowed", "a shadow limit would have refused tokens", Tone.INFO, "Tokens a shadow would refuse."),
    FactKind(
        "quota_cut_off",
        "a node lost its quota control plane",
        Tone.WARN,
        logging.WARNING,
        FactCounter("Times that a node lost its quota control plane."),
    ),
    FactKind(
        "quota_back",
        "a node reached its quota control plane again",
        Tone.OK,
        logging.INFO,
        FactCounter("Times that a node reached its quota control plane again."),
    ),
)
CATALOG = FactCatalog("quota", KINDS, fields=QuotaFields, labels=_LABELS)
